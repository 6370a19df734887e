"""The reference: one element at a time, in Python integers. Slow, plain, and right."""
