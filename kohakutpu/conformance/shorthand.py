"""Engine instructions with what tests rarely say left out.

Numbers stand for absolute addresses, for extents without a register, and for flags.
"""

from __future__ import annotations

from typing import Any

from kohakuaccel.isa import Instruction, Record, Struct
from kohakutpu import isa
from kohakutpu.isa import Address, Destination, Extent, Flag, Source

MANY = (1 << 24) - 1
"""An extent that no window reaches: all of it is true."""

_ADDRESSES = ("l1", "mem", "a", "b", "acc", "red")
_EXTENTS = ("rows", "k", "cols", "row_extent", "col_extent")


def _make(record: Record, operands: dict[str, Any]) -> Instruction:
    made: dict[str, Any] = {}
    for name, value in operands.items():
        if not isinstance(value, int) or (isinstance(value, bool) and name != "accumulate"):
            made[name] = value
        elif name == "accumulate":
            made[name] = Flag(bool(value), 0)
        elif name in _ADDRESSES:
            made[name] = Address(0, value)
        elif name in _EXTENTS and _is_extent(record, name):
            made[name] = Extent(value, 0)
        else:
            made[name] = value
    return record(**made)


def _is_extent(record: Record, name: str) -> bool:
    kind = record.by_name[name].kind
    return isinstance(kind, Struct) and kind.cls is Extent


def fill(buffer: str = "A", **operands: Any) -> Instruction:
    """Return a `FILL` of one whole entry."""
    plain: dict[str, Any] = {"rows": MANY, "k": MANY}
    if operands.get("mode") == "packed":
        plain = {"rows": 0, "k": 0}
    plain |= {"l1": 0, "l1_stride": 1, "mem": 0, "stride": 0, "g": 1, "nk": 1, "mode": "fp16"}
    return _make(isa.FILL, {"buffer": buffer, **plain, **operands})


def gemm(**operands: Any) -> Instruction:
    """Return a `GEMM` of one pair of entries into a cleared sub-tile."""
    plain = {"a": 0, "b": 0, "acc": 0, "gm": 1, "gn": 1, "nk": 1, "a_stride": 1, "b_stride": 1}
    return _make(isa.GEMM, {**plain, "accumulate": False, **operands})


def drain(**operands: Any) -> Instruction:
    """Return a `DRAIN` of one whole sub-tile as FP32 rows."""
    whole = {"rows": MANY, "cols": MANY}
    if operands.get("order") == "tile" and operands.get("to", "memory") == "memory":
        whole = {"rows": 0, "cols": 0}
    plain = {"acc": 0, "gm": 1, "gn": 1, "to": "memory", "mem": 0, "stride": 1}
    return _make(isa.DRAIN, {**plain, **whole, "format": "fp32", "order": "row", **operands})


def vfill(**operands: Any) -> Instruction:
    """Return a `VFILL` of one row of one word."""
    plain = {"mem": 0, "stride": 1, "l1": 0, "l1_stride": 1, "rows": 1, "cols": 16}
    whole = {"row_extent": MANY, "col_extent": MANY, "format": "fp16"}
    return _make(isa.VFILL, {**plain, **whole, **operands})


def vdrain(**operands: Any) -> Instruction:
    """Return a `VDRAIN` of one row of one word."""
    plain = {"mem": 0, "stride": 1, "l1": 0, "l1_stride": 1, "rows": 1, "cols": 16}
    whole = {"row_extent": MANY, "col_extent": MANY, "format": "fp16"}
    return _make(isa.VDRAIN, {**plain, **whole, "order": "row", "to": "memory", **operands})


def execute(**operands: Any) -> Instruction:
    """Return an `EXEC` of one row, ``mac``, without a destination."""
    plain = {"rows": 1, "cols": 1, "f": "mac", "dst": Destination.none()}
    return _make(isa.EXEC, {**plain, **operands})


def source(kind: str, base: int = 0, stride: int = 0) -> Source:
    """Return a window to read."""
    return Source(kind, base=Address(0, base), stride=stride)


def destination(kind: str, base: int = 0, stride: int = 0) -> Destination:
    """Return a window to write."""
    return Destination(kind, Address(0, base), stride)
