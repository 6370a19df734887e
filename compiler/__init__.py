"""Turns a traced kernel into programs for the units of a KohakuTPU, one pass a file."""
