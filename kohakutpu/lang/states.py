"""``L.state``: what the loops of an instance carry from pass to pass, with no memory behind it."""

from __future__ import annotations

from typing import Any

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, as_expr, is_integer
from kohakuaccel.ir.nodes import Grid, Repeat, Statement, Value
from kohakuaccel.lang.tracing import Tracer, current
from kohakuaccel.source import Location, caller
from kohakutpu.lang.ir import Assign, Read, State
from kohakutpu.lang.values import Elementwise, Expression, as_value


def state(initial: Any, width: Expr | int | None = None) -> Carried:
    """Return a value that a loop carries: read it like any value, replace it with ``<<=``.

    It is FP32, one of it for every instance, and lives in the vector core: in registers if they
    hold it, else in L1.

    Parameters
    ----------
    initial : number or value
        What it is before the loop; a value must be one a row at most unless `width` is given.
    width : int or expression of dimensions, optional
        Elements a row; left out, it is one scalar a row.

    Raises
    ------
    KernelError
        If used outside a grid, or `width` is no extent.
    """
    loc = caller()
    tracer = current("L.state", loc)
    grid = tracer.grid
    if grid is None:
        raise KernelError(
            "a state outside any grid belongs to no instance",
            loc=loc,
            fix="make it inside `with units(x.rows(n)) as r`",
        )
    if width is not None and not is_integer(width):
        raise KernelError(
            f"the width of a state is a number of elements, not {width!r}",
            loc=loc,
            fix="give a dimension or a whole number, or leave it out for one scalar a row",
        )
    value = as_value(initial, loc).node
    extent = None if width is None else as_expr(width)
    declared = State(loc.target or "state", value, extent, loc)
    carried = Carried(declared, tracer, grid)
    carried.replace(value, loc, first=True)
    return carried


class Carried(Elementwise):
    """A state as the body of a kernel sees it."""

    __slots__ = ("_body", "_grid", "_place", "_tracer", "_value", "state")

    def __init__(self, declared: State, tracer: Tracer, grid: Grid) -> None:
        self.state = declared
        self._tracer = tracer
        self._grid = grid
        self._body: list[Statement] = []
        self._place = 0
        self._value: Value | None = None

    def value(self, loc: Location) -> Expression:
        """Return what the state holds here."""
        self._open(loc)
        body = self._tracer.body
        known = self._value is not None and body is self._body
        if known and not any(isinstance(s, Repeat) for s in body[self._place :]):
            assert self._value is not None
            return Expression(self._value, self._grid)  # assigned a few lines above
        read = Read(self.state, body, len(body))
        return Expression(Value("state", (), self.state.extent, loc, state=read), self._grid)

    def __ilshift__(self, other: Any) -> Carried:
        """Replace what the state holds."""
        loc = caller()
        self._open(loc)
        value = as_value(other, loc).node
        wider = value.extent in ("full", "channel") and self.state.width is None
        if wider:
            raise KernelError(
                f"state `{self.state.name}` is one scalar a row, but the value varies along the "
                "row",
                loc=loc,
                fix=f"give it a width, as in {self.state.name} = L.state(0.0, N), or reduce the "
                "value with L.row_sum, L.row_max or L.row_min",
                notes=[(self.state.loc, f"`{self.state.name}` is made here")],
            )
        self.replace(value, loc, first=False)
        return self

    def replace(self, value: Value, loc: Location, first: bool) -> None:
        """Record an assignment; what is read next in the same body is ``value`` itself."""
        tracer, assign = self._tracer, Assign(loc, self.state, value, first)
        tracer.add(assign)
        self._body, self._place = tracer.body, len(tracer.body)
        self._value = None if assign.narrow else value

    def _open(self, loc: Location) -> None:
        if current(f"state `{self.state.name}`", loc).grid is not self._grid:
            raise KernelError(
                f"state `{self.state.name}` is used outside the grid that made it",
                loc=loc,
                fix="store it in that grid, into a result or an L.temp(...), and read that here",
                notes=[(self.state.loc, f"`{self.state.name}` is made here")],
            )

    def _describe(self) -> str:
        return f"state `{self.state.name}`"
