"""Sweeps: all of K goes into a tile, as often as it declares, and no chunk twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from compiler.analysis.contraction import (
    accumulates,
    contraction_of,
    known,
    loop_loc,
    since_birth,
)
from compiler.analysis.instances import Env, Instances, Integers, enumerate_instances
from compiler.analysis.sites import Axis, Site, index_symbols
from kohakuaccel.errors import KernelError, Note
from kohakuaccel.ir.expr import Const, Expr, Symbol
from kohakuaccel.ir.nodes import View
from kohakutpu.config import KBLOCK
from kohakutpu.lang.ir import (
    Accumulate,
    Computed,
    Tile,
    k_extent,
)


def check_sweeps(sites: list[Site], env: Env) -> None:
    """Check with numbers that every tile takes in all of K as often as it declares.

    Raises
    ------
    KernelError
        If a chunk of K is left out or summed twice, or sizes of tilings and tile differ.
    """
    for group in accumulates(sites).values():
        tile = group[0].tile
        assert tile is not None
        for site in group:
            _check_extents(site, env)
        pairs = _by_operands(group)
        if not enumerate_instances(_around_tile(group[0]), env, ()).length:
            continue  # its loops never run
        if any(contraction_of(pair[0]).extent.evaluate(env) == 0 for pair in pairs):
            _check_values_of_nothing(group, env)
            continue  # a sum over nothing, however often
        covers = sum(_covers(pair, env) for pair in pairs)
        if covers > tile.sweeps:
            _refuse_more(tile, group, covers)
        if covers < tile.sweeps:
            raise KernelError(
                f"tile `{tile.name}` says sweeps={tile.sweeps}, but K goes into it {covers} "
                f"time{'s' * (covers != 1)}",
                loc=tile.loc,
                fix=f"say sweeps={covers}, or add the missing sweep",
                notes=[(site.statement.loc, "contracted here") for site in group],
            )


def _check_extents(site: Site, env: Env) -> None:
    statement = contraction_of(site)
    lhs, rhs = statement.lhs, statement.rhs
    if not (isinstance(lhs, View) and isinstance(rhs, View)):
        return  # columns of a value are compared with the other side as values are
    a, b = (k_extent(view).evaluate(env) for view in (lhs, rhs))
    if a != b:
        raise KernelError(
            f"`{lhs.buffer.name}` has {a} elements along K, but `{rhs.buffer.name}` has {b}",
            loc=statement.loc,
            fix="contract the last axes of both, of the same extent",
            notes=[(v.buffer.loc, f"`{v.buffer.name}` is declared here") for v in (lhs, rhs)],
        )


def _check_values_of_nothing(group: list[Site], env: Env) -> None:
    """Check that no value without columns is sent to a tile that somebody sees."""
    for statement in map(contraction_of, group):
        tile = statement.tile
        extents = [known(extent).evaluate(env) for extent in (tile.rows, tile.cols)]
        if statement.computed and all(extents):
            raise KernelError(
                f"K of `{statement.lhs} @ {statement.rhs}` is 0 elements, and a value without "
                f"columns cannot be sent to tile `{tile.name}`",
                loc=statement.loc,
                fix="leave such calls out: the sum over nothing is 0",
            )


def _by_operands(group: list[Site]) -> list[list[Site]]:
    pairs: dict[tuple[int, int], list[Site]] = {}
    for site in group:
        lhs, rhs = contraction_of(site).lhs, contraction_of(site).rhs
        # Values differ from chunk to chunk, and so say nothing beside a window.
        beside = 0 if isinstance(lhs, View) else id(lhs.value)
        right = id(rhs.buffer) if isinstance(rhs, View) else beside
        left = id(lhs.buffer) if isinstance(lhs, View) else id(lhs.value)
        pairs.setdefault((left, right), []).append(site)
    return list(pairs.values())


def _covers(pair: list[Site], env: Env) -> int:
    """Return how often one pair of operands covers K, in every instance of the tile; K is not 0."""
    own = {loop.index.symbol for site in pair for loop in since_birth(site)}
    if not any(index_symbols(contraction_of(site).chunk) & own for site in pair) and all(
        isinstance(contraction_of(site).lhs, Computed) for site in pair
    ):
        return len(pair)  # all columns of the value: whatever K they are a part of
    needed = _chunks(pair[0]).count.evaluate(env)
    hits = sum(_hits(pair, needed, env))
    assert isinstance(hits, np.ndarray)
    low, high = int(hits.min()), int(hits.max())
    if low == 0:
        _refuse_partial(pair[-1], hits[np.argmin(hits.min(axis=1))] > 0, env)
    if low != high:
        place = int(np.nonzero(hits == high)[1][0])
        first, last = _elements(pair[-1], place, env)
        raise KernelError(
            f"elements {first} to {last} of K go into tile `{_tile(pair[0]).name}` {high} times, "
            f"others {low} time{'s' * (low != 1)}",
            loc=pair[-1].statement.loc,
            fix="let every chunk of K be contracted once",
            notes=[(site.statement.loc, "contracted here") for site in pair[:-1]],
        )
    return high


def _hits(pair: list[Site], needed: int, env: Env) -> Iterator[Integers]:
    """Yield for each contraction how often it takes each chunk, a row an instance of the tile."""
    exprs = [contraction_of(site).chunk for site in pair]
    exprs += [loop.index.count for site in pair for loop in since_birth(site)]
    own = {loop.index.symbol for site in pair for loop in since_birth(site)}
    found = frozenset[Symbol]().union(*(index_symbols(expr) for expr in exprs))
    outer = tuple(sorted(found - own, key=lambda symbol: symbol.name))
    birth = _around_tile(pair[0])
    births = enumerate_instances(birth, env, outer)
    outer = tuple(births.values)  # with what decides how often the loops around it run
    rows = _stack(births, outer)
    for site in pair:
        index = contraction_of(site).chunk
        instances = enumerate_instances(site, env, (index, *outer))
        chunks = instances.evaluate(index, env)
        both = np.concatenate([rows, _stack(instances, outer)])
        place = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)[len(rows) :]
        inside = (chunks >= 0) & (chunks < needed)
        times = 2 if any(idle.symbol in own for idle in instances.idle) else 1
        hits = np.zeros((max(len(rows), 1), needed), np.int64)
        np.add.at(hits, (place[inside], chunks[inside]), times)
        yield hits


def _stack(instances: Instances, symbols: tuple[Symbol, ...]) -> Integers:
    """Return the values of ``symbols`` as columns, one row an instance."""
    columns = [instances.values[symbol] for symbol in symbols if symbol in instances.values]
    marker = np.zeros(instances.length, np.int64)  # a column even where no symbol matters
    return np.stack([marker, *columns], axis=1)


def _around_tile(site: Site) -> Site:
    inner = since_birth(site)
    return Site(site.statement, tuple(s for s in site.scopes if s not in inner), site.order)


def _refuse_partial(site: Site, covered: Integers, env: Env) -> NoReturn:
    tile, statement = _tile(site), contraction_of(site)
    swept = [view.buffer.name for view in statement.views]
    missing = np.nonzero(~covered)[0]
    first, _ = _elements(site, int(missing[0]), env)
    after = np.nonzero(covered[int(missing[0]) :])[0]
    last_chunk = int(missing[0]) + int(after[0]) - 1 if len(after) else len(covered) - 1
    _, last = _elements(site, last_chunk, env)
    extent = statement.extent
    raise KernelError(
        f"the sweep into tile `{tile.name}` covers only part of K: elements {first} to {last} of "
        f"{_named(extent, env)} are never summed ({int(covered.sum())} of {len(covered)} chunks "
        f"of {tile.nk.evaluate(env)} x {KBLOCK})",
        loc=loop_loc(site, statement.chunk),
        fix=f"sweep over all chunks: `for k in sweep({swept[0] if swept else 'x'}.chunks32(nk))`",
        notes=[(site.statement.loc, "the contraction")],
    )


def _refuse_more(tile: Tile, group: Sequence[Site], covers: int) -> NoReturn:
    notes: list[Note] = [(site.statement.loc, "first contraction") for site in group[:1]]
    raise KernelError(
        f"all of K goes into tile `{tile.name}` {covers} times, but it was made for "
        f"{tile.sweeps} sweep{'s' * (tile.sweeps != 1)}",
        loc=group[-1].statement.loc,
        fix=f"if the sum of them is meant, say L.tile(..., sweeps={covers}); "
        "else use a tile for each sweep",
        notes=[*notes, (tile.loc, f"`{tile.name}` is made here")],
    )


def _elements(site: Site, chunk: int, env: Env) -> tuple[int, int]:
    axis = _chunks(site)
    size, extent = axis.block.evaluate(env), axis.extent.evaluate(env)
    return chunk * size, min((chunk + 1) * size, extent) - 1


def _chunks(site: Site) -> Axis:
    """Return the axis K of a contraction, as its tile cuts it."""
    statement = contraction_of(site)
    return Axis("K", statement.extent, statement.tile.nk * KBLOCK, statement.chunk, None)


def _tile(site: Site) -> Tile:
    assert isinstance(site.statement, Accumulate)
    return site.statement.tile


def _named(extent: Expr, env: Env) -> str:
    number = extent.evaluate(env)
    return str(number) if isinstance(extent, Const) else f"{extent} = {number}"
