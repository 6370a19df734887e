"""Synthesis: how much of an FPGA a machine takes, module by module."""
