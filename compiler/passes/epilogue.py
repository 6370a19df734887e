"""The vector core's half of a stage: what of a body runs there, and loops that bear tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.passes.stage import statements
from compiler.program import Loop
from compiler.vector import IndexValue, VectorContext, VectorLowering, lower_vector
from kohakuaccel.ir.nodes import Repeat, Statement, Store
from kohakutpu.lang.ir import TileDecl


def lower_vector_half(body: Sequence[Statement], context: VectorContext) -> VectorLowering:
    """Lower a body in pieces: a loop in which tiles are born goes around its own piece."""
    pieces: list[list[Statement] | Repeat] = [[]]
    for statement in body:
        if isinstance(statement, Repeat) and _bears_tiles(statement):
            pieces += [statement, []]
        else:
            last = pieces[-1]
            assert isinstance(last, list)
            if not isinstance(statement, TileDecl):
                last.append(statement)
    result = VectorLowering()
    for piece in pieces:
        if isinstance(piece, Repeat):
            for around, inside in _iterations(piece, context):
                half = lower_vector_half(piece.body, inside)
                around.body = half.body
                half.body = [around]
                _append(result, half)
        elif piece:
            _append(result, lower_vector(piece, context))
    return result


def _append(result: VectorLowering, half: VectorLowering) -> None:
    result.prologue += half.prologue
    result.body += half.body
    result.epilogue += half.epilogue
    result.placements += half.placements
    result.notes += half.notes


def _iterations(repeat: Repeat, context: VectorContext) -> list[tuple[Loop, VectorContext]]:
    """Return the loop of a repeat, or one for each value where inner bounds depend on it."""
    symbol, count = repeat.index.symbol, repeat.index.count.evaluate(context.env)
    inner = (s.index.count for s in statements(repeat.body) if isinstance(s, Repeat))
    if any(symbol in bound.symbols() for bound in inner):
        return [
            (Loop(symbol.name, 1), replace(context, env={**context.env, symbol: value}))
            for value in range(count)
        ]
    loop = Loop(symbol.name, count)
    indices = {**context.indices, symbol: IndexValue(0, loop)}
    return [(loop, replace(context, indices=indices))]


def _bears_tiles(repeat: Repeat) -> bool:
    return any(isinstance(s, TileDecl) for s in statements(repeat.body))


def vector_half(body: Sequence[Statement]) -> list[Statement]:
    """Return what of a contraction stage runs on the vector core: all but bare drains.

    Births of tiles stay, where anything does, to tell which loops bear them.
    """
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, TileDecl):
            result.append(statement)
        elif isinstance(statement, Store) and statement.value.op != "tile":
            result.append(statement)
        elif isinstance(statement, Repeat):
            inner = vector_half(statement.body)
            if inner:
                result.append(Repeat(statement.loc, statement.index, inner))
    return result if any(isinstance(s, Store) for s in statements(result)) else []
