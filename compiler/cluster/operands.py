"""What contractions read, side by side: windows of buffers, and how much of them how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.passes.scope import Scope
from compiler.passes.stage import statements
from compiler.vector.context import IndexValue, Operand
from kohakuaccel.ir.expr import AffineForm, Symbol
from kohakuaccel.ir.nodes import Buffer, Repeat, Statement, View
from kohakuaccel.source import Location
from kohakutpu.config import KBLOCK, LANES, WORD_BYTES
from kohakutpu.lang.ir import Accumulate, Computed, Side, Tile, TileDecl, row_index

FP16_PER_WORD = WORD_BYTES // 2
CHUNK_WORDS = LANES * KBLOCK // FP16_PER_WORD  # of a group of rows and a block

# What the sweeps of a tile multiply, in order.
MODES = {
    "default": (("fp16", "fp16"),),
    "left": (("fp16", "fp16"), ("residual", "fp16")),
    "high": (("fp16", "fp16"), ("fp16", "residual"), ("residual", "fp16")),
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop around the instances of a unit: over a batch axis or a grid index."""

    name: str
    value: IndexValue

    @property
    def count(self) -> int:
        """Values that this unit goes through."""
        return self.value.loop.count if self.value.loop is not None else 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows an operand contributes, and which term of them is stored: what a panel holds.

    A transposed operand contributes all its columns.
    """

    side: Side
    buffer: Buffer
    form: AffineForm
    groups: int
    mode: str
    transposed: bool = False


def blocks_of(operand: Operand, transposed: bool = False) -> int:
    """Return the blocks of 32 that hold K; without any K there is still one, of zeros."""
    return max(1, -(-(operand.rows if transposed else operand.width) // KBLOCK))


def blocks_of_k(statement: Accumulate, env: Mapping[Symbol, int]) -> int:
    """Return the blocks of all of the K that a contraction takes a chunk of."""
    return max(1, -(-statement.extent.evaluate(env) // KBLOCK))


def is_computed(statement: Accumulate) -> bool:
    """Tell whether an operand comes from the vector core."""
    return bool(statement.computed)


def computed_side(statement: Accumulate, side: Side) -> Computed | None:
    """Return the operand of one side if it comes from the vector core."""
    operand = statement.lhs if side == "A" else statement.rhs
    return operand if isinstance(operand, Computed) else None


def side_view(statement: Accumulate, side: Side) -> View:
    """Return the operand of one side, a window of a buffer."""
    view = statement.lhs if side == "A" else statement.rhs
    assert isinstance(view, View)
    return view


def side_groups(tile: Tile, side: Side, scope: Scope) -> int:
    """Return how many groups of 4 rows an operand of ``tile`` has."""
    return (tile.gm if side == "A" else tile.gn).evaluate(scope.env)


def rows_of(statement: Accumulate, side: Side, mode: str, scope: Scope) -> Rows:
    """Return what a panel for this operand would hold; the scope is that of the instance."""
    view = side_view(statement, side)
    form = scope.form(row_index(view))
    groups = side_groups(statement.tile, side, scope)
    return Rows(side, view.buffer, form, groups, mode, view.kind == "transposed")


@dataclass(eq=False, slots=True)
class Use:
    """What one sweep of a contraction reads on one side."""

    rows: Rows | None  # None where inner loops choose the rows
    operand: Operand
    buffer: Buffer
    groups: int
    nk: int
    loc: Location
    transposed: bool
    blocks: int  # in all sweeps of an instance
    common: bool  # to all clusters with equally many instances

    @property
    def region(self) -> int:
        """Entries of one streamed chunk."""
        return self.groups * self.nk

    @property
    def row_words(self) -> int:
        """Words of a group of rows, all of K."""
        if self.transposed:
            return -(-LANES * self.operand.rows // FP16_PER_WORD)
        return LANES * -(-self.operand.width // FP16_PER_WORD)

    @property
    def swept_words(self) -> int:
        """Words that streaming the operand takes in one instance."""
        blocks = blocks_of(self.operand, self.transposed)
        return -(-self.blocks * self.groups * self.row_words // blocks)


def uses_of(
    body: Sequence[Statement],
    side: Side,
    scope: Scope,
    operands: Mapping[Buffer, Operand],
    axes: Sequence[Axis],
    split: int | None,
) -> list[Use | None]:
    """Return the uses of every contraction in order, ``None`` where its operand is computed.

    ``split`` is the axis whose values other clusters have that want the same at the same time.
    """
    inner = {s.index.symbol for s in statements(body) if isinstance(s, Repeat)}
    result: list[Use | None] = []
    for statement in statements(body):
        if not isinstance(statement, Accumulate):
            continue
        if computed_side(statement, side) is not None:
            result += [None] * len(MODES[statement.tile.precision])
            continue
        view, tile = side_view(statement, side), statement.tile
        groups, nk = side_groups(tile, side, scope), tile.nk.evaluate(scope.env)
        fixed = not row_index(view).symbols() & inner
        swept = swept_blocks(body, statement, scope)
        for modes in MODES[tile.precision]:
            mode = modes[0 if side == "A" else 1]
            rows = rows_of(statement, side, mode, scope) if fixed else None
            operand, turned = operands[view.buffer], view.kind == "transposed"
            common = split is not None and not _moves(statement, view, operand, scope, axes, split)
            result.append(
                Use(rows, operand, view.buffer, groups, nk, view.loc, turned, swept, common)
            )
    return result


def _moves(
    statement: Accumulate,
    view: View,
    operand: Operand,
    scope: Scope,
    axes: Sequence[Axis],
    split: int,
) -> bool:
    """Tell whether an axis decides what a contraction reads of an operand."""
    if split < len(scope.batch):
        return operand.batch_strides[split] != 0
    symbols = {s for s, value in scope.indices.items() if value is axes[split].value}
    return bool(symbols & (row_index(view).symbols() | statement.chunk.symbols()))


def swept_blocks(body: Sequence[Statement], statement: Accumulate, scope: Scope) -> int:
    """Return the blocks of K that one contraction of an instance runs over, all loops together."""
    born = _loops_around(body, lambda s: isinstance(s, TileDecl) and s.tile is statement.tile)
    mine = _loops_around(body, lambda s: s is statement)
    times = prod(_count(loop, scope) for loop in born)
    sweep = [loop for loop in mine if loop not in born]
    if any(loop.index.symbol in statement.chunk.symbols() for loop in sweep):
        return times * blocks_of_k(statement, scope.env)
    return times * statement.tile.nk.evaluate(scope.env)


def _count(loop: Repeat, scope: Scope) -> int:
    count = loop.index.count
    return count.evaluate(scope.env) if count.symbols() <= scope.env.keys() else 1


def _loops_around(body: Sequence[Statement], wanted: Callable[[Statement], bool]) -> list[Repeat]:
    """Return the loops of a body around the statement that is wanted, outermost first."""
    for statement in body:
        if isinstance(statement, Repeat):
            if any(map(wanted, statements(statement.body))):
                return [statement, *_loops_around(statement.body, wanted)]
        elif wanted(statement):
            return []
    return []
