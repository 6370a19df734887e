"""Cluster instructions: operands into L1, contraction, tiles out."""

from __future__ import annotations

from kohakuaccel.isa import Boolean, Check, Enumeration, Operand, Record, Unsigned
from kohakutpu.isa import transfer
from kohakutpu.isa.operands import EXTENT, FLAG, LOCAL, LOCAL_STRIDE, MEMORY, STRIDE, WORD

_COUNT = Unsigned(10, low=1)

FILL = Record(
    "FILL",
    8,
    (
        Operand("buffer", Enumeration("A B"), "L1A or L1B"),
        Operand("l1", LOCAL, "first entry of the region"),
        Operand("l1_stride", LOCAL_STRIDE, "entries from group to group"),
        Operand("mem", MEMORY, "first element, in quarters; a whole word"),
        Operand("stride", STRIDE, "words from memory row to memory row"),
        Operand("g", _COUNT, "groups of 4 rows"),
        Operand("nk", _COUNT, "blocks of 32 K elements"),
        Operand("rows", EXTENT, "true rows"),
        Operand("k", EXTENT, "true K elements"),
        Operand("mode", Enumeration("fp16 residual packed"), "what memory holds and what is kept"),
        Operand("transpose", Boolean(), "memory holds K rows of elements", default=False),
        Operand("nodes", transfer.NODES, "clusters that receive it; empty: this one", default=0),
    ),
    form=WORD,
    engine=0,
    positional=1,
    checks=(
        Check(
            "packed",
            "with `mode=packed`, `stride`, `rows` and `k` are 0 and `transpose` is false",
            lambda i: (
                i.mode != "packed"
                or (not i.stride and not i.transpose and i.rows == i.k == transfer.NOWHERE)
            ),
        ),
    ),
    summary="load a region of entries into L1A or L1B",
    meaning="""\
Entry `l1 + group * l1_stride + kb` gets rows `4 * group` to `4 * group + 3`, K elements `32 * kb`
to `32 * kb + 31`, quantised to MX.

* `mode=fp16`: row `r`, element `k` is FP16 element `k` of the memory row that starts at quarter
  `mem + 4 * r * stride`; with `transpose`, element `r` of the row at `mem + 4 * k * stride`.
* `mode=residual`: the same, but what is stored is what the leading term left.
* `mode=packed`: `g * nk` entries in packed MX order, entry `group * nk + kb`, are copied.

Rows at or past the extent `rows` and elements at or past the extent `k` become zeros before
quantisation and cost no memory request. Every cluster in `nodes` receives the same at the same
L1 address. The instruction has finished when every word has landed at every receiver.""",
)

GEMM = Record(
    "GEMM",
    9,
    (
        Operand("a", LOCAL, "first L1A entry"),
        Operand("b", LOCAL, "first L1B entry"),
        Operand("acc", LOCAL, "first sub-tile of the accumulator"),
        Operand("gm", _COUNT, "sub-tiles down the tile"),
        Operand("gn", _COUNT, "sub-tiles across the tile"),
        Operand("nk", _COUNT, "blocks of 32 K elements"),
        Operand("a_stride", LOCAL_STRIDE, "L1A entries from group to group"),
        Operand("b_stride", LOCAL_STRIDE, "L1B entries from group to group"),
        Operand("accumulate", FLAG, "add to the tile; off: clear it to +0 first"),
    ),
    form=WORD,
    engine=1,
    summary="contract two regions into a tile",
    meaning="""\
For `kb < nk`, for `g < gm`, for `h < gn`: `tile[g, h] += A[g, kb] . B[h, kb]`, where `A[g, kb]`
is L1A entry `a + g * a_stride + kb`, `B[h, kb]` is L1B entry `b + h * b_stride + kb` and
`tile[g, h]` is accumulator sub-tile `acc + g * gn + h`.""",
)

DRAIN = Record(
    "DRAIN",
    10,
    (
        Operand("acc", LOCAL, "first sub-tile of the accumulator"),
        Operand("gm", _COUNT, "sub-tiles down the tile"),
        Operand("gn", _COUNT, "sub-tiles across the tile"),
        transfer.TO,
        transfer.MEM,
        transfer.STRIDE_OPERAND,
        Operand("rows", EXTENT, "true rows"),
        Operand("cols", EXTENT, "true columns"),
        transfer.FORMAT_OPERAND,
        transfer.ORDER_OPERAND,
        transfer.NODES_OPERAND,
        transfer.BUFFER,
        transfer.RESIDUAL,
    ),
    form=WORD,
    engine=2,
    checks=(
        *transfer.RECEIVER_CHECKS,
        Check(
            "quantised order",
            "with `buffer` l1a or l1b, `order` is row",
            lambda i: i.buffer == "vector" or i.order == "row",
        ),
        Check(
            "whole tiles",
            "with `to=memory` and `order=tile`, `rows` and `cols` are 0",
            lambda i: i.to != "memory" or i.order != "tile" or i.rows == i.cols == transfer.NOWHERE,
        ),
    ),
    summary="send a tile to memory or to another unit",
    meaning="""\
The tile at `acc`, rounded to `format`.

* To memory, `order=row`: row `r`, column `c` goes to element `c` of the row that starts at quarter
  `mem + 4 * r * stride`. Only rows below the extent `rows` are written, and only quarters that hold
  a column below the extent `cols`.
* To memory, `order=tile`: sub-tile `(g, h)` goes to the 1 (FP16) or 2 (FP32: rows 0-1, rows 2-3)
  words at `mem + 4 * (g * stride + h * words)`; `mem` must be word aligned.
* To `buffer=vector` of every node in `nodes`: the same orders, `mem` being a word of that L1. The
  whole tile is sent, elements at or past the extents as zeros.
* To `buffer=l1a` or `l1b`: word `w` of row `r` lands in lane `r % 4`, half `w % 2` of entry
  `mem + (r // 4) * stride + w // 2`, through the quantiser. An odd last word is completed with
  zeros.

To memory it has finished when memory has acknowledged the last write; to a node it posts after its
last word has landed.""",
)

RECORDS = (FILL, GEMM, DRAIN)
