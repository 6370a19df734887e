"""What `DRAIN` and `VDRAIN` share: where a tile or window goes, and what that excludes."""

from __future__ import annotations

from kohakuaccel.isa import BitSet, Boolean, Check, Enumeration, Operand
from kohakutpu.config import MAX_NODES
from kohakutpu.isa.operands import MEMORY, STRIDE
from kohakutpu.isa.values import Extent

NODES = BitSet(MAX_NODES)
FORMAT = Enumeration("fp16 fp32")

FORMAT_OPERAND = Operand("format", FORMAT, "format it leaves in")
ORDER_OPERAND = Operand("order", Enumeration("row tile"), "rows, or one sub-tile after the other")
TO = Operand("to", Enumeration("memory node"), "memory, or a buffer of other units")
MEM = Operand(
    "mem", MEMORY, "where it goes: memory quarters, or the word or entry in the receiver's L1"
)
STRIDE_OPERAND = Operand(
    "stride", STRIDE, "from row to row: memory or L1 words, entries for L1A and L1B"
)
NODES_OPERAND = Operand("nodes", NODES, "the receivers, for `to=node`", default=0)
BUFFER = Operand(
    "buffer", Enumeration("vector l1a l1b"), "the receivers' L1, for `to=node`", default="vector"
)
RESIDUAL = Operand(
    "residual", Boolean(), "store the residual term instead of the leading one", default=False
)

NOWHERE = Extent(0, 0)

RECEIVER_CHECKS = (
    Check(
        "memory receiver",
        "with `to=memory`, `nodes` is empty, `buffer` is vector and `residual` is false",
        lambda i: i.to != "memory" or (i.nodes == 0 and i.buffer == "vector" and not i.residual),
    ),
    Check(
        "some receiver", "with `to=node`, `nodes` is not empty", lambda i: i.to != "node" or i.nodes
    ),
    Check(
        "residual receiver",
        "`residual` needs `buffer` l1a or l1b",
        lambda i: not i.residual or i.buffer != "vector",
    ),
    Check(
        "quantised format",
        "with `buffer` l1a or l1b, `format` is fp16",
        lambda i: i.buffer == "vector" or i.format == "fp16",
    ),
)
