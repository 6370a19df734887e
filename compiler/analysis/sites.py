"""Statements of a trace with what is around them, and what their views cut buffers into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kohakuaccel.ir.expr import Const, Expr, Symbol, ceildiv
from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store, Tiling, Trace, View
from kohakuaccel.lang.tracing import indices_of
from kohakutpu.config import KBLOCK, LANES
from kohakutpu.lang.frames import block_size, view_frame
from kohakutpu.lang.ir import (
    Accumulate,
    Assign,
    Computed,
    Tile,
    TileDecl,
    k_extent,
    k_index,
    loads,
    tiles_of,
    values_of,
)
from kohakutpu.lang.layout import rows_and_width, stored_elements

Scope = Grid | Repeat


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A statement, the scopes around it (outermost first) and its place in program order."""

    statement: Statement
    scopes: tuple[Scope, ...]
    order: int

    @property
    def grid(self) -> Grid:
        """The grid around the statement; a verified trace has one."""
        return next(scope for scope in self.scopes if isinstance(scope, Grid))

    @property
    def indices(self) -> tuple[Index, ...]:
        """Every index around the statement, outermost first."""
        return tuple(index for scope in self.scopes for index in indices_of(scope))

    @property
    def outer(self) -> tuple[Repeat, ...]:
        """Loops around the grid: they repeat whole stages."""
        before = self.scopes[: self.scopes.index(self.grid)]
        return tuple(scope for scope in before if isinstance(scope, Repeat))

    @property
    def inner(self) -> tuple[Repeat, ...]:
        """Loops inside the grid."""
        after = self.scopes[self.scopes.index(self.grid) + 1 :]
        return tuple(scope for scope in after if isinstance(scope, Repeat))

    def without_outer(self) -> Site:
        """Return the statement within its grid alone: one pass of the loops around."""
        place = self.scopes.index(self.grid)
        return Site(self.statement, self.scopes[place:], self.order)

    @property
    def reads(self) -> list[View]:
        """The views that the statement reads."""
        operands = self.statement.views if isinstance(self.statement, Accumulate) else []
        return operands + [view for value in values_of(self.statement) for view in loads(value)]

    @property
    def written(self) -> Buffer | None:
        """The buffer that the statement writes."""
        return self.statement.view.buffer if isinstance(self.statement, Store) else None

    @property
    def tile(self) -> Tile | None:
        """The tile that the statement is about; of several in one value the first."""
        if isinstance(self.statement, (Accumulate, TileDecl)):
            return self.statement.tile
        found = [tile for value in values_of(self.statement) for tile in tiles_of(value)]
        return found[0] if found else None

    @property
    def fused(self) -> bool:
        """Whether values of several shapes meet in the grid: see :func:`is_fused`."""
        return is_fused(self.grid)


def is_fused(grid: Grid) -> bool:
    """Tell whether a grid carries state, contracts computed values, or cuts rows into columns.

    Its tiles and values have shapes of their own, which :mod:`compiler.analysis.frames` compares;
    in any other grid all windows of a statement are cut alike.
    """
    by_rows = any(i.tiling is not None and i.tiling.kind == "rows" for i in grid.indices)
    return any(
        isinstance(s, Assign)
        or (isinstance(s, TileDecl) and by_rows)
        or (isinstance(s, Store) and by_rows and s.view.kind == "tile")
        or (isinstance(s, Accumulate) and bool(s.computed))
        for s in inside(grid.body)
    )


def inside(body: list[Statement]) -> Iterator[Statement]:
    """Yield the statements of a body and of the loops in it."""
    for statement in body:
        yield statement
        if isinstance(statement, Repeat):
            yield from inside(statement.body)


def sites(trace: Trace) -> list[Site]:
    """Return every statement that is no scope, in program order."""
    found: list[Site] = []

    def walk(body: list[Statement], around: tuple[Scope, ...]) -> Iterator[Site]:
        for statement in body:
            if isinstance(statement, (Grid, Repeat)):
                yield from walk(statement.body, (*around, statement))
            else:
                yield Site(statement, around, len(found))

    for site in walk(trace.body, ()):
        found.append(site)
    return found


@dataclass(frozen=True, slots=True)
class Axis:
    """One index of a view: it selects ``block`` of ``extent`` elements of ``what``."""

    what: str
    extent: Expr
    block: Expr
    index: Expr
    tiling: Tiling | None

    @property
    def count(self) -> Expr:
        """How many values the index may take."""
        return ceildiv(self.extent, self.block)


def axes(view: View, site: Site) -> tuple[Axis, ...]:
    """Return what each index of a view selects, in elements of the buffer."""
    buffer, tile = view.buffer, site.tile
    if view.kind in ("rows", "column") and _is_on_the_right(view, site.statement):
        cut = view_frame(view).rows
        assert cut is not None
        return (Axis("rows", cut.extent, cut.block, view.index[0], view.tilings[0]),)
    by_tiles = not any(i.tiling is not None and i.tiling.kind == "rows" for i in site.grid.indices)
    if view.kind == "column" and by_tiles and (tile is not None or view.tilings[0] is not None):
        size = tile.gm * LANES if tile is not None else block_size(view.tilings[0], Const(1))
        return (Axis("rows", rows_of(view), size, view.index[0], view.tilings[0]),)
    if view.kind in ("part", "rows", "column"):
        kind = "parts" if view.kind == "part" else "rows"
        extent = stored_elements(buffer) if kind == "parts" else rows_of(view)
        return (Axis(kind, extent, block_of(site.grid, kind), view.index[0], view.tilings[0]),)
    if view.kind in ("operand", "transposed"):
        assert isinstance(site.statement, Accumulate)
        assert tile is not None
        chunk = Axis("K", k_extent(view), tile.nk * KBLOCK, k_index(view), view.tilings[-1])
        if view.kind == "transposed":
            return (chunk,)
        groups = tile.gm if view is site.statement.lhs else tile.gn
        rows = Axis("rows", buffer.shape[0], groups * LANES, view.index[0], view.tilings[0])
        return rows, chunk
    if site.fused and view.index:
        found = view_frame(view)
        cuts = (("rows", found.rows), ("columns", found.cols))
        parts = [(what, part) for what, part in cuts if part is not None]
        return tuple(
            Axis(what, part.extent, part.block, index, tiling)
            for (what, part), index, tiling in zip(parts, view.index, view.tilings, strict=True)
        )
    if tile is None or not view.index:
        return ()
    columns = Axis("columns", buffer.shape[-1], tile.gn * LANES, view.index[-1], view.tilings[-1])
    if view.kind == "channel_tile":
        return (columns,)
    height = tile.gm * LANES
    return Axis("rows", buffer.shape[0], height, view.index[0], view.tilings[0]), columns


def _is_on_the_right(view: View, statement: Statement) -> bool:
    """Tell whether a view is part of a right-hand operand, which has rows of its own."""
    if not isinstance(statement, Accumulate) or not isinstance(statement.rhs, Computed):
        return False
    return view in loads(statement.rhs.value)


def rows_of(view: View) -> Expr:
    """Return the rows that ``"rows"`` and ``"column"`` views count."""
    if view.kind == "column" and len(view.buffer.shape) == 1:
        return view.buffer.shape[0]
    return rows_and_width(view.buffer)[0]


def width_of(view: View) -> Expr | None:
    """Return the elements a row that a view spans whatever its index, ``None`` if it cuts rows."""
    if view.kind in ("rows", "channel"):
        return rows_and_width(view.buffer)[1]
    return None


def block_of(grid: Grid, kind: str) -> Expr:
    """Return the size of the grid's blocks of ``kind``."""
    for index in grid.indices:
        if index.tiling is not None and index.tiling.kind == kind:
            return index.tiling.size
    return Const(1)


def index_symbols(expr: Expr) -> frozenset[Symbol]:
    """Return the grid and loop indices of an expression."""
    return frozenset(symbol for symbol in expr.symbols() if symbol.kind == "index")
