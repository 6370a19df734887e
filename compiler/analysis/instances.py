"""Every value the indices around a statement take, as arrays: proofs by enumeration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.sites import Site, index_symbols
from kohakuaccel.errors import CapacityError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Index

Integers = NDArray[np.int64]
Env = Mapping[Symbol, int]

LIMIT = 1 << 24


@dataclass(frozen=True, slots=True)
class Instances:
    """Values of the indices that matter, one entry an instance.

    ``idle`` are indices that nothing depends on but that take more than one value: each entry
    stands for all of these.
    """

    length: int
    values: dict[Symbol, Integers]
    idle: tuple[Index, ...]

    def evaluate(self, expr: Expr, env: Env) -> Integers:
        """Return an expression at every instance."""
        if not self.length:
            return np.zeros(0, np.int64)
        scope: Any = {**env, **self.values}
        return np.broadcast_to(np.asarray(expr.evaluate(scope), dtype=np.int64), (self.length,))

    def name(self, place: int) -> str:
        """Return the instance at ``place`` as ``i = 0, j = 3``."""
        return ", ".join(f"{symbol} = {values[place]}" for symbol, values in self.values.items())


def enumerate_instances(site: Site, env: Env, exprs: tuple[Expr, ...]) -> Instances:
    """Return the instances of ``site`` as far as ``exprs`` tell them apart.

    Raises
    ------
    CapacityError
        If there are too many to look at one by one.
    """
    needed = frozenset[Symbol]().union(*(index_symbols(expr) for expr in exprs))
    for index in reversed(site.indices):
        inner = index_symbols(index.count)
        if inner:  # how often it runs depends on another index, down to not at all
            needed |= inner | {index.symbol}
    values: dict[Symbol, Integers] = {}
    length = 1
    idle: list[Index] = []
    for index in site.indices:
        scope: Any = {**env, **values}
        counts = np.asarray(index.count.evaluate(scope), dtype=np.int64)
        if index.symbol not in needed:
            if int(counts) < 1:
                return Instances(0, dict.fromkeys(needed, np.zeros(0, np.int64)), ())
            idle += [index] if int(counts) > 1 else []
            continue
        counts = np.maximum(np.broadcast_to(counts, (length,)), 0)
        total = int(counts.sum())
        if total > LIMIT:
            raise CapacityError(
                f"{total} instances around this statement are too many to check one by one",
                loc=site.statement.loc,
                fix="index by plain grid indices of full tilings, which need no enumeration",
            )
        values = {symbol: np.repeat(array, counts) for symbol, array in values.items()}
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        values[index.symbol] = np.arange(total, dtype=np.int64) - starts
        length = total
    return Instances(length, values, tuple(idle))
