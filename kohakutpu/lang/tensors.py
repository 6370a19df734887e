"""Buffers as the body of a kernel sees them, and their tilings."""

from __future__ import annotations

from operator import index
from typing import Any, NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const, Expr, as_expr, ceildiv, is_integer
from kohakuaccel.ir.nodes import Buffer, Tiling
from kohakuaccel.ir.unknown import tracing as flag
from kohakuaccel.lang.counts import Tiled
from kohakuaccel.lang.tracing import Tracer, current
from kohakuaccel.source import Location, caller
from kohakutpu.lang.layout import chunk_count, rows_and_width, stored_elements, tile_count
from kohakutpu.lang.values import Elementwise, Expression
from kohakutpu.lang.windows import Index, Window, cuts_columns, stage_kind

Size = Expr | int | None

SIZE_LIMIT = 1023  # the instruction fields of gm, gn and nk have 10 bits
PART_MULTIPLE = 16  # elements a word of FP16


class Tensor(Elementwise):
    """A buffer: index it with the indices of a grid to get a window of it."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The axes that the kernel names."""
        return self.buffer.shape

    def tiles(self, g: Size = None) -> Tiled:
        """Return the split of the rows into tiles of ``g`` groups of 4 rows.

        Raises
        ------
        KernelError
            If the buffer has no rows and columns or ``g`` is out of range.
        """
        loc = caller()
        self._need_rank(2, "tiles", loc)
        size = self._size(g, "tiles", loc, SIZE_LIMIT)
        return Tiled(Tiling("tiles", self.buffer, size, tile_count(self.buffer.shape[0], size)))

    def chunks32(self, n: Size = None) -> Tiled:
        """Return the split of the last axis into chunks of ``n`` blocks of 32 elements.

        Raises
        ------
        KernelError
            If the buffer has no rows and columns or ``n`` is out of range.
        """
        loc = caller()
        self._need_rank(2, "chunks32", loc)
        size = self._size(n, "chunks32", loc, SIZE_LIMIT)
        return Tiled(Tiling("chunks32", self.buffer, size, chunk_count(self.buffer.shape[1], size)))

    def parts(self, n: Size = None) -> Tiled:
        """Return the split of the whole buffer into runs of ``n`` elements in row order.

        Rows count with their padding to whole words, so ``n`` is a multiple of 16.

        Raises
        ------
        KernelError
            If ``n`` is no positive multiple of 16.
        """
        loc = caller()
        size = self._size(n, "parts", loc, None)
        if isinstance(size, Const) and size.value % PART_MULTIPLE:
            raise KernelError(
                f"a part of {size} elements does not end on a word of {PART_MULTIPLE} elements",
                loc=loc,
                fix=f"use a multiple of {PART_MULTIPLE}, such as "
                f"{-(-size.value // PART_MULTIPLE) * PART_MULTIPLE}",
            )
        count = ceildiv(stored_elements(self.buffer), size)
        return Tiled(Tiling("parts", self.buffer, size, count))

    def rows(self, n: Size = None) -> Tiled:
        """Return the split into blocks of ``n`` whole rows.

        Raises
        ------
        KernelError
            If ``n`` is out of range.
        """
        size = self._size(n, "rows", caller(), None)
        if isinstance(size, Const) and flag.active:
            tracer = self._tracer(caller())
            size = Const(tracer.sizes.get(("rows", self.buffer.name, size.value), size.value))
        count = ceildiv(rows_and_width(self.buffer)[0], size)
        return Tiled(Tiling("rows", self.buffer, size, count))

    def __getitem__(self, place: Index | tuple[Index, ...]) -> Window:
        """Return the window that ``place`` selects."""
        return Window(self.buffer, place if isinstance(place, tuple) else (place,), caller())

    def __setitem__(self, place: Index | tuple[Index, ...], window: object) -> None:
        if not isinstance(window, Window) or not window.stored:
            raise KernelError(
                f"`{self.buffer.name}[...] = ...` does not write a buffer",
                loc=caller(),
                fix="write it with `<<=`",
            )
        window.stored = False

    def value(self, loc: Location) -> Expression:
        """Return the buffer as a value: a number for all, or a row that all rows share.

        Raises
        ------
        KernelError
            If it must be indexed here.
        """
        buffer = self.buffer
        tracer = self._tracer(loc)
        if buffer.role == "table" and len(buffer.shape) == 2 and tracer.grid is not None:
            if cuts_columns(tracer.grid.body):
                return Window(buffer, (), loc).as_load("whole", "full", loc)
        if len(buffer.shape) > 1 or buffer.any_rank:
            raise KernelError(
                f"`{buffer.name}` is a whole buffer; elementwise arithmetic works on windows",
                loc=loc,
                fix=f"index it by the grid, as in `{buffer.name}[{_indices(tracer, buffer)}]`",
                notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
            )
        if tracer.grid is None:
            raise KernelError(
                f"`{buffer.name}` is read outside any grid",
                loc=loc,
                fix="move the statement into `for ... in grid(...)` or `with stage(...)`",
            )
        if not buffer.shape:
            return Window(buffer, (), loc).as_load("scalar", "scalar", loc)
        kind = stage_kind(tracer, loc)
        if kind != "rows":
            better = (
                f"index it by the column tile, as in `{buffer.name}[{_last(tracer)}]`"
                if kind == "tiles"
                else "split the work by x.rows(n) instead of x.parts(n)"
            )
            raise KernelError(
                f"`{buffer.name}` is one row, and this grid does not work on whole rows",
                loc=loc,
                fix=better,
            )
        return Window(buffer, (), loc).as_load("channel", "channel", loc)

    def __matmul__(self, other: Any) -> NoReturn:
        self._refuse_whole(other)

    def __rmatmul__(self, other: Any) -> NoReturn:
        self._refuse_whole(other)

    def __ilshift__(self, other: Any) -> NoReturn:
        name = self.buffer.name
        raise KernelError(
            f"`{name} <<= ...` does not say which window of `{name}` an instance writes",
            loc=caller(),
            fix=f"index it by the grid, as in `{name}[i] <<= ...`",
        )

    def _tracer(self, loc: Location) -> Tracer:
        return current(f"`{self.buffer.name}`", loc)

    def _need_rank(self, rank: int, what: str, loc: Location) -> None:
        buffer = self.buffer
        if len(buffer.shape) != rank or buffer.any_rank:
            axes = "any rank" if buffer.any_rank else _axes(len(buffer.shape))
            raise KernelError(
                f"`{buffer.name}.{what}` needs a buffer of rows and columns, "
                f"but `{buffer.name}` has {axes}",
                loc=loc,
                fix="declare two axes, with a leading `...` for a batch; .parts(n) and .rows(n) "
                "split any buffer",
                notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
            )

    def _size(self, size: Size, what: str, loc: Location, limit: int | None) -> Expr:
        if size is None:
            return self._tracer(loc).knob(f"{self.buffer.name}.{what}")
        return checked_size(size, f"{self.buffer.name}.{what}", loc, limit)

    def _refuse_whole(self, other: Any) -> NoReturn:
        names = self.buffer.name, other.buffer.name if isinstance(other, Tensor) else "..."
        raise KernelError(
            f"`{names[0]} @ {names[1]}` contracts whole buffers and states no split",
            loc=caller(),
            fix="split it with a grid, L.tile and a sweep; to leave the split to the compiler, "
            "write `x @ w` at the tensor level (kohakutpu.api), outside kernels",
        )

    def _describe(self) -> str:
        return f"`{self.buffer.name}`"


def checked_size(size: Any, what: str, loc: Location, limit: int | None) -> Expr:
    """Return a block size as an expression.

    Raises
    ------
    KernelError
        If it is no integer, below 1 or above ``limit``.
    """
    if isinstance(size, Expr):
        return as_expr(size)
    number = index(size) if is_integer(size) else 0
    if number < 1 or (limit is not None and number > limit):
        bounds = f"from 1 to {limit}" if limit is not None else "of at least 1"
        raise KernelError(
            f"{what} takes a whole number {bounds}, not {size!r}",
            loc=loc,
            fix="use such a number, or None to let the compiler choose",
        )
    return Const(number)


def _indices(tracer: Tracer, buffer: Buffer) -> str:
    symbols = [str(i.symbol) for i in tracer.grid.indices] if tracer.grid else ["i", "j"]
    return ", ".join(symbols[: max(len(buffer.shape), 1)])


def _last(tracer: Tracer) -> str:
    return str(tracer.grid.indices[-1].symbol) if tracer.grid else "j"


def _axes(number: int) -> str:
    return "one axis" if number == 1 else f"{number or 'no'} axes"
