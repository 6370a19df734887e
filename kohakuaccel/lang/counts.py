"""Dimensions, and how many blocks a tiling has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, Symbol, as_expr, is_integer
from kohakuaccel.ir.nodes import Tiling
from kohakuaccel.source import Location, caller


def dims(names: str) -> Any:
    """Return symbols for the extents that ``names`` lists, one symbol alone if there is one name.

    They take part in ``+ - * // %`` and :func:`ceildiv` and get their numbers from the arguments
    when a kernel is called.

    Parameters
    ----------
    names : str
        Identifiers separated by commas or blanks.

    Returns
    -------
    Symbol or tuple of Symbol

    Raises
    ------
    KernelError
        If a name is no identifier or comes twice.
    """
    found = re.split(r"[,\s]+", names.strip().rstrip(",").strip())
    for name in found:
        if not name.isidentifier() or found.count(name) > 1:
            raise KernelError(
                f"dims({names!r}) does not list distinct names",
                loc=caller(),
                fix='write names separated by commas, as in dims("M, K, N")',
            )
    symbols = tuple(Symbol(name) for name in found)
    return symbols[0] if len(symbols) == 1 else symbols


@dataclass(frozen=True, slots=True, eq=False)
class Tiled(Expr):
    """A buffer cut into blocks: what grids and loops run over.

    As an expression it is the number of blocks. A count made from it by arithmetic still counts
    such blocks, only more or fewer of them.
    """

    tiling: Tiling

    def plain(self) -> Expr:
        """Return the number of blocks."""
        return self.tiling.count

    def evaluate(self, env: Mapping[Symbol, int]) -> int:
        """Return the number of blocks under ``env``."""
        return self.tiling.count.evaluate(env)

    def symbols(self) -> frozenset[Symbol]:
        """Return the symbols that the number of blocks depends on."""
        return self.tiling.count.symbols()

    def _key(self) -> object:
        return self.tiling

    def _counting(self, count: Any) -> Any:
        return Tiled(replace(self.tiling, count=count)) if isinstance(count, Expr) else count

    def __add__(self, other: Any) -> Any:
        return self._counting(self.tiling.count + other)

    def __radd__(self, other: Any) -> Any:
        return self._counting(other + self.tiling.count)

    def __sub__(self, other: Any) -> Any:
        return self._counting(self.tiling.count - other)

    def __mul__(self, other: Any) -> Any:
        return self._counting(self.tiling.count * other)

    def __rmul__(self, other: Any) -> Any:
        return self._counting(other * self.tiling.count)

    def __floordiv__(self, other: Any) -> Any:
        return self._counting(self.tiling.count // other)

    def __str__(self) -> str:
        return f"{self.tiling.buffer.name}.{self.tiling.kind}({self.tiling.size})"


Count = Expr | int


def checked_count(value: object, what: str, loc: Location) -> tuple[Expr, Tiling | None]:
    """Return the count and tiling of an argument of ``what``.

    Raises
    ------
    KernelError
        If ``value`` is neither a tiling nor a count.
    """
    if isinstance(value, Tiled):
        return value.tiling.count, value.tiling
    if isinstance(value, Expr):
        return value, None
    if not is_integer(value):
        raise KernelError(
            f"{what} counts blocks or iterations; {_shown(value)} is no count",
            loc=loc,
            fix="give it a tiling such as x.tiles(gm), a whole number, or an expression of "
            "dimensions and indices",
        )
    count = as_expr(value)  # pyright: ignore[reportArgumentType]
    if count.evaluate({}) < 0:
        raise KernelError(
            f"{what} cannot run {count} times", loc=loc, fix="use a count of 0 or more"
        )
    return count, None


def _shown(value: object) -> str:
    if isinstance(value, (int, float, str, bool)) or value is None:
        return repr(value)
    return f"a {type(value).__name__}"
