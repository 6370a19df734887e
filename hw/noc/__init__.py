"""The network on chip: flits, the XY router, and the mesh that a machine's picture describes."""
