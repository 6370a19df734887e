"""Expressions over symbols, and the trace that a kernel function leaves behind."""
