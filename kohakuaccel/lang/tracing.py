"""The kernel being traced: which statements are open and where new ones go."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Grid, Index, Repeat, Statement, Tiling, Trace
from kohakuaccel.ir.unknown import tracing as flag
from kohakuaccel.source import Location, caller

Cutting = tuple[str, str, int]  # a kind of tiling, a buffer's name, a size as it is written


class _State(threading.local):
    tracer: Tracer | None = None


_state = _State()


@dataclass(eq=False)
class Tracer:
    """One run of a kernel function.

    Parameters
    ----------
    trace : Trace
        What has been recorded.
    open : list of Grid or Repeat
        The statements around the current line, outermost first.
    indices : dict
        Every index made so far by its symbol, closed ones included.
    left_early : Grid or Repeat or None
        A body that Python left by ``break`` or ``return``.
    sizes : mapping
        What blocks of a size are made instead, by kind of tiling, buffer and that size.
    """

    trace: Trace
    open: list[Grid | Repeat] = field(default_factory=list[Any])
    indices: dict[Symbol, Index] = field(default_factory=dict[Symbol, Index])
    left_early: Grid | Repeat | None = None
    sizes: Mapping[Cutting, int] = field(default_factory=dict[Any, int])

    @property
    def body(self) -> list[Statement]:
        """Where the next statement goes."""
        return self.open[-1].body if self.open else self.trace.body

    @property
    def grid(self) -> Grid | None:
        """The grid or stage around the current line."""
        return next((scope for scope in self.open if isinstance(scope, Grid)), None)

    @property
    def loops(self) -> list[Repeat]:
        """The loops around the current line, outermost first."""
        return [scope for scope in self.open if isinstance(scope, Repeat)]

    def add(self, statement: Statement) -> None:
        """Append a statement to the innermost body."""
        self.body.append(statement)

    @contextmanager
    def inside(self, scope: Grid | Repeat) -> Generator[None]:
        """Add ``scope`` and keep it open for the body of the ``with``."""
        self.add(scope)
        self.open.append(scope)
        for index in indices_of(scope):
            self.indices[index.symbol] = index
        try:
            yield
        except GeneratorExit:
            self.left_early = scope
            raise
        finally:
            self.open.remove(scope)

    def tiling(self, index: Expr) -> Tiling | None:
        """Return the tiling that a plain index counts, ``None`` for any other expression."""
        known = self.indices.get(index) if isinstance(index, Symbol) else None
        return known.tiling if known else None

    def require_open(self, symbols: frozenset[Symbol], what: str, loc: Location) -> None:
        """Check that every index among ``symbols`` belongs to a grid or loop that is open here.

        Raises
        ------
        KernelError
            If one does not; ``what`` names the thing that uses it.
        """
        live = {index.symbol for scope in self.open for index in indices_of(scope)}
        for symbol in sorted(symbols - live, key=str):
            if symbol.kind == "index":
                made = self.indices.get(symbol)
                raise KernelError(
                    f"{what} uses index `{symbol}` outside its grid or loop",
                    loc=loc,
                    fix=f"move it into the body that `{symbol}` belongs to, or use an index of "
                    "this one",
                    notes=[(made.loc, f"`{symbol}` is made here")] if made else (),
                )

    def knob(self, name: str) -> Symbol:
        """Return a fresh symbol for a number that the compiler chooses."""
        unique, number = name, 2
        while unique in self.trace.knobs:
            unique, number = f"{name}{number}", number + 1
        symbol = Symbol(unique, "knob")
        self.trace.knobs[unique] = symbol
        return symbol


def indices_of(scope: Grid | Repeat) -> tuple[Index, ...]:
    """Return the indices that ``scope`` introduces."""
    return scope.indices if isinstance(scope, Grid) else (scope.index,)


def current(what: str, loc: Location | None = None) -> Tracer:
    """Return the tracer of the kernel that is running.

    Raises
    ------
    KernelError
        If none is; ``what`` names the thing that was used.
    """
    tracer = _state.tracer
    if tracer is None:
        raise KernelError(
            f"{what} means something only inside a kernel",
            loc=loc or caller(),
            fix="use it in a function decorated with @kernel, and call that function",
        )
    return tracer


def refuse_nested(name: str) -> None:
    """Check that no kernel is being traced, before kernel ``name`` is.

    Raises
    ------
    KernelError
        If one is.
    """
    if _state.tracer is not None:
        raise KernelError(
            f"kernel `{name}` is used inside kernel `{_state.tracer.trace.name}`",
            loc=caller(),
            fix="share code as an ordinary Python function that takes the tensors and indices",
        )


@contextmanager
def tracing(trace: Trace, sizes: Mapping[Cutting, int] | None = None) -> Generator[Tracer]:
    """Record what happens in the body into ``trace``, with other sizes of blocks if any are given.

    Raises
    ------
    KernelError
        If a kernel is being traced already, or a loop was left by ``break`` or ``return``.
    """
    refuse_nested(trace.name)
    tracer = Tracer(trace, sizes=sizes or {})
    _state.tracer, flag.active = tracer, True
    try:
        yield tracer
        if tracer.left_early is not None:
            kind = "loop" if isinstance(tracer.left_early, Repeat) else "grid"
            raise KernelError(
                f"`break` or `return` leaves this {kind}, which is traced once for all iterations",
                loc=tracer.left_early.loc,
                fix="let every iteration run to the end; bound the loop by its count instead",
            )
    finally:
        _state.tracer, flag.active = None, False
