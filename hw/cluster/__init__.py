"""The datapath of a cluster: FILL, GEMM and DRAIN, and what they work on."""
