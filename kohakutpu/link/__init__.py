"""The host link: memory and registers of a machine over a line that carries bytes.

:mod:`kohakutpu.link.frames` is what both ends say, `hw.link` the machine's end,
:mod:`kohakutpu.link.client` the host's. The protocol is described in ``docs/link.md``.
"""

from kohakutpu.link.client import Hello, Line, Link, LinkError, Refused

__all__ = ["Hello", "Line", "Link", "LinkError", "Refused"]
