"""Cut a kernel into stages: what runs between two barriers, and on which kind of unit.

Every grid outside of other grids is a stage. A sweep around grids repeats whole stages. A grid
whose inner loops take their bounds from one of its indices is unrolled along that index, and so is
a sweep whose index decides how large a grid is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.analysis.sites import is_fused
from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store
from kohakutpu.lang.ir import Accumulate, loads, value_of


@dataclass(eq=False, slots=True)
class Stage:
    """Independent instances of one body.

    Parameters
    ----------
    number : int
        From 1 on, in the order of the source.
    grid : Grid
        What the kernel says.
    env : mapping
        Dimensions, knobs and unrolled indices.
    indices : tuple of Index
        The axes of the grid that are loops.
    """

    number: int
    grid: Grid
    env: Mapping[Symbol, int]
    indices: tuple[Index, ...]

    @property
    def is_contraction(self) -> bool:
        """Whether clusters take part."""
        return any(isinstance(s, Accumulate) for s in statements(self.grid.body))

    @property
    def is_fused(self) -> bool:
        """Whether values of several shapes meet in it, all of the same rows."""
        return is_fused(self.grid)

    def describe(self) -> str:
        """Return the stage as a line."""
        kind = "contraction" if self.is_contraction else "vector"
        axes = " x ".join(
            f"{index.symbol} in {count}"
            for index, count in zip(self.indices, self.counts, strict=True)
        )
        return f"stage {self.number} at {self.grid.loc}: {kind}, {axes or 'one instance'}"

    @property
    def counts(self) -> tuple[int, ...]:
        """How many values each axis takes."""
        return tuple(index.count.evaluate(self.env) for index in self.indices)


@dataclass(eq=False, slots=True)
class Sweep:
    """Stages that run ``count`` times, a barrier after each."""

    index: Index
    count: int
    body: list[Stage | Sweep]

    def describe(self) -> str:
        """Return the sweep and what is in it, one a line."""
        inside = [line for part in self.body for line in part.describe().splitlines()]
        return "\n".join([f"{self.count} times:", *(f"  {line}" for line in inside)])


def cut(body: Sequence[Statement], env: Mapping[Symbol, int]) -> list[Stage | Sweep]:
    """Return the stages of a kernel."""
    counter = iter(range(1, 1 << 30))
    return _cut(body, env, counter)


def _cut(
    body: Sequence[Statement], env: Mapping[Symbol, int], numbers: Iterator[int]
) -> list[Stage | Sweep]:
    result: list[Stage | Sweep] = []
    for statement in body:
        if isinstance(statement, Grid):
            number = next(numbers)
            result.extend(_unrolled(statement, env, statement.indices, number))
        elif isinstance(statement, Repeat):
            symbol = statement.index.symbol
            count = statement.index.count.evaluate(env)
            if any(symbol in bound.symbols() for bound in _bounds(statement.body)):
                for value in range(count):
                    result.extend(_cut(statement.body, {**env, symbol: value}, numbers))
            else:
                inner = _cut(statement.body, env, numbers)
                result.append(Sweep(statement.index, count, inner))
        else:
            raise InternalError(f"{type(statement).__name__} outside of a grid")
    return result


def _unrolled(
    grid: Grid, env: Mapping[Symbol, int], indices: tuple[Index, ...], number: int
) -> list[Stage]:
    bounds = list(_bounds(grid.body))
    for index in indices:
        if any(index.symbol in bound.symbols() for bound in bounds):
            rest = tuple(other for other in indices if other is not index)
            return [
                stage
                for value in range(index.count.evaluate(env))
                for stage in _unrolled(grid, {**env, index.symbol: value}, rest, number)
            ]
    return [Stage(number, grid, env, indices)]


def _bounds(body: Sequence[Statement]) -> Iterator[Expr]:
    """Yield the count of every loop and grid."""
    for statement in statements(body):
        if isinstance(statement, Repeat):
            yield statement.index.count
        elif isinstance(statement, Grid):
            for index in statement.indices:
                yield index.count


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield every statement, a loop before its body."""
    for statement in body:
        yield statement
        if isinstance(statement, (Grid, Repeat)):
            yield from statements(statement.body)


def buffers(body: Sequence[Statement]) -> list[Buffer]:
    """Return the buffers a body touches, in order of appearance."""
    found: dict[Buffer, None] = {}
    for statement in statements(body):
        if isinstance(statement, Accumulate):
            found.update((view.buffer, None) for view in statement.views)
        value = value_of(statement)
        if value is not None:
            found.update((view.buffer, None) for view in loads(value))
        if isinstance(statement, Store):
            found[statement.view.buffer] = None
    return list(found)


def shares(count: int, units: int) -> list[tuple[int, int]]:
    """Cut ``count`` values into contiguous ranges ``(start, length)``, one a unit that has work."""
    used = min(count, units)
    base, extra = divmod(count, used) if used else (0, 0)
    lengths = [base + (unit < extra) for unit in range(used)]
    return [(sum(lengths[:unit]), length) for unit, length in enumerate(lengths)]


def split_axis(counts: Sequence[int], units: int) -> int:
    """Return the axis whose split over ``units`` leaves the busiest unit the least work.

    The first such axis, counting from the outermost.
    """
    return min(
        range(len(counts)), key=lambda axis: -(-counts[axis] // units) / max(counts[axis], 1)
    )
