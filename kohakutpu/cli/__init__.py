"""The command line, `ktpu`: run programs, and look at what kernels compile to."""

from kohakutpu.cli.main import main

__all__ = ["main"]
