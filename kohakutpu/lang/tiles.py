"""Accumulator tiles: ``acc = L.tile(gm, gn, nk)``, ``acc += a[i, k] @ b[j, k]``, arithmetic."""

from __future__ import annotations

from typing import Any, NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const, Expr
from kohakuaccel.ir.nodes import Grid, Repeat, Tiling, Value, View
from kohakuaccel.lang.tracing import Tracer, current
from kohakuaccel.source import Location, caller
from kohakutpu.lang.frames import Cut, block_size, frame
from kohakutpu.lang.ir import Accumulate, Computed, Tile, TileDecl, row_extent, row_index
from kohakutpu.lang.operands import Product
from kohakutpu.lang.tensors import SIZE_LIMIT, Size, checked_size
from kohakutpu.lang.values import Elementwise, Expression


def tile(
    gm: Size = None,
    gn: Size = None,
    nk: Size = None,
    precision: str | None = None,
    sweeps: int = 1,
) -> Accumulator:
    """Return a fresh accumulator tile, all zeros in every instance.

    Parameters
    ----------
    gm, gn : int, optional
        Groups of 4 rows and of 4 columns; taken from the operands' tilings if left out.
    nk : int, optional
        Blocks of 32 along K in one chunk; taken from the operands' tilings if left out.
    precision : {"default", "left", "high"}, optional
        ``"left"`` adds the products with the residual of the left operand: twice the work.
        ``"high"`` adds those of either operand: three times the work.
    sweeps : int, optional
        How many times all of K goes into the tile.

    Raises
    ------
    KernelError
        If used outside a grid, or a number is out of range.
    """
    loc = caller()
    tracer = current("L.tile", loc)
    grid = tracer.grid
    if grid is None:
        raise KernelError(
            "an accumulator tile outside any grid belongs to no instance",
            loc=loc,
            fix="make it inside `for i, j in grid(a.tiles(gm), b.tiles(gn))`",
        )
    if precision not in (None, "default", "left", "high"):
        shown = "None" if isinstance(precision, Expr) else repr(precision)
        fix = 'use "default", "left" or "high"'
        raise KernelError(f"there is no precision {shown}", loc=loc, fix=fix)
    if not isinstance(sweeps, int) or isinstance(sweeps, bool) or sweeps < 1:  # pyright: ignore
        raise KernelError(
            f"sweeps counts sweeps over K, it cannot be {sweeps!r}", loc=loc, fix="use 1 or more"
        )
    name = loc.target or "tile"
    sizes = [
        _AUTO if size is None else checked_size(size, f"{what} of L.tile", loc, SIZE_LIMIT)
        for size, what in ((gm, "gm"), (gn, "gn"), (nk, "nk"))
    ]
    declared = Tile(name, sizes[0], sizes[1], sizes[2], precision or "default", sweeps, loc)
    tracer.add(TileDecl(loc, declared))
    return Accumulator(declared, tracer, grid)


_AUTO = Const(0)  # a size that the first contraction decides


class Accumulator(Elementwise):
    """A tile in the accumulator: ``+=`` contracts into it, arithmetic reads it."""

    __slots__ = ("depth", "grid", "read", "sweeps", "tile")

    def __init__(self, declared: Tile, tracer: Tracer, grid: Grid) -> None:
        self.tile = declared
        self.grid = grid
        self.depth = len(tracer.loops)
        self.sweeps: list[list[Repeat]] = []
        self.read: Location | None = None

    def __iadd__(self, other: Any) -> Accumulator:
        """Contract into the tile."""
        loc = caller()
        tracer = self._open(loc)
        if not isinstance(other, Product):
            raise KernelError(
                f"`{self.tile.name} += ...` contracts into the tile; this is no contraction",
                loc=loc,
                fix=f"write `{self.tile.name} += a[i, k] @ b[j, k]`, and arithmetic where the tile "
                "is read, as in `c[i, j] <<= acc + x`",
            )
        self._refuse_chain(tracer, loc)
        self._unify(tracer, other)
        tracer.add(Accumulate(loc, self.tile, other.lhs, other.rhs))
        self.sweeps.append(tracer.loops[self.depth :])
        return self

    def value(self, loc: Location) -> Expression:
        """Return the tile's elements, rounded to FP16 as they leave the accumulator."""
        tracer = self._open(loc)
        self._refuse_partial(tracer, loc)
        if not self.sweeps:
            raise KernelError(
                f"tile `{self.tile.name}` is read, but nothing has been contracted into it",
                loc=loc,
                fix=f"sweep over K first: `{self.tile.name} += a[i, k] @ b[j, k]`",
                notes=[(self.tile.loc, f"`{self.tile.name}` is made here")],
            )
        self.read = self.read or loc
        return Expression(Value("tile", (), "full", loc, tile=self.tile), self.grid)

    def __ilshift__(self, other: Any) -> NoReturn:
        raise KernelError(
            f"`{self.tile.name} <<= ...`: an accumulator tile is written by contraction only",
            loc=caller(),
            fix="keep the value in a Python variable and store that: `c[i, j] <<= value`",
        )

    def _open(self, loc: Location) -> Tracer:
        tracer = current(f"tile `{self.tile.name}`", loc)
        if tracer.grid is not self.grid:
            raise KernelError(
                f"tile `{self.tile.name}` is used outside the grid that made it",
                loc=loc,
                fix="store it in that grid, into a result or an L.temp(...), and read that here",
                notes=[(self.tile.loc, f"`{self.tile.name}` is made here")],
            )
        return tracer

    def _refuse_partial(self, tracer: Tracer, loc: Location) -> None:
        for loops in self.sweeps:
            for loop in loops:
                if loop in tracer.open:
                    raise KernelError(
                        f"tile `{self.tile.name}` is read inside its own sweep over "
                        f"`{loop.index.symbol}`, when only part of K is in it",
                        loc=loc,
                        fix="read it after the loop",
                        notes=[(loop.loc, "the sweep")],
                    )

    def _refuse_chain(self, tracer: Tracer, loc: Location) -> None:
        if self.read is not None:
            raise KernelError(
                f"tile `{self.tile.name}` is contracted into after it has been read",
                loc=loc,
                fix="contract everything into it first, or make a second tile",
                notes=[(self.read, f"`{self.tile.name}` is read here")],
            )
        since = tracer.loops[self.depth :]
        if len(since) > 1:
            outer = since[0]
            raise KernelError(
                f"the loop over `{outer.index.symbol}` was opened after tile `{self.tile.name}` "
                "and carries its chain: every pass would sweep K into the same tile again",
                loc=loc,
                fix=f"make the tile inside that loop, or fold it into the sweep over "
                f"`{since[-1].index.symbol}`",
                notes=[
                    (self.tile.loc, f"`{self.tile.name}` is made here"),
                    (outer.loc, f"the loop over `{outer.index.symbol}`"),
                ],
            )

    def _unify(self, tracer: Tracer, product: Product) -> None:
        """Take sizes that are left out from the operands, and the place from the first of them."""
        declared, lhs, rhs = self.tile, product.lhs, product.rhs
        for knob in ("gm", "gn", "nk"):
            setattr(declared, knob, product.size(knob, getattr(declared, knob), _AUTO))
        values = [side for side in (lhs, rhs) if isinstance(side, Computed)]
        if isinstance(lhs, Computed):
            declared.gm = _groups(lhs) if declared.gm is _AUTO else declared.gm
        else:
            declared.gm = _size("gm", declared.gm, lhs, 0, tracer, declared)
        if isinstance(rhs, Computed):
            declared.gn = _groups(rhs) if declared.gn is _AUTO else declared.gn
        elif values or rhs.kind == "transposed":
            declared.gn = _columns(declared, rhs)
        else:
            declared.gn = _size("gn", declared.gn, rhs, 0, tracer, declared)
        if values:
            declared.nk = _blocks(values[0]) if declared.nk is _AUTO else declared.nk
        for side in (lhs, rhs) if not values else ():
            assert isinstance(side, View)
            declared.nk = _size("nk", declared.nk, side, -1, tracer, declared)
        if declared.rows is None:
            declared.rows, declared.row = row_extent(lhs), row_index(lhs)
            declared.cols, declared.col = row_extent(rhs), row_index(rhs)

    def _describe(self) -> str:
        return f"tile `{self.tile.name}`"


def _groups(computed: Computed) -> Expr:
    """Return how many groups of 4 rows a value has."""
    cut = frame(computed.value).rows
    assert cut is not None
    return cut.groups


def _blocks(computed: Computed) -> Expr:
    """Return how many blocks of 32 a value's columns are."""
    cut = frame(computed.value).cols
    assert cut is not None
    return cut.blocks


def _columns(declared: Tile, rhs: View) -> Expr:
    """Return ``gn`` beside a computed operand or a transposed one: all columns if nobody says."""
    if declared.gn is not _AUTO:
        return declared.gn
    tiling = None if rhs.kind == "transposed" else rhs.tilings[0]
    extent = row_extent(rhs)
    return Cut(extent, block_size(tiling, extent), row_index(rhs)).groups


def _size(knob: str, known: Expr, view: View, axis: int, tracer: Tracer, declared: Tile) -> Expr:
    """Return a size of the tile, from its declaration or from the tiling behind an index."""
    tiling: Tiling | None = view.tilings[axis]
    natural = "chunks32" if knob == "nk" else "tiles"
    if known is _AUTO:
        if tiling is None:
            return tracer.knob(f"{declared.name}.{knob}")
        block = Cut(Const(0), block_size(tiling, Const(0)), Const(0))
        return block.blocks if knob == "nk" else block.groups
    if tiling is not None and tiling.kind != natural:
        return known  # how many elements both are is compared once there are numbers
    if tiling is not None and isinstance(known, Const) and isinstance(tiling.size, Const):
        if known.value != tiling.size.value:
            raise KernelError(
                f"`{view.index[axis]}` counts {tiling.kind} of {tiling.size}, "
                f"but tile `{declared.name}` has {knob} = {known}",
                loc=view.loc,
                fix=f"use one number for both: {tiling.buffer.name}.{tiling.kind}({knob}) and "
                f"L.tile(gm, gn, nk)",
                notes=[(declared.loc, f"`{declared.name}` is made here")],
            )
    return known
