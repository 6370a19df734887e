"""The trace IR: what a kernel function said, before shapes, placement or instructions.

A trace is a tree of statements. Grids and loops hold bodies; stores hold a value, which is a graph
of elementwise operations over views of buffers. Every node knows the line that made it. What a
tiling *means* (``"tiles"``, ``"rows"`` ...) belongs to the target; here it is a name and a size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.source import Location


@dataclass(eq=False, slots=True)
class Buffer:
    """A parameter, a temporary or a table.

    ``role`` is ``"in" "out" "temp" "table" "print"``; ``shape`` the axes the kernel names,
    row-major;
    ``batched`` says that a leading ``...`` absorbs further axes; ``any_rank`` that ``...`` is all
    there is (one block of elements of whatever rank, ``shape`` empty). ``value`` holds a table's
    contents, and what a print is called.
    """

    name: str
    role: str
    shape: tuple[Expr, ...]
    dtype: str
    loc: Location
    batched: bool = False
    any_rank: bool = False
    value: Any = None


@dataclass(frozen=True, slots=True)
class Tiling:
    """``buffer`` cut along one axis: ``kind`` is the target's word for it, ``size`` its knob."""

    kind: str
    buffer: Buffer
    size: Expr
    count: Expr


@dataclass(eq=False, slots=True)
class Index:
    """The index of a grid or loop: its symbol, how many values it takes, what it counts."""

    symbol: Symbol
    count: Expr
    tiling: Tiling | None
    loc: Location

    def passes(self, env: Mapping[Symbol, int]) -> int:
        """Return how many values it takes under ``env``: none where the count is negative."""
        return max(self.count.evaluate(env), 0)


@dataclass(eq=False, slots=True)
class View:
    """A window of a buffer, as a target understands it.

    ``kind`` is the target's (``"operand" "tile" "part" "rows" "column" "channel"
    "channel_tile" "scalar" "transposed" "whole"``);
    ``index`` are expressions over grid and loop indices; ``tilings`` the tiling behind each index,
    ``None`` where the index is no plain grid or loop index. A view without index is the whole of a
    small buffer (``"channel" "scalar"``).
    """

    buffer: Buffer
    kind: str
    index: tuple[Expr, ...]
    tilings: tuple[Tiling | None, ...]
    loc: Location

    def __str__(self) -> str:
        index = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return self.buffer.name + index


@dataclass(eq=False, slots=True)
class Value:
    """A node of an elementwise graph.

    ``op`` is ``"load"`` (``view``), ``"tile"`` (``tile``), ``"state"`` (``state``, what a loop
    carries), ``"const"`` (``number``, a float or a
    :class:`~kohakuaccel.ir.scalar.Scalar`; :func:`~kohakuaccel.ir.scalar.evaluate` takes either), a
    primitive (``add sub mul neg abs exp2 log2 recip rsqrt max min lt le eq select``; ``select`` of
    ``a, b, c`` is ``a`` where ``c`` is not zero, else ``b``) or a row reduction (``row_sum row_max
    row_min``). ``extent`` says what it varies over: ``"full"``, ``"row"`` (one scalar a row),
    ``"channel"`` (one element a column), ``"scalar"``.
    """

    op: str
    args: tuple[Value, ...]
    extent: str
    loc: Location
    view: View | None = None
    tile: Any = None
    number: Any = None
    state: Any = None


@dataclass(eq=False, slots=True)
class Statement:
    """Base of statements; a target adds its own and says how they read."""

    loc: Location

    def describe(self) -> str:
        """Return the statement as one line of a listing."""
        return type(self).__name__


@dataclass(eq=False, slots=True)
class Store(Statement):
    """``view <<= value``."""

    view: View
    value: Value


@dataclass(eq=False, slots=True)
class Grid(Statement):
    """Independent instances; ``barrier`` is true for ``stage``/``units``."""

    indices: tuple[Index, ...]
    barrier: bool
    body: list[Statement] = field(default_factory=list[Statement])


@dataclass(eq=False, slots=True)
class Repeat(Statement):
    """``for index in sweep(count)``: inside a grid it repeats statements, outside whole grids."""

    index: Index
    body: list[Statement] = field(default_factory=list[Statement])


@dataclass(eq=False, slots=True)
class Trace:
    """One traced kernel: parameters and temporaries in order of appearance, and the body.

    ``dims`` and ``knobs`` are the symbols by name; a knob that the caller left open is a symbol,
    one that has a value is a number and does not appear.
    """

    name: str
    loc: Location
    buffers: list[Buffer]
    dims: dict[str, Symbol]
    knobs: dict[str, Symbol]
    body: list[Statement] = field(default_factory=list[Statement])

    def pretty(self) -> str:
        """Return the trace as text: parameters, tilings, statements."""
        from kohakuaccel.ir.printer import show  # it reads these classes

        return show(self)
