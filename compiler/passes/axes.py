"""The loops around the instances of one unit: over batch axes, then over a grid's indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.cluster import Axis
from compiler.passes.specialise import Batch
from compiler.passes.stage import Stage
from compiler.program import Item, Loop
from compiler.vector import IndexValue, VectorLowering
from kohakuaccel.ir.expr import Symbol

Indices = Mapping[Symbol, IndexValue]


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a stage, outermost first, with what they are worth on one unit.

    Parameters
    ----------
    names : sequence of str
        Of all axes.
    values : sequence of IndexValue
        Of all axes.
    symbols : sequence of Symbol
        The grid's indices, which are the last axes; those before them are batch axes.
    """

    names: Sequence[str]
    values: Sequence[IndexValue]
    symbols: Sequence[Symbol]

    @classmethod
    def over(cls, stage: Stage, batch: Batch, ranges: Sequence[tuple[int, int]]) -> Axes:
        """Return the axes of a stage over ``(start, length)`` each, with fresh loops."""
        symbols = [index.symbol for index in stage.indices]
        names = [f"batch{n}" for n in range(len(batch.counts))]
        names += [symbol.name for symbol in symbols]
        values = [
            IndexValue(start, Loop(name, length))
            for name, (start, length) in zip(names, ranges, strict=True)
        ]
        return cls(names, values, symbols)

    @property
    def axes(self) -> list[Axis]:
        """The axes by name."""
        return [Axis(name, value) for name, value in zip(self.names, self.values, strict=True)]

    @property
    def batch(self) -> Sequence[IndexValue]:
        """The values of batch axes."""
        return self.values[: len(self.values) - len(self.symbols)]

    @property
    def indices(self) -> Indices:
        """The values of the grid's indices."""
        values = self.values[len(self.values) - len(self.symbols) :]
        return dict(zip(self.symbols, values, strict=True))

    @property
    def instances(self) -> int:
        """How many instances the loops go through."""
        return prod(axis.count for axis in self.axes)

    def around(self, lowering: VectorLowering) -> list[Item]:
        """Return the loops with an instance inside."""
        items = [*lowering.ahead.get(len(self.values), ()), *lowering.body]
        for level, value in reversed(list(enumerate(self.values))):
            assert value.loop is not None
            value.loop.body = items
            items = [*lowering.ahead.get(level, ()), value.loop]
        return [*lowering.prologue, *items, *lowering.epilogue]
