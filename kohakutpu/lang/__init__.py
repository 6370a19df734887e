"""Kernels for this machine."""
