"""How buffers lie in memory, as far as tilings need it: rows, widths, stored elements."""

from __future__ import annotations

from kohakuaccel.ir.expr import Const, Expr, Symbol, as_expr, ceildiv
from kohakuaccel.ir.nodes import Buffer
from kohakutpu.config import KBLOCK, LANES, WORD_BYTES

ELEMENT_BYTES = {"fp16": 2, "fp32": 4}

ANY_ROWS = Symbol("rows(...)")
ANY_WIDTH = Symbol("width(...)")
"""Extents behind a parameter declared with ``...`` alone: all such parameters of a call agree."""


def rows_and_width(buffer: Buffer) -> tuple[Expr, Expr]:
    """Return the rows and the elements a row of one batch element."""
    if buffer.any_rank:
        return ANY_ROWS, ANY_WIDTH
    if not buffer.shape:
        return Const(1), Const(1)
    rows: Expr = Const(1)
    for extent in buffer.shape[:-1]:
        rows = rows * extent
    return rows, buffer.shape[-1]


def elements_per_word(dtype: str) -> int:
    """Return how many elements of ``dtype`` a memory word holds."""
    return WORD_BYTES // ELEMENT_BYTES[dtype]


def stored_elements(buffer: Buffer) -> Expr:
    """Return the elements of one batch element with every row padded to whole words."""
    rows, width = rows_and_width(buffer)
    word = elements_per_word(buffer.dtype)
    return rows * (ceildiv(width, word) * word)


def tile_count(extent: Expr | int, groups: Expr | int) -> Expr:
    """Return how many tiles of ``groups`` groups of 4 cover ``extent`` rows or columns."""
    return ceildiv(as_expr(extent), as_expr(groups) * LANES)


def chunk_count(extent: Expr | int, blocks: Expr | int) -> Expr:
    """Return how many chunks of ``blocks`` blocks of 32 cover ``extent`` elements of K."""
    return ceildiv(as_expr(extent), as_expr(blocks) * KBLOCK)
