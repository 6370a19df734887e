"""Operands of ``@``: windows, computed values, and regions, which hold either under a name.

A region says which operand is where and when it is brought in. It leaves nothing behind in a trace:
a contraction of regions is that of what they hold, so saying more costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const, Expr
from kohakuaccel.ir.nodes import Grid, Value, View
from kohakuaccel.lang.tracing import current
from kohakuaccel.source import Location, caller
from kohakutpu.lang.frames import REDUCTIONS, frame
from kohakutpu.lang.ir import Computed, walk
from kohakutpu.lang.tensors import SIZE_LIMIT, checked_size
from kohakutpu.lang.values import Elementwise, Expression, widest
from kohakutpu.lang.windows import Window


class Product(Elementwise):
    """``a[i, k] @ b[j, k]``, on its way into a tile by ``+=``."""

    __slots__ = ("lhs", "loc", "regions", "rhs")

    def __init__(
        self,
        lhs: View | Computed,
        rhs: View | Computed,
        loc: Location,
        regions: tuple[Any, Any],
    ) -> None:
        self.lhs = lhs
        self.rhs = rhs
        self.loc = loc
        self.regions = regions

    def value(self, loc: Location) -> Expression:
        """Refuse: only a tile holds the sum over all chunks.

        Raises
        ------
        KernelError
            Always.
        """
        raise KernelError(
            f"`{self.lhs} @ {self.rhs}` is one chunk of a contraction, not a value",
            loc=self.loc,
            fix="sum it into a tile, `acc += ...` with acc = L.tile(gm, gn, nk), and read that",
        )

    def size(self, knob: str, known: Expr, unknown: Expr) -> Expr:
        """Return a size of the tile: ``known``, or what a region says where that is ``unknown``.

        Raises
        ------
        KernelError
            If both are known and differ.
        """
        for region, own in zip(self.regions, (("gm", "nk"), ("gn", "nk")), strict=True):
            if region is None or knob not in own:
                continue
            size: Expr = region.sizes[own.index(knob)]
            if known is unknown:
                known = size
            elif known != size:
                region.refuse_size(knob, size, known, self.loc)
        return known


def multiply(left: Any, right: Any, loc: Location) -> Product:
    """Return ``left @ right``: a value's columns are one chunk of K.

    Raises
    ------
    KernelError
        If a side is a whole buffer, has no rows and columns, or is a region that holds nothing.
    """
    regions = tuple(side if isinstance(side, Region) else None for side in (left, right))
    lhs, rhs = (side.held(loc) if isinstance(side, Region) else side for side in (left, right))
    beside = [not isinstance(side, Window) for side in (rhs, lhs)]
    operands = [
        side.operand(name, beside_value=value)
        if isinstance(side, Window)
        else _computed(side, name, loc)
        for side, name, value in zip((lhs, rhs), ("left", "right"), beside, strict=True)
    ]
    return Product(operands[0], operands[1], loc, (regions[0], regions[1]))


def _computed(value: Any, name: str, loc: Location) -> Computed:
    """Return a value as one side of ``@``; ``name`` is the side."""
    if hasattr(value, "buffer") or not isinstance(value, Elementwise) or isinstance(value, Product):
        what = "a whole buffer" if hasattr(value, "buffer") else f"`{type(value).__name__}`"
        raise KernelError(
            f"the {name} side of `@` is {what}, neither a window nor a value",
            loc=loc,
            fix="write `a[i, k] @ b[j, k]`: row tiles of both operands, and the same K chunk; what "
            "is known while tracing becomes a buffer with L.table(array)",
        )
    node = value.value(loc).node
    found = frame(node)
    if found.rows is not None and found.cols is not None and found.rows.index is not None:
        if found.rows.index != found.cols.index:
            node = _by_rows(node, found.rows.index)
            found = frame(node)
    if node.extent != "full":
        raise KernelError(
            f"the {name} side of `@` needs rows and columns, but this value has "
            f"{_LESS[node.extent]}",
            loc=loc,
            fix="contract a value that varies along the row, such as one computed from a tile",
        )
    if found.rows is None or found.cols is None:
        what = "rows" if found.rows is None else "columns"
        raise KernelError(
            f"the {name} side of `@` does not say which {what} it holds: nothing in it is cut "
            "from a buffer or a tile",
            loc=loc,
            fix="compute it from a tile or from windows of buffers",
        )
    row, chunk = (Const(0) if cut.index is None else cut.index for cut in (found.rows, found.cols))
    return Computed(node, loc, found.rows.extent, row, found.cols.extent, chunk)


def _by_rows(value: Value, row: Expr) -> Value:
    """Return a value in which a buffer of one axis that ``row`` indexes is one scalar a row.

    Where it was read, nothing said yet that this index counts rows.
    """
    made: dict[int, Value] = {}
    for node in walk(value):
        view = node.view
        if view is not None and view.kind == "channel_tile" and view.index == (row,):
            as_rows = replace(view, kind="column")
            made[id(node)] = replace(node, view=as_rows, extent="row")
            continue
        args = tuple(made[id(arg)] for arg in node.args)
        if all(new is old for new, old in zip(args, node.args, strict=True)):
            made[id(node)] = node
            continue
        reduces = node.op in REDUCTIONS
        extent = "row" if reduces else widest([arg.extent for arg in args])
        made[id(node)] = replace(node, args=args, extent=extent)
    return made[id(value)]


_LESS = {"row": "one scalar a row", "channel": "one row for all", "scalar": "one element"}


def region(g: Expr | int, nk: Expr | int) -> Region:
    """Return a window of L1 for ``g`` groups of 4 rows and ``nk`` blocks of 32 along K.

    Raises
    ------
    KernelError
        If used outside a grid, or a number is out of range.
    """
    loc = caller()
    grid = current("L.region", loc).grid
    if grid is None:
        raise KernelError(
            "a region outside any grid belongs to no instance",
            loc=loc,
            fix="make it inside `for i, j in grid(a.tiles(gm), b.tiles(gn))`",
        )
    sizes = [
        checked_size(size, f"{what} of L.region", loc, SIZE_LIMIT)
        for size, what in ((g, "g"), (nk, "nk"))
    ]
    return Region(loc.target or "region", (sizes[0], sizes[1]), grid, loc)


class Region:
    """An L1 window in the body of a kernel: ``<<=`` fills it, ``@`` contracts what it holds."""

    __slots__ = ("_content", "_grid", "_loc", "name", "sizes")

    def __init__(self, name: str, sizes: tuple[Expr, Expr], grid: Grid, loc: Location) -> None:
        self.name = name
        self.sizes = sizes
        self._grid = grid
        self._loc = loc
        self._content: Elementwise | None = None

    def __ilshift__(self, other: Any) -> Region:
        """Fill the region with a window, or with a value on its way into ``@``."""
        loc = caller()
        self._open(loc)
        if not isinstance(other, Elementwise) or isinstance(other, Product):
            raise KernelError(
                f"region `{self.name}` is filled with a window, not with a {type(other).__name__}",
                loc=loc,
                fix=f"write `{self.name} <<= a[i, k]`",
                notes=[(self._loc, f"`{self.name}` is made here")],
            )
        self._content = other
        return self

    def __matmul__(self, other: Any) -> Product:
        """Return the contraction of what both sides hold."""
        return multiply(self, other, caller())

    def held(self, loc: Location) -> Elementwise:
        """Return what the region holds.

        Raises
        ------
        KernelError
            If it holds nothing, or indices of the window it holds are over.
        """
        self._open(loc)
        if self._content is None:
            raise KernelError(
                f"region `{self.name}` is contracted, but nothing has been filled into it",
                loc=loc,
                fix=f"fill it first: `{self.name} <<= a[i, k]`",
                notes=[(self._loc, f"`{self.name}` is made here")],
            )
        if isinstance(self._content, Window):
            symbols = frozenset(s for index in self._content.index for s in index.symbols())
            current("a region", loc).require_open(symbols, f"region `{self.name}`", loc)
        return self._content

    def refuse_size(self, knob: str, size: Expr, known: Expr, loc: Location) -> NoReturn:
        """Refuse a contraction into a tile of another size.

        Raises
        ------
        KernelError
            Always.
        """
        what = "blocks along K" if knob == "nk" else "groups of 4 rows"
        raise KernelError(
            f"region `{self.name}` holds {size} {what}, but the tile has {knob} = {known}",
            loc=loc,
            fix=f"use one number for both: L.region({'g, nk' if knob == 'nk' else f'{knob}, nk'})",
            notes=[(self._loc, f"`{self.name}` is made here")],
        )

    def _open(self, loc: Location) -> None:
        if current(f"region `{self.name}`", loc).grid is not self._grid:
            raise KernelError(
                f"region `{self.name}` is used outside the grid that made it",
                loc=loc,
                fix="make a region in every grid that needs one",
                notes=[(self._loc, f"`{self.name}` is made here")],
            )
