"""Simulating hardware under Verilator: tools, build cache, vectors through a component."""
