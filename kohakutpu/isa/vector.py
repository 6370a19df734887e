"""Vector core instructions: windows in, elementwise and row arithmetic, windows out."""

from __future__ import annotations

from kohakuaccel.isa import Check, Enumeration, Operand, Record, Unsigned
from kohakutpu.isa import transfer
from kohakutpu.isa.operands import (
    DESTINATION,
    EXTENT,
    LOCAL,
    LOCAL_STRIDE,
    MEMORY,
    SOURCE,
    STRIDE,
    WORD,
)
from kohakutpu.isa.values import Address, Source

_ROWS = Operand("rows", Unsigned(12, low=1), "rows of the window")
_COLS = Operand("cols", Unsigned(16, low=1), "elements in a row of the window")
_ROW_EXTENT = Operand("row_extent", EXTENT, "true rows")
_COL_EXTENT = Operand("col_extent", EXTENT, "true elements in a row")
_NO_SOURCE = Source("none")
_L1 = ("l1h", "l1f")

VFILL = Record(
    "VFILL",
    12,
    (
        Operand("mem", MEMORY, "first element, in quarters"),
        Operand("stride", STRIDE, "words from memory row to memory row; 0 repeats one row"),
        Operand("l1", LOCAL, "first L1 word"),
        Operand("l1_stride", LOCAL_STRIDE, "words from L1 row to L1 row"),
        _ROWS,
        _ROW_EXTENT,
        _COLS,
        _COL_EXTENT,
        Operand("format", transfer.FORMAT, "size of an element"),
        Operand("nodes", transfer.NODES, "cores that receive it; empty: this one", default=0),
    ),
    form=WORD,
    engine=0,
    summary="copy rows from memory to L1",
    meaning="""\
Row `r` of the window is `ceil(cols * size / 32)` words at L1 word `l1 + r * l1_stride`, copied from
the memory row at quarter `mem + 4 * r * stride`. Elements at or past an extent, and the tail of
the last word, become zeros; a row with nothing below the extents costs no memory request. The
instruction has finished when every word has landed at every receiver.""",
)

EXEC = Record(
    "EXEC",
    13,
    (
        _ROWS,
        Operand("cols", Unsigned(14, low=1), "elements in a row"),
        Operand("f", Enumeration("mac max min lt le eq select"), "what is computed of `a b c`"),
        Operand("a", SOURCE, "first source"),
        Operand("b", SOURCE, "second source", default=_NO_SOURCE),
        Operand("c", SOURCE, "third source", default=_NO_SOURCE),
        Operand(
            "unary",
            Enumeration("none abs neg exp2 log2 recip rsqrt"),
            "applied to the value of `f`",
            default="none",
        ),
        Operand("dst", DESTINATION, "where the rows go"),
        Operand("reduce", Enumeration("none sum max min"), "how a row is reduced", default="none"),
        Operand(
            "red",
            LOCAL,
            "beat of the reduced rows: lane `r % lanes` of beat `red + r // lanes`",
            default=Address(0, 0),
        ),
    ),
    form=WORD,
    engine=1,
    checks=(
        Check("first source", "`a` is not none", lambda i: i.a.kind != "none"),
        Check(
            "pair",
            "with `f` max, min, lt, le or eq, `b` is not none and `c` is none",
            lambda i: i.f in ("mac", "select") or (i.b.kind != "none" and i.c.kind == "none"),
        ),
        Check(
            "triple",
            "with `f` select, neither `b` nor `c` is none",
            lambda i: i.f != "select" or "none" not in (i.b.kind, i.c.kind),
        ),
        Check(
            "L1 ports",
            "at most two sources are L1 windows",
            lambda i: (i.a.kind in _L1) + (i.b.kind in _L1) + (i.c.kind in _L1) <= 2,
        ),
        Check(
            "no reduction",
            "with `reduce=none`, `red` is 0",
            lambda i: i.reduce != "none" or i.red == Address(0, 0),
        ),
    ),
    summary="compute rows of elements, and reduce them",
    meaning="""\
For `rows x cols` elements, `dst = unary(f(a, b, c))` and, unless `reduce` is none,
`red[r] = reduce(dst[r, 0:cols])` of the FP32 values before they are rounded to `dst`.

| `f` | value |
|---|---|
| `mac` | `a * b + c`; without `b`: `a + c`, without `c`: `a * b`, without both: `a` |
| `max`, `min` | of `a` and `b` |
| `lt`, `le`, `eq` | 1.0 or 0.0 (anything with NaN: 0.0) |
| `select` | `a` where `c` is not zero (NaN is not zero), else `b` |

Each of multiply, add and unary rounds once, separately. A source is nothing, an FP32 immediate, a
window of the register file (`reg`, in beats) or of L1 (`l1h` FP16, `l1f` FP32, in words), or a
scalar a row (`row`). A stride of 0 repeats one row. What is written past `cols` in the last beat or
word of a row is zero.

A destination window, `red` included, must be disjoint from every source window or be the same
window (same base, stride and format); two destinations are disjoint, and the rows of `dst` do not
overlap. Anything else is the fault `OVERLAP`.""",
)

VDRAIN = Record(
    "VDRAIN",
    14,
    (
        Operand("l1", LOCAL, "first L1 word"),
        Operand("l1_stride", LOCAL_STRIDE, "words from L1 row to L1 row"),
        _ROWS,
        _ROW_EXTENT,
        _COLS,
        _COL_EXTENT,
        Operand("format", transfer.FORMAT, "format in L1 and as it leaves"),
        Operand("order", transfer.ORDER_OPERAND.kind, "what the window holds: rows, or sub-tiles"),
        transfer.TO,
        transfer.MEM,
        transfer.STRIDE_OPERAND,
        transfer.NODES_OPERAND,
        transfer.BUFFER,
        transfer.RESIDUAL,
    ),
    form=WORD,
    engine=2,
    checks=(
        *transfer.RECEIVER_CHECKS,
        Check(
            "whole sub-tiles",
            "with `order=tile`, `rows` and `cols` are multiples of 4",
            lambda i: i.order != "tile" or (i.rows | i.cols) % 4 == 0,
        ),
    ),
    summary="send rows of L1 to memory or to another unit",
    meaning="""\
The window leaves row by row, exactly as a `DRAIN` with `order=row` does. With `order=tile` the
window holds sub-tiles, `(g, h)` at word `l1 + g * l1_stride + h * words` with 1 (FP16) or 2 (FP32)
`words`, `rows = 4 * gm` and `cols = 4 * gn`; what leaves is in row order all the same.""",
)

RECORDS = (VFILL, EXEC, VDRAIN)
