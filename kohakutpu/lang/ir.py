"""What a trace for this machine holds beside the framework's nodes: tiles, contractions, state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kohakuaccel.ir.expr import Const, Expr
from kohakuaccel.ir.nodes import Statement, Store, Value, View
from kohakuaccel.ir.printer import value_text
from kohakuaccel.source import Location


@dataclass(eq=False, slots=True)
class Tile:
    """An accumulator tile: ``gm x gn`` sub-tiles of 4x4, fed ``nk`` blocks of 32 at a time.

    ``precision`` is ``"default"``, ``"left"`` (two sweeps over K: lead*lead, residual*lead) or
    ``"high"`` (three: lead*lead, lead*residual, residual*lead). ``sweeps`` is how many times the
    kernel says that all of K goes into the tile.
    ``rows`` and ``cols`` are the extents of the whole matrix that it is a tile of, ``row`` and
    ``col`` which tile: all four come from the first contraction into it.
    """

    name: str
    gm: Expr
    gn: Expr
    nk: Expr
    precision: str
    sweeps: int
    loc: Location
    rows: Expr | None = None
    cols: Expr | None = None
    row: Expr | None = None
    col: Expr | None = None


@dataclass(eq=False, slots=True)
class TileDecl(Statement):
    """The birth of ``tile``: it is empty (all zeros) in every instance, every time."""

    tile: Tile

    def describe(self) -> str:
        """Return the declaration with its sizes."""
        tile = self.tile
        text = f"tile {tile.name}: gm={tile.gm}, gn={tile.gn}, nk={tile.nk}"
        text += f", precision={tile.precision}" if tile.precision != "default" else ""
        return text + (f", sweeps={tile.sweeps}" if tile.sweeps != 1 else "")


@dataclass(eq=False, slots=True)
class Computed:
    """A value as an operand of a contraction: its columns are K, it is rounded to FP16.

    It holds block ``row`` of ``rows`` rows and chunk ``chunk`` of ``extent`` elements of K.
    """

    value: Value
    loc: Location
    rows: Expr
    row: Expr
    extent: Expr
    chunk: Expr

    def __str__(self) -> str:
        return f"({value_text(self.value)[1]})"


Side = Literal["A", "B"]
SIDES: tuple[Side, Side] = ("A", "B")
"""The left and the right operand of a contraction, as the machine calls them."""


@dataclass(eq=False, slots=True)
class Accumulate(Statement):
    """``tile += lhs @ rhs``: rows of ``lhs`` are the tile's rows, those of ``rhs`` its columns.

    Views of kind ``"operand"`` are indexed by row tile and K chunk. A ``rhs`` of kind
    ``"transposed"`` has K along its rows, indexed by chunk, and all of its columns are the tile's.
    """

    tile: Tile
    lhs: View | Computed
    rhs: View | Computed

    def describe(self) -> str:
        """Return the contraction."""
        return f"{self.tile.name} += {self.lhs} @ {self.rhs}"

    @property
    def views(self) -> list[View]:
        """The operands that are windows of buffers."""
        return [side for side in (self.lhs, self.rhs) if isinstance(side, View)]

    @property
    def computed(self) -> list[tuple[Side, Computed]]:
        """The operands that are values, with their sides."""
        both: list[tuple[Side, View | Computed]] = [("A", self.lhs), ("B", self.rhs)]
        return [(side, operand) for side, operand in both if isinstance(operand, Computed)]

    @property
    def chunk(self) -> Expr:
        """Which chunk of K it contracts: as a window says, if one of its operands is one."""
        return k_index(self.lhs if isinstance(self.lhs, View) else self.rhs)

    @property
    def extent(self) -> Expr:
        """The elements of all of K."""
        return k_extent(self.lhs if isinstance(self.lhs, View) else self.rhs)


@dataclass(eq=False, slots=True)
class Send(Statement):
    """What the vector core does of a contraction: it computes one operand and sends it."""

    tile: Tile
    side: Side
    operand: Computed

    @property
    def value(self) -> Value:
        """What is sent."""
        return self.operand.value

    def describe(self) -> str:
        """Return the value and where it goes."""
        return f"send {self.operand} to operand {self.side} of {self.tile.name}"


def k_index(operand: View | Computed) -> Expr:
    """Return the index of an operand's K chunk."""
    if isinstance(operand, Computed):
        return operand.chunk
    return operand.index[0] if operand.kind == "transposed" else operand.index[1]


def row_index(operand: View | Computed) -> Expr:
    """Return the index of an operand's rows; a transposed one has all its columns as rows."""
    if isinstance(operand, Computed):
        return operand.row
    return Const(0) if operand.kind == "transposed" else operand.index[0]


def k_extent(operand: View | Computed) -> Expr:
    """Return how many elements an operand has along K."""
    if isinstance(operand, Computed):
        return operand.extent
    return operand.buffer.shape[0 if operand.kind == "transposed" else 1]


def row_extent(operand: View | Computed) -> Expr:
    """Return how many rows an operand has in all."""
    if isinstance(operand, Computed):
        return operand.rows
    return operand.buffer.shape[1 if operand.kind == "transposed" else 0]


@dataclass(eq=False, slots=True)
class State:
    """What a loop of an instance carries: one FP32 scalar a row, or ``width`` elements a row."""

    name: str
    initial: Value
    width: Expr | None
    loc: Location

    def __str__(self) -> str:
        return self.name

    @property
    def extent(self) -> str:
        """What it varies over, as in a value."""
        return "row" if self.width is None else "full"


@dataclass(eq=False, slots=True)
class Read:
    """A read of ``state`` before statement ``place`` of ``body``: what it holds there."""

    state: State
    body: list[Statement]
    place: int

    def __str__(self) -> str:
        return self.state.name


@dataclass(eq=False, slots=True)
class Assign(Statement):
    """``state <<= value``; ``first`` where it is the state's initial value."""

    state: State
    value: Value
    first: bool = False

    @property
    def narrow(self) -> bool:
        """Whether the value is repeated: it varies over less than the state."""
        return self.value.extent != self.state.extent

    def describe(self) -> str:
        """Return the assignment."""
        text = f"{self.state} <<= {value_text(self.value)[1]}"
        width = f" of {self.state.width} elements" if self.state.width is not None else ""
        return f"state {text}, rows{width}" if self.first else text


def value_of(statement: Statement) -> Value | None:
    """Return the value that a statement of a vector core computes, ``None`` if it is none."""
    return statement.value if isinstance(statement, (Store, Assign, Send)) else None


def values_of(statement: Statement) -> list[Value]:
    """Return the values that a statement computes: a contraction computes up to two operands."""
    if isinstance(statement, Accumulate):
        return [operand.value for _, operand in statement.computed]
    value = value_of(statement)
    return [] if value is None else [value]


def loads(value: Value) -> list[View]:
    """Return every view that ``value`` reads, in order of first use."""
    return [node.view for node in walk(value) if node.view is not None]


def tiles_of(value: Value) -> list[Tile]:
    """Return every accumulator tile that ``value`` reads, in order of first use."""
    return list(dict.fromkeys(node.tile for node in walk(value) if node.tile is not None))


def walk(value: Value) -> list[Value]:
    """Return every node of a value once, operands before what uses them."""
    done: dict[int, Value] = {}
    pending = [(value, False)]
    while pending:
        node, ready = pending.pop()
        if id(node) in done:
            continue
        if ready:
            done[id(node)] = node
            continue
        pending.append((node, True))
        pending.extend((arg, False) for arg in reversed(node.args))
    return list(done.values())
