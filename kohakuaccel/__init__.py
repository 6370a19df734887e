"""The part of the toolchain that knows no machine: tracing, IR, passes, ISA tables, runtime.

A machine plugs in by supplying instruction tables, passes and a device; nothing here names
one.
"""
