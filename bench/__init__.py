"""Benchmarks against numpy, run as `python -m bench`."""
