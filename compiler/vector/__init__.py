"""Elementwise and row computations: from value graphs to VFILL, EXEC and VDRAIN."""
