"""Machines on FPGA boards: with memory and a host link around them."""
