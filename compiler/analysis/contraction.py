"""What the checks of contractions have in common: which feed a tile, in which loops, from where."""

from __future__ import annotations

from compiler.analysis.sites import Site
from kohakuaccel.ir.expr import Const, Expr, Symbol
from kohakuaccel.ir.nodes import Repeat
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Accumulate, Tile, TileDecl


def accumulates(sites: list[Site]) -> dict[int, list[Site]]:
    """Return the contractions into each tile, by the tile's identity."""
    found: dict[int, list[Site]] = {}
    for site in sites:
        if isinstance(site.statement, Accumulate):
            found.setdefault(id(site.statement.tile), []).append(site)
    return found


def since_birth(site: Site) -> list[Repeat]:
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


def loop_loc(site: Site, index: Expr) -> Location:
    """Return where the loop or grid of an index is, or the statement."""
    for around in site.indices:
        if around.symbol is index:
            return around.loc
    return site.statement.loc


def contraction_of(site: Site) -> Accumulate:
    """Return the statement of a site that is known to be a contraction."""
    assert isinstance(site.statement, Accumulate)
    return site.statement


def known(expr: Expr | None) -> Expr:
    """Return what the first contraction into a tile has settled."""
    assert expr is not None
    return expr


def differ(a: Expr, b: Expr) -> bool:
    """Return whether two extents are surely not the same, whatever the shapes."""
    if isinstance(a, Symbol) and isinstance(b, Symbol):
        return a is not b
    return isinstance(a, Const) and isinstance(b, Const) and a.value != b.value
