"""Windows of buffers: what ``x[i, k]`` means depends on the grid and on what uses it."""

from __future__ import annotations

from typing import Any, NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, Symbol, as_expr, is_integer
from kohakuaccel.ir.nodes import Buffer, Grid, Repeat, Statement, Store, Tiling, Value, View
from kohakuaccel.lang.tracing import Tracer, current
from kohakuaccel.source import Location, caller
from kohakutpu.lang.ir import Assign, Tile, TileDecl, loads
from kohakutpu.lang.values import Elementwise, Expression, as_value

Index = Expr | int

COUNTS = {
    "tiles": "row tiles",
    "chunks32": "K chunks",
    "parts": "parts",
    "rows": "blocks of rows",
}
BLOCKS = ("tiles", "rows")  # of a matrix, as a contraction cuts it
COLUMNS = ("tiles", "rows", "chunks32")
WANTED = {
    "operand": (BLOCKS, ("chunks32",)),
    "transposed": (("rows", "chunks32", "tiles"),),
    "tile": (BLOCKS, COLUMNS),
    "channel_tile": (COLUMNS,),
    "part": (("parts",),),
    "rows": (("rows",),),
    "column": (("rows", "tiles"),),
}
"""What an index of each kind of view may count; the first is what a message suggests."""
BESIDE_VALUE = {**WANTED, "operand": (BLOCKS, ("chunks32", *BLOCKS))}  # a value's columns are K
EXTENT = {
    "tile": "full",
    "channel_tile": "channel",
    "part": "full",
    "rows": "full",
    "column": "row",
}


class Window(Elementwise):
    """``buffer[index]``: an operand of ``@``, a value, or with ``<<=`` what an instance writes."""

    __slots__ = ("buffer", "index", "loc", "stored")

    def __init__(self, buffer: Buffer, index: tuple[Index, ...], loc: Location) -> None:
        self.buffer = buffer
        self.loc = loc
        self.stored = False
        _require_own(buffer, loc)
        self.index = tuple(self._checked(position, loc) for position in index)

    def view(self, kind: str, beside_value: bool = False) -> View:
        """Return the window read as ``kind``, after checking rank and what the indices count.

        ``beside_value`` says that it is contracted with a computed value.

        Raises
        ------
        KernelError
            If the number of indices is wrong or one of them counts something else.
        """
        tracer = current(f"`{self.buffer.name}[...]`", self.loc)
        wanted = (BESIDE_VALUE if beside_value else WANTED)[kind]
        if len(self.index) != len(wanted):
            self._refuse_rank(kind, len(wanted))
        tilings = tuple(tracer.tiling(index) for index in self.index)
        if kind in ("rows", "column") and tilings == (None,) and self._is_of_the_grid(tracer):
            tilings = (stage_tiling(tracer, "rows"),)  # x[2 * r + 1]: blocks of the grid's size
        for axis, (tiling, expected) in enumerate(zip(tilings, wanted, strict=True)):
            if tiling is not None and tiling.kind not in expected:
                self._refuse_kind(axis, tiling, expected[0])
        return View(self.buffer, kind, self.index, tilings, self.loc)

    def operand(self, position: str, beside_value: bool = False) -> View:
        """Return the window as one side of ``@``; ``position`` names the side.

        Raises
        ------
        KernelError
            If the buffer has not two axes of FP16, or an index counts something else.
        """
        if len(self.buffer.shape) != 2 or self.buffer.any_rank:
            raise KernelError(
                f"`{self.buffer.name}` is no operand of `@`: the {position} side needs rows and K",
                loc=self.loc,
                fix="declare it with two axes, with a leading `...` for a batch",
                notes=[(self.buffer.loc, f"`{self.buffer.name}` is declared here")],
            )
        if self.buffer.dtype != "fp16":
            raise KernelError(
                f"`{self.buffer.name}` holds {self.buffer.dtype}; operands of `@` are FP16",
                loc=self.loc,
                fix='declare it with dtype="fp16"',
                notes=[(self.buffer.loc, f"`{self.buffer.name}` is declared here")],
            )
        one = position == "right" and len(self.index) == 1
        return self.view("transposed" if one else "operand", beside_value)

    def value(self, loc: Location) -> Expression:
        """Return the window's elements."""
        kind = self.elementwise_kind()
        return self.as_load(kind, EXTENT[kind], self.loc)

    def as_load(self, kind: str, extent: str, loc: Location) -> Expression:
        """Return a load of the window, read as ``kind``."""
        tracer = current(f"`{self.buffer.name}`", loc)
        view = self.view(kind) if self.index else View(self.buffer, kind, (), (), loc)
        return Expression(Value("load", (), extent, loc, view=view), tracer.grid)

    def elementwise_kind(self) -> str:
        """Return the kind of view that elementwise work in the grid around it makes of it.

        Raises
        ------
        KernelError
            If there is no grid around it, or the grid works on something else.
        """
        tracer = current(f"`{self.buffer.name}[...]`", self.loc)
        stage = stage_kind(tracer, self.loc)
        if stage == "parts":
            return "part"
        if stage == "tiles":
            return self._kind_beside_tiles(tracer)
        if len(self.index) == 2 and self._cuts_columns(tracer):
            return "tile"
        if len(self.buffer.shape) == 1 and self._is_of_the_columns(tracer):
            return "channel_tile"
        tiling = stage_tiling(tracer, "rows")
        whole = tiling is not None and len(tiling.buffer.shape) != 1
        if len(self.buffer.shape) == 1:
            return "column" if whole else "rows"
        one = len(self.buffer.shape) > 1 and self.buffer.shape[-1] == as_expr(1)
        same = tiling is not None and tiling.buffer.shape[-1:] == self.buffer.shape[-1:]
        return "column" if one and not same else "rows"

    def _cuts_columns(self, tracer: Tracer) -> bool:
        """Tell whether rows are worked on by columns: in all the grid, or by the second index."""
        if tracer.grid is not None and cuts_columns(tracer.grid.body):
            return True
        return self.index[1] != self.index[0] and tracer.tiling(self.index[1]) is not None

    def _kind_beside_tiles(self, tracer: Tracer) -> str:
        shape = self.buffer.shape
        if len(self.index) == 1 and len(shape) == 2 and shape[-1] == as_expr(1):
            return "column"
        if len(shape) != 1 or tracer.grid is None:
            return "tile"
        made = tiles_in(tracer.grid.body)
        rows, columns = ({getattr(tile, side) for tile in made} for side in ("row", "col"))
        return "column" if self.index and self.index[0] in rows - columns else "channel_tile"

    def _is_of_the_grid(self, tracer: Tracer) -> bool:
        """Tell whether the window moves with the rows that the grid runs over."""
        rows = {s for s in self.index[0].symbols() if (t := tracer.tiling(s)) and t.kind == "rows"}
        return tracer.grid is not None and any(i.symbol in rows for i in tracer.grid.indices)

    def _is_of_the_columns(self, tracer: Tracer) -> bool:
        """Tell whether the window is cut along columns: by loops alone, or as a tile's columns."""
        grid, tiling = tracer.grid, tracer.tiling(self.index[0]) if self.index else None
        if tiling is not None and tiling.kind == "chunks32":
            return True
        if grid is None or not cuts_columns(grid.body):
            return False
        own = {index.symbol for index in grid.indices}
        symbols = frozenset[Symbol]().union(*(index.symbols() for index in self.index))
        if not symbols & own:
            return bool(symbols)
        made = tiles_in(grid.body)
        rows = {tile.row for tile in made if tile.row is not None}
        return self.index[0] in {tile.col for tile in made} - rows

    def __ilshift__(self, other: Any) -> Window:
        """Store ``other`` into the window."""
        loc = caller()
        tracer = current("`<<=`", loc)
        name = self.buffer.name
        if self.buffer.role in ("in", "table"):
            what = "an argument" if self.buffer.role == "in" else "a table"
            raise KernelError(
                f"`{name}` is {what} and cannot be written",
                loc=loc,
                fix="declare a result with L.Out(...), or an internal buffer with L.temp(...)",
                notes=[(self.buffer.loc, f"`{name}` is declared here")],
            )
        if tracer.grid is None:
            raise KernelError(
                f"`{name}` is written outside any grid",
                loc=loc,
                fix="move the statement into `for ... in grid(...)` or `with stage(...)`",
            )
        view = self.view(self.elementwise_kind())
        value = as_value(other, loc)
        for load in loads(value.node):
            symbols = frozenset[Symbol]().union(*(index.symbols() for index in load.index))
            tracer.require_open(symbols, f"the value, by `{load}`,", loc)
        tracer.add(Store(loc, view, value.node))
        self.stored = True
        return self

    def _checked(self, index: Any, loc: Location) -> Expr:
        if isinstance(index, slice):
            raise KernelError(
                f"`{self.buffer.name}` is indexed by a slice",
                loc=loc,
                fix="index by the indices of the grid: one names a whole tile, part or block",
            )
        if not is_integer(index):
            raise KernelError(
                f"an index of `{self.buffer.name}` is a {type(index).__name__}, not an integer",
                loc=loc,
                fix="index by the indices of grids and loops, and whole numbers",
            )
        expr = as_expr(index)
        tracer = current(f"`{self.buffer.name}[...]`", loc)
        tracer.require_open(expr.symbols(), f"`{self.buffer.name}[...]`", loc)
        return expr

    def _refuse_rank(self, kind: str, wanted: int) -> NoReturn:
        form = {
            "operand": f"{self.buffer.name}[i, k]: a row tile and a K chunk",
            "tile": f"{self.buffer.name}[i, j]: a row tile and a column tile",
            "channel_tile": f"{self.buffer.name}[j]: a column tile",
            "part": f"{self.buffer.name}[e]: one part of the whole buffer",
        }.get(kind, f"{self.buffer.name}[r]: one block of whole rows")
        plural = "index" if wanted == 1 else "indices"
        raise KernelError(
            f"`{self.buffer.name}` takes {wanted} {plural} here, not {len(self.index)}",
            loc=self.loc,
            fix=f"write {form}",
            notes=[(self.buffer.loc, f"`{self.buffer.name}` is declared here")],
        )

    def _refuse_kind(self, axis: int, tiling: Tiling, expected: str) -> NoReturn:
        symbol = self.index[axis]
        found = COUNTS[tiling.kind]
        fix = f"index axis {axis} by a grid or loop over {tiling.buffer.name}.{expected}(...)"
        if len(self.index) == 2 and expected in ("tiles", "chunks32"):
            fix += f"; are the indices of `{self.buffer.name}` swapped?"
        raise KernelError(
            f"`{symbol}` counts {found} of `{tiling.buffer.name}`, "
            f"but index {axis} of `{self.buffer.name}` counts {COUNTS[expected]}",
            loc=self.loc,
            fix=fix,
        )

    def _describe(self) -> str:
        return f"`{self.loc.source or self.buffer.name}`"


def _require_own(buffer: Buffer, loc: Location) -> None:
    tracer = current(f"`{buffer.name}`", loc)
    if not any(buffer is own for own in tracer.trace.buffers):
        raise KernelError(
            f"this {buffer.role} buffer is none of kernel `{tracer.trace.name}`",
            loc=loc,
            fix="make it a parameter: L.In(...) or L.Out(...) as its default; or make it in the "
            "body with L.temp(...) or L.table(...)",
            notes=[(buffer.loc, "it is declared here")],
        )


def stage_kind(tracer: Tracer, loc: Location) -> str:
    """Return what the grid around works on: ``"tiles"``, ``"parts"`` or ``"rows"``.

    Raises
    ------
    KernelError
        If there is no grid, or its indices count nothing or several things.
    """
    grid = tracer.grid
    if grid is None:
        raise KernelError(
            "elementwise work outside any grid",
            loc=loc,
            fix="move it into `for ... in grid(...)` or `with stage(...)`",
        )
    kinds = grid_kinds(grid)
    if not kinds and _has_tile(grid.body):
        return "tiles"
    if len(kinds) != 1:
        what = " and ".join(COUNTS[kind] for kind in sorted(kinds)) or "plain numbers"
        raise KernelError(
            f"a grid over {what} does not say what an instance works on",
            loc=grid.loc,
            fix="split by x.tiles(g) for contractions, by x.parts(n) or x.rows(n) otherwise",
            notes=[(loc, "needed here")],
        )
    return kinds.pop()


def grid_kinds(grid: Grid) -> set[str]:
    """Return the kinds of tiling a grid runs over; chunks go with rows or with contractions."""
    kinds = {index.tiling.kind for index in grid.indices if index.tiling is not None}
    if "rows" in kinds:
        kinds.discard("chunks32")
    return {"tiles" if kind == "chunks32" else kind for kind in kinds}


def _has_tile(body: list[Statement]) -> bool:
    return any(
        isinstance(statement, TileDecl)
        or (isinstance(statement, Repeat) and _has_tile(statement.body))
        for statement in body
    )


def cuts_columns(body: list[Statement]) -> bool:
    """Tell whether the rows of a grid are worked on by blocks of columns: tiles, or state."""
    return any(
        isinstance(statement, (TileDecl, Assign))
        or (isinstance(statement, Repeat) and cuts_columns(statement.body))
        for statement in body
    )


def tiles_in(body: list[Statement]) -> list[Tile]:
    """Return the tiles that are made in a body or in its loops."""
    found: list[Tile] = []
    for statement in body:
        if isinstance(statement, TileDecl):
            found.append(statement.tile)
        elif isinstance(statement, Repeat):
            found += tiles_in(statement.body)
    return found


def stage_tiling(tracer: Tracer, kind: str) -> Tiling | None:
    """Return the tiling of ``kind`` that the grid around runs over."""
    indices = tracer.grid.indices if tracer.grid else ()
    found = (i.tiling for i in indices if i.tiling is not None and i.tiling.kind == kind)
    return next(found, None)
