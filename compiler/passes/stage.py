"""Cut a kernel into stages: what runs between two barriers, and on which kind of unit.

Every grid outside of other grids is a stage. A sweep around grids repeats whole stages. A grid
whose inner loops take their bounds from one of its indices is a band: unrolled along that index,
with no barrier between its stages, whose instances are independent. So is a grid whose last blocks
of columns are shorter along an index, where a row function or a contraction must not see what is
past the end. A sweep whose index decides how large a grid is is unrolled too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from compiler.analysis.sites import is_fused
from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store
from kohakutpu.lang.frames import REDUCTIONS, Cut, frames
from kohakutpu.lang.ir import Accumulate, loads, values_of, walk


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
        return tuple(index.passes(self.env) for index in self.indices)


@dataclass(eq=False, slots=True)
class Band:
    """Stages of one grid for the values of ``index``: no unit waits between them."""

    index: Index
    stages: list[Stage]

    def describe(self) -> str:
        """Return the band and its stages."""
        inside = [f"  {stage.describe()}" for stage in self.stages]
        return "\n".join([f"for each {self.index.symbol}:", *inside])


@dataclass(eq=False, slots=True)
class Sweep:
    """Stages that run ``count`` times, a barrier after each."""

    index: Index
    count: int
    body: list[Part]

    def describe(self) -> str:
        """Return the sweep and what is in it, one a line."""
        inside = [line for part in self.body for line in part.describe().splitlines()]
        return "\n".join([f"{self.count} times:", *(f"  {line}" for line in inside)])


Part = Stage | Band | Sweep


def cut(body: Sequence[Statement], env: Mapping[Symbol, int]) -> list[Part]:
    """Return the stages of a kernel."""
    counter = iter(range(1, 1 << 30))
    return _cut(body, env, counter)


def _cut(
    body: Sequence[Statement], env: Mapping[Symbol, int], numbers: Iterator[int]
) -> list[Part]:
    result: list[Part] = []
    for statement in body:
        if isinstance(statement, Grid):
            stage = _stage(statement, env, next(numbers))
            if isinstance(stage, Stage) or stage.stages:
                result.append(stage)
        elif isinstance(statement, Repeat):
            symbol = statement.index.symbol
            count = statement.index.passes(env)
            if any(symbol in bound.symbols() for bound in _bounds(statement.body)):
                for value in range(count):
                    result.extend(_cut(statement.body, {**env, symbol: value}, numbers))
            else:
                inner = _cut(statement.body, env, numbers)
                result.append(Sweep(statement.index, count, inner))
        else:
            raise InternalError(f"{type(statement).__name__} outside of a grid")
    return result


def _stage(grid: Grid, env: Mapping[Symbol, int], number: int) -> Stage | Band:
    deciding = [index for index in grid.indices if _decides(index.symbol, grid, env)]
    if not deciding:
        return Stage(number, grid, env, grid.indices)
    rest = tuple(index for index in grid.indices if index not in deciding)
    values = product(*(range(index.passes(env)) for index in deciding))
    symbols = [index.symbol for index in deciding]
    envs = [{**env, **dict(zip(symbols, each, strict=True))} for each in values]
    return Band(deciding[0], [Stage(number, grid, inner, rest) for inner in envs])


def _decides(symbol: Symbol, grid: Grid, env: Mapping[Symbol, int]) -> bool:
    """Tell whether what an instance executes depends on an index."""
    if any(symbol in bound.symbols() for bound in _bounds(grid.body)):
        return True
    return is_fused(grid) and any(
        symbol in cut.index.symbols() and cut.extent.evaluate(env) % cut.block.evaluate(env)
        for cut in _whole_rows(grid.body)
        if cut.index is not None and cut.extent.evaluate(env) > cut.block.evaluate(env)
    )


def _whole_rows(body: Sequence[Statement]) -> Iterator[Cut]:
    """Yield which columns row functions and contractions of values run over."""
    for statement in statements(body):
        for value in values_of(statement):
            found = frames(value)
            wide = [node.args[0] for node in walk(value) if node.op in REDUCTIONS]
            for node in [*wide, *([value] if isinstance(statement, Accumulate) else [])]:
                cut = found[node].cols
                if cut is not None:
                    yield cut


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
        for value in values_of(statement):
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
