"""Instructions that move data: operands into L1, tiles to memory or to the vector core."""

from __future__ import annotations

from typing import Any

from compiler.cluster.context import (
    ClusterContext,
    TileState,
    emit,
)
from compiler.cluster.operands import Rows
from compiler.cluster.residency import Panel, panel_loops
from compiler.passes.scope import Scope, Terms, place, quarters, scaled
from compiler.program import Advance, Affine, Emit, Item, Left
from compiler.vector.context import IndexValue
from kohakuaccel.ir.nodes import Store
from kohakuaccel.source import Location
from kohakutpu import isa
from kohakutpu.config import KBLOCK, LANES, QUARTER_BYTES, QUARTERS_PER_WORD
from kohakutpu.lang.layout import ELEMENT_BYTES

BLOCK_QUARTERS = KBLOCK * 2 // QUARTER_BYTES  # of FP16

Position = tuple[int, Terms]


def fill(
    context: ClusterContext,
    scope: Scope,
    rows: Rows,
    chunk: Position,
    nk: int,
    blocks: int,
    l1: Affine,
    l1_stride: int,
    loc: Location,
    groups: int = 0,
    nodes: int = 0,
) -> Emit:
    """Return the ``FILL`` of ``blocks`` blocks from ``chunk`` on, chunks being ``nk`` blocks long.

    It loads ``groups`` groups of rows, those of one tile if 0, on the set of clusters ``nodes``, on
    its own if 0.
    """
    operand = context.operands[rows.buffer]
    if rows.transposed:
        return _fill_transposed(context, scope, rows, chunk, nk, blocks, l1, l1_stride, loc, nodes)
    row = place(((scope.indices[s], c) for s, c in rows.form.coefficients), rows.form.constant)
    height = LANES * rows.groups
    mem = quarters(
        operand,
        scaled(scope.batch_position(operand), QUARTERS_PER_WORD),
        scaled(row, height * operand.row_words * QUARTERS_PER_WORD),
        scaled(chunk, nk * BLOCK_QUARTERS),
    )
    operands: dict[str, Any] = {
        "buffer": rows.side,
        "l1": l1,
        "l1_stride": l1_stride,
        "mem": mem,
        "stride": operand.row_words,
        "g": groups or rows.groups,
        "nk": blocks,
        "rows": Left(operand.rows, Affine(*scaled(row, height))),
        "k": Left(operand.width, Affine(*scaled(chunk, nk * KBLOCK))),
        "mode": rows.mode,
        "nodes": nodes,
    }
    return emit(isa.FILL, operands, loc)


def _fill_transposed(
    context: ClusterContext,
    scope: Scope,
    rows: Rows,
    chunk: Position,
    nk: int,
    blocks: int,
    l1: Affine,
    l1_stride: int,
    loc: Location,
    nodes: int,
) -> Emit:
    """Return the ``FILL`` of an operand that has K along its rows, all its columns."""
    operand = context.operands[rows.buffer]
    mem = quarters(
        operand,
        scaled(scope.batch_position(operand), QUARTERS_PER_WORD),
        scaled(chunk, nk * KBLOCK * operand.row_words * QUARTERS_PER_WORD),
    )
    operands: dict[str, Any] = {
        "buffer": rows.side,
        "l1": l1,
        "l1_stride": l1_stride,
        "mem": mem,
        "stride": operand.row_words,
        "g": rows.groups,
        "nk": blocks,
        "rows": Left(operand.width),
        "k": Left(operand.rows, Affine(*scaled(chunk, nk * KBLOCK))),
        "mode": rows.mode,
        "transpose": True,
        "nodes": nodes,
    }
    return emit(isa.FILL, operands, loc)


def fill_panel(context: ClusterContext, panel: Panel, nodes: int) -> list[Item]:
    """Return what fills all of a panel, on the set of clusters ``nodes``."""
    axes = context.axes
    loops, strides, groups = panel_loops(panel, axes)
    fresh = {axes[n].value: IndexValue(axes[n].value.start) for n in panel.moving}
    for n, loop in zip(panel.moving, loops, strict=False):
        fresh[axes[n].value] = IndexValue(axes[n].value.start, loop)
    scope = Scope(
        context.scope.env,
        {symbol: fresh.get(value, value) for symbol, value in context.scope.indices.items()},
        [fresh.get(value, value) for value in context.scope.batch],
    )
    l1 = Affine(0, tuple(zip(loops, strides, strict=True)), None, panel.ring)
    blocks, start = panel.blocks, (0, ())
    items: list[Item] = [
        fill(context, scope, panel.rows, start, 1, blocks, l1, blocks, panel.loc, groups, nodes)
    ]
    for loop in reversed(loops):
        loop.body = items
        items = [loop]
    return items


def hand_over(context: ClusterContext, state: TileState, loc: Location) -> list[Item]:
    """Send a tile to the vector core, whole: what lies past the edge is masked there."""
    window = state.window
    assert window is not None
    operands = {
        **_tile_operands(state),
        "to": "node",
        "mem": Affine(ring=window.ring),
        "stride": window.stride,
        "rows": Left(LANES * state.gm),
        "cols": Left(LANES * state.gn),
        "format": "fp16",
        "nodes": 1 << context.mate,
    }
    waits, posts = [(window.credit[1], 1)], [(context.mate, window.full)]
    return [emit(isa.DRAIN, operands, loc, waits, posts), Advance(window.ring)]


def store(context: ClusterContext, scope: Scope, state: TileState, statement: Store) -> Emit:
    """Drain a tile to memory as it is: an FP32 buffer gets the accumulator, FP16 its rounding."""
    operand = context.operands[statement.view.buffer]
    positions = [scope.position(index) for index in statement.view.index]
    row, column = positions if len(positions) == 2 else (positions[0], (0, ()))  # whole rows
    height, width = LANES * state.gm, LANES * state.gn
    operands = {
        **_tile_operands(state),
        "to": "memory",
        "mem": quarters(
            operand,
            scaled(scope.batch_position(operand), QUARTERS_PER_WORD),
            scaled(row, height * operand.row_words * QUARTERS_PER_WORD),
            scaled(column, width * ELEMENT_BYTES[operand.dtype] // QUARTER_BYTES),
        ),
        "stride": operand.row_words,
        "rows": Left(operand.rows, Affine(*scaled(row, height))),
        "cols": Left(operand.width, Affine(*scaled(column, width))),
        "format": operand.dtype,
    }
    return emit(isa.DRAIN, operands, statement.loc)


def _tile_operands(state: TileState) -> dict[str, Any]:
    return {"acc": Affine(ring=state.ring), "gm": state.gm, "gn": state.gn, "order": "row"}
