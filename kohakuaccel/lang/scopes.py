"""``grid``, ``stage`` and ``sweep``: what runs once an index, traced once for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any, Generic, TypeVar, overload

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Grid, Index, Repeat, Tiling
from kohakuaccel.lang.counts import Count, checked_count
from kohakuaccel.lang.tracing import current
from kohakuaccel.source import Location, caller

T = TypeVar("T")


class Scope(Generic[T]):
    """A body with indices; ``for`` and ``with`` both open it, once."""

    def __init__(self, what: str, counts: tuple[Count, ...]) -> None:
        self._loc = caller()
        self._what = what
        self._tracer = current(what, self._loc)
        if not counts:
            raise KernelError(
                f"{what} without arguments has nothing to run over",
                loc=self._loc,
                fix=f"say what to split, as in {what}(x.tiles(gm))",
            )
        names = _names(self._loc, len(counts))
        self._indices = tuple(
            Index(Symbol(name, "index"), *self._counted(count), self._loc)
            for name, count in zip(names, counts, strict=True)
        )
        self._entered: AbstractContextManager[Any] | None = None
        for index in self._indices:
            self._tracer.require_open(index.count.symbols(), f"the count of {what}", self._loc)

    def _counted(self, count: Count) -> tuple[Expr, Tiling | None]:
        """Return a count and what it counts: up to an index it counts what the index counts."""
        expr, tiling = checked_count(count, self._what, self._loc)
        if tiling is None:
            around = {self._tracer.tiling(symbol) for symbol in expr.symbols()} - {None}
            rows = [found for found in around if found is not None and found.kind == "rows"]
            if len(around) == len(rows) == 1:
                tiling = replace(rows[0], count=expr)
        return expr, tiling

    def _statement(self) -> Grid | Repeat:
        raise NotImplementedError

    @property
    def _value(self) -> Any:
        symbols = tuple(index.symbol for index in self._indices)
        return symbols[0] if len(symbols) == 1 else symbols

    def _opened(self) -> AbstractContextManager[Any]:
        return self._tracer.inside(self._statement())

    def __iter__(self) -> Iterator[T]:
        with self._opened():
            yield self._value

    def __enter__(self) -> T:
        self._entered = self._opened()
        self._entered.__enter__()
        return self._value

    def __exit__(self, *error: Any) -> None:
        assert self._entered is not None
        self._entered.__exit__(*error)


class GridScope(Scope[T]):
    """Independent instances, one for every value of the indices.

    Inside another grid it is a view of what an instance holds, and goes through it in order.
    """

    def __init__(self, what: str, counts: tuple[Count, ...], barrier: bool) -> None:
        super().__init__(what, counts)
        self._barrier = barrier

    def _statement(self) -> Grid:
        return Grid(self._loc, self._indices, self._barrier)

    def _opened(self) -> AbstractContextManager[Any]:
        if self._tracer.grid is None:
            return super()._opened()
        loops = ExitStack()
        for index in self._indices:
            loops.enter_context(self._tracer.inside(Repeat(self._loc, index)))
        return loops


class LoopScope(Scope[T]):
    """Iteration: repeats the statements of an instance, or whole stages outside a grid."""

    def _statement(self) -> Repeat:
        return Repeat(self._loc, self._indices[0])


@overload  # of several overloads that fit, the first counts
def grid(first: Count, /) -> GridScope[Expr]: ...  # pyright: ignore[reportOverlappingOverload]
@overload
def grid(first: Count, second: Count, /) -> GridScope[tuple[Expr, Expr]]: ...
@overload
def grid(first: Count, second: Count, third: Count, /) -> GridScope[tuple[Expr, Expr, Expr]]: ...
@overload
def grid(*counts: Count) -> GridScope[tuple[Expr, ...]]: ...
def grid(*counts: Count) -> GridScope[Any]:
    """Split the work: ``for i, j in grid(a.tiles(gm), b.tiles(gn))``.

    The body describes one instance; instances are independent and run in any order, on any
    unit. A neighbouring grid of the same split may share a stage with it. A grid inside a grid
    splits what an instance holds further: that is a view, and writes no memory.

    Raises
    ------
    KernelError
        If used outside a kernel, or if an argument is no count.
    """
    return GridScope("grid", counts, barrier=False)


@overload
def stage(first: Count, /) -> GridScope[Expr]: ...  # pyright: ignore[reportOverlappingOverload]
@overload
def stage(first: Count, second: Count, /) -> GridScope[tuple[Expr, Expr]]: ...
@overload
def stage(first: Count, second: Count, third: Count, /) -> GridScope[tuple[Expr, Expr, Expr]]: ...
@overload
def stage(*counts: Count) -> GridScope[tuple[Expr, ...]]: ...
def stage(*counts: Count) -> GridScope[Any]:
    """Split the work like :func:`grid` and wait for all of it: ``with stage(x.rows(n)) as r``.

    Raises
    ------
    KernelError
        If used outside a kernel, or if an argument is no count.
    """
    return GridScope("stage", counts, barrier=True)


def sweep(count: Count, /) -> LoopScope[Expr]:
    """Iterate in order: ``for k in sweep(a.chunks32(nk))``.

    Inside a grid it repeats statements of every instance, outside it repeats whole stages. The
    count may use the indices around it.

    Raises
    ------
    KernelError
        If used outside a kernel, or if ``count`` is no count.
    """
    return LoopScope("sweep", (count,))


units = stage
loop = sweep


def _names(loc: Location, number: int) -> tuple[str, ...]:
    """Return the names the user gives the indices, read off the source line."""
    before = loc.text.encode()[: loc.column].decode(errors="replace")
    after = "" if loc.end_column is None else loc.text.encode()[loc.end_column :].decode()
    target = re.search(r"\bfor\s+(.+?)\s+in\s*$", before) or re.match(r"\s+as\s+([^:]+):", after)
    found = re.findall(r"[^\W\d]\w*", target[1]) if target else []
    if len(found) == number:
        return tuple(found)
    return tuple("ijklmn"[n] if n < 6 else f"i{n}" for n in range(number))
