"""The memory port: descriptors and writes of the mesh become AXI4, answers become flits."""
