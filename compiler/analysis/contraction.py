"""Contractions: all of K, once, into the tile that is stored where its rows and columns belong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from compiler.analysis.instances import Env, Instances, Integers, enumerate_instances
from compiler.analysis.sites import Axis, Site, axes, index_symbols
from kohakuaccel.errors import KernelError, Note
from kohakuaccel.ir.expr import Const, Expr, Symbol
from kohakuaccel.ir.nodes import Repeat, Store, View
from kohakuaccel.source import Location
from kohakutpu.config import KBLOCK
from kohakutpu.lang.ir import (
    Accumulate,
    Computed,
    Tile,
    TileDecl,
    k_extent,
    k_index,
    loads,
    row_index,
    tiles_of,
    value_of,
)


def check_tiles(sites: list[Site]) -> None:
    """Check what needs no numbers: every tile is filled and stored, its operands fit together.

    Raises
    ------
    KernelError
        If a tile is never contracted into or never stored, the operands of a contraction do not
        share K, or a store swaps rows and columns.
    """
    filled = _accumulates(sites)
    read: set[int] = set()
    for site in sites:
        value = value_of(site.statement)
        tiles = tiles_of(value) if value is not None else []
        read |= {id(tile) for tile in tiles}
        if tiles and not site.fused:
            _check_same_tile(tiles, site)
            _check_places(site, tiles[0])
    for site in sites:
        if isinstance(site.statement, TileDecl):
            tile = site.statement.tile
            if id(tile) not in filled:
                fix = f"sweep over K: `{tile.name} += a[i, k] @ b[j, k]`"
                _refuse_unused(tile, "nothing is contracted into it", fix)
            if id(tile) not in read:
                fix = f"store it after the sweep, as in `c[i, j] <<= {tile.name}`"
                _refuse_unused(tile, "it is never stored", fix)
    for group in filled.values():
        for site in group:
            _check_operands(site, group[0])


def check_sweeps(sites: list[Site], env: Env) -> None:
    """Check with numbers that every tile takes in all of K as often as it declares.

    Raises
    ------
    KernelError
        If a chunk of K is left out or summed twice, or sizes of tilings and tile differ.
    """
    for group in _accumulates(sites).values():
        tile = group[0].tile
        assert tile is not None
        for site in group:
            _check_extents(site, env)
        pairs = _by_operands(group)
        if any(_contraction(pair[0]).extent.evaluate(env) == 0 for pair in pairs):
            continue  # a sum over nothing, however often
        if not enumerate_instances(_around_tile(group[0]), env, ()).length:
            continue  # its loops never run
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


def _accumulates(sites: list[Site]) -> dict[int, list[Site]]:
    found: dict[int, list[Site]] = {}
    for site in sites:
        if isinstance(site.statement, Accumulate):
            found.setdefault(id(site.statement.tile), []).append(site)
    return found


def _refuse_unused(tile: Tile, what: str, fix: str) -> NoReturn:
    raise KernelError(
        f"tile `{tile.name}` does nothing: {what}", loc=tile.loc, fix=f"{fix}, or remove the tile"
    )


def _check_same_tile(tiles: list[Tile], site: Site) -> None:
    first = tiles[0]
    for tile in tiles[1:]:
        for name in ("gm", "gn", "row", "col"):
            a, b = getattr(first, name), getattr(tile, name)
            if a != b:
                raise KernelError(
                    f"tiles `{first.name}` and `{tile.name}` meet in one value, but they differ "
                    f"in {name}: {a} and {b}",
                    loc=site.statement.loc,
                    fix="make both with the same gm and gn, from the same row and column tiles",
                    notes=[(t.loc, f"`{t.name}` is made here") for t in (first, tile)],
                )


def _check_places(site: Site, tile: Tile) -> None:
    """Check that rows of views follow the left operand's rows and columns the right one's."""
    assert isinstance(site.statement, Store)
    rows, columns = index_symbols(known(tile.row)), index_symbols(known(tile.col))
    only_rows, only_columns = rows - columns, columns - rows
    for view in [site.statement.view, *loads(site.statement.value)]:
        if view.kind == "tile":
            wrong = index_symbols(view.index[0]) & only_columns
            wrong |= index_symbols(view.index[1]) & only_rows
        elif view.kind == "channel_tile":
            wrong = index_symbols(view.index[0]) & only_rows
        elif view.kind == "column":
            wrong = index_symbols(view.index[0]) & (
                only_rows if _is_of_columns(view, tile) else only_columns
            )
        else:
            continue
        if wrong:
            one = tile.col if _is_of_columns(view, tile) else tile.row
            sides = {"channel_tile": (tile.col,), "column": (one,)}
            right = [str(side) for side in sides.get(view.kind, (tile.row, tile.col))]
            raise KernelError(
                f"`{view}` is indexed the wrong way round: rows of tile `{tile.name}` are "
                f"`{tile.row}` and its columns are `{tile.col}`",
                loc=view.loc,
                fix=f"write {view.buffer.name}[{', '.join(right)}]",
                notes=[(tile.loc, f"`{tile.name}` is made here")],
            )
        _check_symbols(view, tile)


def _is_of_columns(view: View, tile: Tile) -> bool:
    """Tell whether a buffer of one axis is as long as a tile's matrix is wide, and not as high."""
    extent = view.buffer.shape[0]
    return len(view.buffer.shape) == 1 and extent == tile.cols and extent != tile.rows


def _check_symbols(view: View, tile: Tile) -> None:
    rows = view.buffer.shape[0], tile.rows, "rows", view.index[0], tile.row
    columns = view.buffer.shape[-1], tile.cols, "columns", view.index[-1], tile.col
    pairs = {"tile": [columns, rows], "column": [rows]}.get(view.kind, [columns])
    for extent, expected, what, index, place in pairs:
        if expected is not None and index == place and differ(extent, expected):
            raise KernelError(
                f"`{view.buffer.name}` has {extent} {what}, but tile `{tile.name}` is cut from "
                f"{expected}",
                loc=view.loc,
                fix=f"declare `{view.buffer.name}` with {expected} {what}",
                notes=[(view.buffer.loc, f"`{view.buffer.name}` is declared here")],
            )


def _check_operands(site: Site, first: Site) -> None:
    statement = _contraction(site)
    lhs, rhs, tile = statement.lhs, statement.rhs, statement.tile
    places = [(rhs, row_index(rhs), tile.col, "columns")]
    if isinstance(lhs, View):
        _check_chunks(site, lhs, rhs)
        places.insert(0, (lhs, lhs.index[0], tile.row, "rows"))
    for view, index, place, what in places:
        if index != place:
            raise KernelError(
                f"`{view}` puts other {what} into tile `{tile.name}`: it holds {what} `{place}`",
                loc=view.loc,
                fix="use a tile of its own for every pair of row tiles",
                notes=[(first.statement.loc, "first contraction into the tile")],
            )
    _check_outside_loop(site)


def _check_chunks(site: Site, lhs: View, rhs: View) -> None:
    """Check that both operands are the same chunk of the same K."""
    statement, chunk = site.statement, k_index(lhs)
    if chunk != k_index(rhs):
        place = "" if rhs.kind == "transposed" else f"{rhs.index[0]}, "
        raise KernelError(
            f"`{lhs} @ {rhs}` multiplies K chunk `{chunk}` of `{lhs.buffer.name}` with "
            f"chunk `{k_index(rhs)}` of `{rhs.buffer.name}`",
            loc=statement.loc,
            fix=f"use one index for both, as in {lhs} @ {rhs.buffer.name}[{place}{chunk}]",
        )
    if differ(k_extent(lhs), k_extent(rhs)):
        raise KernelError(
            f"`{lhs.buffer.name}` has {k_extent(lhs)} along K, but `{rhs.buffer.name}` has "
            f"{k_extent(rhs)}",
            loc=statement.loc,
            fix="contract the last axes of both, declared with the same dimension",
            notes=[(v.buffer.loc, f"`{v.buffer.name}` is declared here") for v in (lhs, rhs)],
        )
    counted = lhs.tilings[1]
    if counted is None or counted.kind != "chunks32":
        return
    if differ(counted.buffer.shape[1], k_extent(lhs)):
        raise KernelError(
            f"`{chunk}` counts the chunks of `{counted.buffer.name}`, which has "
            f"{counted.buffer.shape[1]} along K; the operands have {k_extent(lhs)}",
            loc=_loop_loc(site, chunk),
            fix=f"sweep over {lhs.buffer.name}.chunks32({counted.size})",
            notes=[(statement.loc, "the contraction")],
        )


def _check_outside_loop(site: Site) -> None:
    """Check that loops inside the grid reach K, not the rows or columns of the operands."""
    statement = _contraction(site)
    birth = statement.tile.loc
    for view in statement.views:
        for symbol in index_symbols(row_index(view)):
            for loop in _since_birth(site):
                if loop.index.symbol is symbol:
                    raise KernelError(
                        f"`{view}` changes its rows inside the sweep over `{symbol}` of tile "
                        f"`{statement.tile.name}`",
                        loc=view.loc,
                        fix="make the tile inside that loop, and sweep K in a loop of its own",
                        notes=[(birth, "the tile is made here")],
                    )


def _since_birth(site: Site) -> list[Repeat]:
    """Return the loops around a contraction that do not hold the tile's declaration."""
    assert isinstance(site.statement, Accumulate)
    tile = site.statement.tile
    return [loop for loop in site.inner if not _declares(loop, tile)]


def _declares(loop: Repeat, tile: Tile) -> bool:
    for statement in loop.body:
        if isinstance(statement, TileDecl) and statement.tile is tile:
            return True
        if isinstance(statement, Repeat) and _declares(statement, tile):
            return True
    return False


def _check_extents(site: Site, env: Env) -> None:
    statement = _contraction(site)
    lhs, rhs = statement.lhs, statement.rhs
    if not isinstance(lhs, View):
        return  # its columns are compared with the other side as values are
    a, b = (k_extent(view).evaluate(env) for view in (lhs, rhs))
    if a != b:
        raise KernelError(
            f"`{lhs.buffer.name}` has {a} elements along K, but `{rhs.buffer.name}` has {b}",
            loc=statement.loc,
            fix="contract the last axes of both, of the same extent",
            notes=[(v.buffer.loc, f"`{v.buffer.name}` is declared here") for v in (lhs, rhs)],
        )


def _by_operands(group: list[Site]) -> list[list[Site]]:
    pairs: dict[tuple[int, int], list[Site]] = {}
    for site in group:
        lhs, rhs = _contraction(site).lhs, _contraction(site).rhs
        key = id(lhs.buffer if isinstance(lhs, View) else lhs.value), id(rhs.buffer)
        pairs.setdefault(key, []).append(site)
    return list(pairs.values())


def _covers(pair: list[Site], env: Env) -> int:
    """Return how often one pair of operands covers K, in every instance of the tile; K is not 0."""
    own = {loop.index.symbol for site in pair for loop in _since_birth(site)}
    if not any(index_symbols(_contraction(site).chunk) & own for site in pair) and all(
        isinstance(_contraction(site).lhs, Computed) for site in pair
    ):
        return len(pair)  # all columns of the value: whatever K they are a part of
    chunk = _chunks(pair[0])
    needed = chunk.count.evaluate(env)
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
    exprs = [_contraction(site).chunk for site in pair]
    exprs += [loop.index.count for site in pair for loop in _since_birth(site)]
    own = {loop.index.symbol for site in pair for loop in _since_birth(site)}
    found = frozenset[Symbol]().union(*(index_symbols(expr) for expr in exprs))
    outer = tuple(sorted(found - own, key=lambda symbol: symbol.name))
    birth = _around_tile(pair[0])
    births = enumerate_instances(birth, env, outer)
    outer = tuple(births.values)  # with what decides how often the loops around it run
    rows = _stack(births, outer)
    for site in pair:
        index = _contraction(site).chunk
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
    inner = _since_birth(site)
    return Site(site.statement, tuple(s for s in site.scopes if s not in inner), site.order)


def _refuse_partial(site: Site, covered: Integers, env: Env) -> NoReturn:
    tile, statement = _tile(site), _contraction(site)
    view = statement.views[0]
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
        loc=_loop_loc(site, statement.chunk),
        fix=f"sweep over all chunks: `for k in sweep({view.buffer.name}.chunks32(nk))`",
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


def _loop_loc(site: Site, index: Expr) -> Location:
    for known in site.indices:
        if known.symbol is index:
            return known.loc
    return site.statement.loc


def _contraction(site: Site) -> Accumulate:
    assert isinstance(site.statement, Accumulate)
    return site.statement


def _chunks(site: Site) -> Axis:
    """Return the axis K of a contraction, as its first operand that is a window is cut."""
    return axes(_contraction(site).views[0], site)[-1]


def _tile(site: Site) -> Tile:
    assert isinstance(site.statement, Accumulate)
    return site.statement.tile


def _named(extent: Expr, env: Env) -> str:
    number = extent.evaluate(env)
    return str(number) if isinstance(extent, Const) else f"{extent} = {number}"


def known(expr: Expr | None) -> Expr:
    """Return what the first contraction into a tile has settled."""
    assert expr is not None
    return expr


def differ(a: Expr, b: Expr) -> bool:
    """Return whether two extents are surely not the same, whatever the shapes."""
    if isinstance(a, Symbol) and isinstance(b, Symbol):
        return a is not b
    return isinstance(a, Const) and isinstance(b, Const) and a.value != b.value
