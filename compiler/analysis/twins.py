"""Tiles of one size that are never alive together share their places.

A step of a loop that a kernel repeats after the loop, for the last block, makes tiles of its own.
They come one after the other in the order of every engine, so one ring of places, with its
semaphores, serves them all: what is taken first is given back first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.analysis.sites import inside
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Repeat, Statement
from kohakutpu.lang.ir import Accumulate, Side, Tile, TileDecl, tiles_of, values_of

Path = list[tuple[Sequence[Statement], int]]


def twins(body: Sequence[Statement], env: Mapping[Symbol, int]) -> dict[Tile, Tile]:
    """Return for every tile the first one whose places it shares, often itself."""
    found: dict[Tile, Tile] = {}
    members: dict[Tile, list[Tile]] = {}
    paths = {tile: path for tile, path in _declared(body, [])}
    for tile in paths:
        for first, same in members.items():
            if _alike(first, tile, body, env) and all(
                _apart(paths[other], other, paths[tile], tile) for other in same
            ):
                found[tile] = first
                same.append(tile)
                break
        else:
            found[tile] = tile
            members[tile] = [tile]
    return found


def _declared(body: Sequence[Statement], around: Path) -> list[tuple[Tile, Path]]:
    result: list[tuple[Tile, Path]] = []
    for place, statement in enumerate(body):
        path = [*around, (body, place)]
        if isinstance(statement, TileDecl):
            result.append((statement.tile, path))
        elif isinstance(statement, Repeat):
            result += _declared(statement.body, path)
    return result


def _alike(one: Tile, other: Tile, body: Sequence[Statement], env: Mapping[Symbol, int]) -> bool:
    """Tell whether two tiles take the same places wherever they go."""
    sizes = [
        (t.gm.evaluate(env), t.gn.evaluate(env), t.nk.evaluate(env), t.precision)
        for t in (one, other)
    ]
    return sizes[0] == sizes[1] and _uses(one, body) == _uses(other, body)


def _uses(tile: Tile, body: Sequence[Statement]) -> tuple[list[Side], bool]:
    """Return which computed operands feed a tile, and whether it is computed with."""
    every = list(inside(list(body)))
    fed = [s for s in every if isinstance(s, Accumulate) and s.tile is tile]
    values = [value for s in every for value in values_of(s) if value.op != "tile"]
    read = any(tile in tiles_of(value) for value in values)
    return [side for s in fed for side, _ in s.computed], read


def _apart(path: Path, tile: Tile, other_path: Path, other: Tile) -> bool:
    """Tell whether all of one tile's life comes before all of the other's."""
    for (body, first), (other_body, second) in zip(path, other_path, strict=False):
        if body is not other_body:
            return False
        if first != second:
            return _end(body, first, tile) < second or _end(body, second, other) < first
    return False


def _end(body: Sequence[Statement], place: int, tile: Tile) -> int:
    """Return the last statement of a body in which a tile that is made at ``place`` lives."""
    if isinstance(body[place], Repeat):
        return place
    return max((n for n, statement in enumerate(body) if _mentions(statement, tile)), default=place)


def _mentions(statement: Statement, tile: Tile) -> bool:
    for inner in inside([statement]):
        if isinstance(inner, (Accumulate, TileDecl)) and inner.tile is tile:
            return True
        if any(tile in tiles_of(value) for value in values_of(inner)):
            return True
    return False
