"""The vector core's half of a stage: what of a body runs there, and its loops.

A body is lowered in pieces, one after the other. A loop in which tiles are born goes around pieces
of its own; in a fused stage every loop does, and its last pass stands alone where the blocks of
columns it reaches are shorter: what is past their end takes part in no row function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from compiler.analysis.heights import height_of
from compiler.analysis.sites import inside
from compiler.passes.skew import Halves, halves
from compiler.passes.stage import statements
from compiler.program import Advance, Loop
from compiler.vector import (
    IndexValue,
    Placement,
    StateHome,
    VectorContext,
    VectorLowering,
    lower_vector,
)
from compiler.vector.emit import EXEC, sync
from compiler.vector.geometry import words
from compiler.vector.shapes import Shapes
from kohakuaccel.errors import CapacityError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Repeat, Statement, Store
from kohakutpu.lang.frames import Cut, frames
from kohakutpu.lang.ir import (
    Accumulate,
    Assign,
    Send,
    State,
    Tile,
    TileDecl,
    tiles_of,
    value_of,
)

Piece = list[Statement] | Repeat


def lower_vector_half(body: Sequence[Statement], context: VectorContext) -> VectorLowering:
    """Lower all of an instance's body, loops cut in two where the core holds both halves.

    Raises
    ------
    CapacityError
        If the core does not hold the body even with its loops in one piece.
    """
    allocators = context.l1, context.registers, context.semaphores
    marks = [(a, len(a.claims), a.shared) for a in allocators]
    try:
        return _with_states(body, context, skew=True)
    except CapacityError:
        for allocator, mark, shared in marks:
            allocator.release(mark)
            allocator.shared = shared
        return _with_states(body, context, skew=False)


def _with_states(body: Sequence[Statement], context: VectorContext, skew: bool) -> VectorLowering:
    states, placements = _place_states(body, context)
    handshakes: dict[Any, tuple[int, int]] | None = {} if context.rows else None
    result = _lower(body, replace(context, states=states, handshakes=handshakes), skew)
    result.placements[:0] = placements
    return result


def _lower(body: Sequence[Statement], context: VectorContext, skew: bool) -> VectorLowering:
    pieces = _pieces(body, context)
    born = [s.tile for s in body if isinstance(s, TileDecl)]
    held = {tile: _readers(pieces, tile) for tile in born if tile in context.tiles}
    held = {tile: readers for tile, readers in held.items() if _is_held(pieces, readers)}
    within = replace(context, held=context.held | held.keys())
    result = VectorLowering()
    for number, piece in enumerate(pieces):
        first = [context.tiles[tile] for tile, readers in held.items() if readers[0] == number]
        last = [context.tiles[tile] for tile, readers in held.items() if readers[-1] == number]
        result.body += sync(EXEC, [(window.full, 1) for window in first])
        if isinstance(piece, Repeat):
            apart = halves(piece) if context.rows and skew else None
            if apart is not None:
                result.add(_skewed(piece, apart, within))
            for around, inner in _iterations(piece, within) if apart is None else ():
                half = _lower(piece.body, inner, skew)
                around.body = half.body
                half.body = [around]
                result.add(half)
        else:
            rows = _height(piece[0], context)
            result.add(lower_vector(piece, replace(within, rows=rows)))
        result.body += sync(EXEC, (), [window.credit for window in last])
        result.body += [Advance(window.ring) for window in last]
    return result


def _skewed(repeat: Repeat, apart: Halves, context: VectorContext) -> VectorLowering:
    """Lower a loop whose second half runs a pass behind its first."""
    symbol, count = repeat.index.symbol, repeat.index.passes(context.env)
    homes = {state: _row_state(state, context) for h in apart.holds for state in (h.made, h.kept)}
    inner = replace(context, states={**context.states, **homes})
    result = VectorLowering()

    def part(body: Sequence[Statement], value: IndexValue) -> VectorLowering:
        return _lower(body, replace(inner, indices={**context.indices, symbol: value}), True)

    if not count:
        return result
    alone = 1 if count > 1 and _shorter(repeat.body, symbol, count - 1, context) else 0
    result.add(part(apart.early, IndexValue(0)))
    result.add(part(apart.moves, IndexValue(0)))
    loop = Loop(symbol.name, count - 1 - alone)
    if loop.count:
        both = VectorLowering()
        both.add(part(apart.early, IndexValue(1, loop)))
        both.add(part(apart.late, IndexValue(0, loop)))
        both.add(part(apart.moves, IndexValue(0)))
        loop.body, both.body = both.body, [loop]
        result.add(both)
    if alone:
        result.add(part(apart.early, IndexValue(count - 1)))
        result.add(part(apart.late, IndexValue(count - 2)))
        result.add(part(apart.moves, IndexValue(0)))
    result.add(part(apart.late, IndexValue(count - 1)))
    return result


def _pieces(body: Sequence[Statement], context: VectorContext) -> list[Piece]:
    pieces: list[Piece] = []
    for statement in body:
        if isinstance(statement, TileDecl):
            continue
        if isinstance(statement, Repeat) and (context.rows or _bears_tiles(statement)):
            pieces.append(statement)
        elif (
            pieces
            and isinstance(pieces[-1], list)
            and _height(pieces[-1][0], context) == _height(statement, context)
        ):
            pieces[-1].append(statement)
        else:
            pieces.append([statement])
    return pieces


def _height(statement: Statement, context: VectorContext) -> int:
    """Return the rows of what a statement computes, 0 in a stage that is not fused."""
    return height_of(statement, context.env, context.rows) if context.rows else 0


def _readers(pieces: Sequence[Piece], tile: Tile) -> list[int]:
    """Return the numbers of the pieces that compute with a tile."""

    def reads(statement: Statement) -> bool:
        value = value_of(statement)
        return value is not None and tile in tiles_of(value)

    bodies = [piece.body if isinstance(piece, Repeat) else piece for piece in pieces]
    return [n for n, body in enumerate(bodies) if any(map(reads, inside(body)))]


def _is_held(pieces: Sequence[Piece], readers: Sequence[int]) -> bool:
    """Tell whether several pieces or a loop read a tile: then it is let go after all of them."""
    return len(readers) > 1 or any(isinstance(pieces[number], Repeat) for number in readers)


def _iterations(repeat: Repeat, context: VectorContext) -> list[tuple[Loop, VectorContext]]:
    """Return the loops of a repeat: one, one for each value that inner bounds use, or a last one.

    The last pass stands alone if it has fewer columns.
    """
    symbol, count = repeat.index.symbol, repeat.index.passes(context.env)
    inner = (s.index.count for s in statements(repeat.body) if isinstance(s, Repeat))
    if any(symbol in bound.symbols() for bound in inner):
        return [
            (Loop(symbol.name, 1), replace(context, env={**context.env, symbol: value}))
            for value in range(count)
        ]
    cuts = [(0, count)]
    if context.rows and count > 1 and _shorter(repeat.body, symbol, count - 1, context):
        cuts = [(0, count - 1), (count - 1, 1)]
    result: list[tuple[Loop, VectorContext]] = []
    for start, length in cuts:
        loop = Loop(symbol.name, length)
        indices = {**context.indices, symbol: IndexValue(start, loop)}
        result.append((loop, replace(context, indices=indices)))
    return result


def _shorter(body: Sequence[Statement], symbol: Symbol, value: int, context: VectorContext) -> bool:
    """Tell whether the columns that a loop reaches last are fewer than those of a whole block."""
    shapes = Shapes(context.rows, replace(context, indices=_at(body, symbol, value, context)))
    for cut in _columns(body):
        if cut.index is not None and symbol in cut.index.symbols():
            block = min(cut.block.evaluate(context.env), cut.extent.evaluate(context.env))
            if shapes.present(cut) < block:
                return True
    return False


def _at(
    body: Sequence[Statement], symbol: Symbol, value: int, context: VectorContext
) -> dict[Symbol, IndexValue]:
    """Return the indices in one pass of a loop; those of loops inside it stand at their start."""
    inner = [s.index.symbol for s in inside(list(body)) if isinstance(s, Repeat)]
    return {**context.indices, **dict.fromkeys(inner, IndexValue(0)), symbol: IndexValue(value)}


def _columns(body: Sequence[Statement]) -> Iterator[Cut]:
    for statement in inside(list(body)):
        value = value_of(statement)
        for frame in frames(value).values() if value is not None else ():
            if frame.cols is not None:
                yield frame.cols


def _bears_tiles(repeat: Repeat) -> bool:
    return any(isinstance(s, TileDecl) for s in statements(repeat.body))


def _place_states(
    body: Sequence[Statement], context: VectorContext
) -> tuple[dict[State, StateHome], list[Placement]]:
    """Give every state a home: registers, or L1 where it would take more than half of them."""
    homes: dict[State, StateHome] = {}
    placements: list[Placement] = []
    lanes, rows = context.machine.lanes, context.rows
    for statement in inside(list(body)):
        if not isinstance(statement, Assign) or not statement.first:
            continue
        state = statement.state
        name = f"state `{state.name}`"
        if state.width is None:
            home = _row_state(state, context)
        else:
            width = state.width.evaluate(context.env)
            beats, line = -(-width // lanes), words(width, "fp32")
            if 2 * rows * beats <= context.registers.limit:
                base = context.registers.allocate(name, rows * beats, state.loc)
                home = StateHome("reg", base, beats, rows * beats)
            else:
                fix = "use fewer rows in a block: rows(n) with a smaller n"
                base = context.l1.allocate(name, rows * line, state.loc, fix)
                home = StateHome("l1f", base, line, rows * line)
        homes[state] = home
        memory = "registers" if home.kind == "reg" else "L1"
        placements.append(
            Placement(state.name, "state", memory, home.base, home.size, 1, state.loc)
        )
    return homes, placements


def _row_state(state: State, context: VectorContext) -> StateHome:
    size = -(-context.rows // context.machine.lanes)
    base = context.registers.allocate(f"state `{state.name}`", size, state.loc)
    return StateHome("reg", base, size, size)


def vector_half(body: Sequence[Statement]) -> list[Statement]:
    """Return what of a contraction stage runs on the vector core: all but sweeps and bare drains.

    Births of tiles stay, where anything does, to tell which loops bear them.
    """
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, (TileDecl, Assign)):
            result.append(statement)
        elif isinstance(statement, Store) and statement.value.op != "tile":
            result.append(statement)
        elif isinstance(statement, Accumulate):
            loc, tile = statement.loc, statement.tile
            result += [Send(loc, tile, side, operand) for side, operand in statement.computed]
        elif isinstance(statement, Repeat):
            inner = vector_half(statement.body)
            if inner:
                result.append(Repeat(statement.loc, statement.index, inner))
    return result if any(value_of(s) is not None for s in inside(result)) else []
