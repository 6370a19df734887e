"""Smaller blocks of rows for a fused grid that does not fit as it was written.

What such a grid computes does not depend on how many rows an instance has, as long as its index
counts rows alone. So one that asks for more than the machine has is traced again with half as many
rows a block; nothing goes through memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.analysis.sites import Site, is_fused, sites
from kohakuaccel.ir.expr import Const, Symbol
from kohakuaccel.ir.nodes import Grid, Index, Statement, Store, Tiling, Trace, View
from kohakuaccel.lang.tracing import Cutting
from kohakuaccel.source import Location
from kohakutpu.config import LANES
from kohakutpu.lang.ir import Accumulate, Assign, Computed, loads, values_of, walk

IN_ROWS = ("rows", "column", "tile", "operand")  # views whose first index counts rows


def narrower(
    trace: Trace, sizes: Mapping[Cutting, int], loc: Location | None
) -> dict[Cutting, int] | None:
    """Return what to trace with: blocks of a fused grid half as large as they are.

    Parameters
    ----------
    trace : Trace
        The kernel.
    sizes : mapping
        What it was traced with.
    loc : Location
        What does not fit: its grid is meant, or every fused one if it is in none.

    Returns
    -------
    dict or None
        Sizes to trace with; None if no block can be smaller.
    """
    found = sites(trace)
    result = dict(sizes)
    grids = {site.grid: None for site in found if is_fused(site.grid)}
    meant = {site.grid: None for site in found if loc in _places(site)}
    for statement in [grid for grid in grids if not meant or grid in meant]:
        for index in statement.indices:
            tiling = index.tiling
            if tiling is None or not _may_change(index, tiling, statement, found):
                continue
            assert isinstance(tiling.size, Const)
            written = next((key for key, size in sizes.items() if _is(tiling, key, size)), None)
            key = written or (tiling.kind, tiling.buffer.name, tiling.size.value)
            result[key] = _half(tiling.size.value)
    return result if result != dict(sizes) else None


def _places(site: Site) -> list[Location]:
    """Return the places in the source that a statement is about."""
    statement, tile = site.statement, site.tile
    places = [statement.loc, *(view.loc for view in _views(site))]
    places += [node.loc for value in values_of(statement) for node in walk(value)]
    places += [statement.state.loc] if isinstance(statement, Assign) else []
    return places if tile is None else [*places, tile.loc]


def _is(tiling: Tiling, key: Cutting, size: int) -> bool:
    return (tiling.kind, tiling.buffer.name, tiling.size) == (*key[:2], Const(size))


def _half(size: int) -> int:
    return max(LANES, -(-size // 2) // LANES * LANES)


def _may_change(index: Index, tiling: Tiling, grid: Grid, found: list[Site]) -> bool:
    """Tell whether blocks of an index may have fewer rows: it counts blocks of rows alone."""
    size = tiling.size
    if tiling.kind != "rows" or not isinstance(size, Const) or _half(size.value) >= size.value:
        return False
    mine = [site for site in found if site.grid is grid]
    loops = [loop.index for site in mine for loop in (*site.inner, *site.outer)]
    others = [other for other in (*loops, *grid.indices) if other is not index]
    if any(
        _same(other.tiling, tiling) or index.symbol in other.count.symbols() for other in others
    ):
        return False
    return all(_counts_rows(view, index.symbol, site) for site in mine for view in _views(site))


def _same(other: Tiling | None, tiling: Tiling) -> bool:
    return other is not None and (other.kind, other.buffer, other.size) == (
        tiling.kind, tiling.buffer, tiling.size,
    )  # fmt: skip


def _views(site: Site) -> Iterator[View]:
    statement: Statement = site.statement
    if isinstance(statement, Store):
        yield statement.view
    yield from site.reads


def _counts_rows(view: View, symbol: Symbol, site: Site) -> bool:
    """Tell whether a view uses an index as it is, for its rows, or not at all."""
    if not any(symbol in part.symbols() for part in view.index):
        return True
    rhs = site.statement.rhs if isinstance(site.statement, Accumulate) else None
    right = view in loads(rhs.value) if isinstance(rhs, Computed) else view is rhs
    first, *rest = view.index
    plain = first == symbol and not any(symbol in part.symbols() for part in rest)
    return plain and not right and view.kind in IN_ROWS
