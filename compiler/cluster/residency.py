"""Decide what stays in the L1 of a cluster, and for how long.

An operand either streams, one K chunk after the other through a ring of two places, or its *panel*
(all of K for a row tile, or for all row tiles of some axes) is filled once and stays while the
loops inside it run. A panel saves the fills of every loop its address does not depend on; it costs
L1, and time before the first contraction. Panels are added as long as the estimate gets better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from compiler.passes.scope import Scope
from compiler.passes.stage import statements
from compiler.program import Loop, Ring
from compiler.vector.context import Allocator, IndexValue, Operand, Placement
from kohakuaccel.ir.expr import AffineForm
from kohakuaccel.ir.nodes import Buffer, Repeat, Statement, View
from kohakuaccel.source import Location
from kohakutpu import costs
from kohakutpu.config import KBLOCK, LANES, WORD_BYTES, Machine
from kohakutpu.lang.ir import Accumulate, Computed, Tile, TileDecl, row_index

Side = Literal["A", "B"]

SIDES: tuple[Side, Side] = ("A", "B")
COUNT_MAX = 1023  # of groups or blocks in one instruction
FP16_PER_WORD = WORD_BYTES // 2
CHUNK_WORDS = LANES * KBLOCK // FP16_PER_WORD  # of a group of rows and a block
TRAFFIC = 0.1  # cycles that a word is worth even where filling is not what limits

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


@dataclass(eq=False, slots=True)
class Panel:
    """An operand's rows with all of K, resident inside the first ``level`` axes."""

    rows: Rows
    level: int
    moving: tuple[int, ...]  # axes inside the level that choose among the row tiles it holds
    counts: tuple[int, ...]  # their lengths
    adjacent: bool  # row tiles along the last of them follow each other in memory
    blocks: int
    slots: int
    loc: Location
    ring: Ring = field(default_factory=lambda: Ring("", 0, 0, 1))

    @property
    def size(self) -> int:
        """Entries of one place."""
        return prod(self.counts) * self.rows.groups * self.blocks


@dataclass(eq=False, slots=True)
class Residency:
    """What was decided for one stage on one cluster.

    ``panels`` are keyed by what they hold; whatever has none streams through ``streams``.
    ``always_streams`` tells that no contraction has panels on both sides.
    """

    panels: dict[Rows, Panel] = field(default_factory=dict[Rows, Panel])
    streams: dict[Side, Ring] = field(default_factory=dict[Side, Ring])
    placements: list[Placement] = field(default_factory=list[Placement])
    always_streams: bool = True


def blocks_of(operand: Operand, transposed: bool = False) -> int:
    """Return the blocks of 32 that hold K; without any K there is still one, of zeros."""
    return max(1, -(-(operand.rows if transposed else operand.width) // KBLOCK))


def blocks_of_k(statement: Accumulate, operands: Mapping[Buffer, Operand]) -> int:
    """Return the blocks of all of the K that a contraction takes a chunk of."""
    view = statement.views[0]
    return blocks_of(operands[view.buffer], view.kind == "transposed")


def is_computed(statement: Accumulate) -> bool:
    """Tell whether the left operand comes from the vector core."""
    return isinstance(statement.lhs, Computed)


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
class _Use:
    rows: Rows | None  # None where inner loops choose the rows
    operand: Operand
    buffer: Buffer
    groups: int
    nk: int
    loc: Location
    transposed: bool
    blocks: int  # in all sweeps of an instance

    @property
    def region(self) -> int:
        """Entries of one streamed chunk."""
        return self.groups * self.nk


@dataclass(frozen=True, slots=True)
class _Option:
    """A way to bring rows in: words in all, and words before the first contraction."""

    panel: Panel | None
    filled: int
    first: int


@dataclass(eq=False, slots=True)
class _Group:
    side: Side
    uses: list[_Use]
    options: list[_Option]


def decide(
    body: Sequence[Statement],
    scope: Scope,
    axes: Sequence[Axis],
    operands: Mapping[Buffer, Operand],
    allocators: Mapping[Side, Allocator],
    machine: Machine,
    sharing: float,
) -> Residency:
    """Decide for the instances of ``body`` and allocate the windows.

    ``sharing`` is how many clusters fill through one memory port.

    Raises
    ------
    CapacityError
        If not even one chunk of every operand fits.
    """
    result = Residency()
    by_side: dict[Side, list[_Use | None]] = {
        side: _uses(body, side, scope, operands) for side in SIDES
    }
    groups = [group for side in SIDES for group in _groups(side, by_side[side], scope, axes)]
    free: dict[Side, int] = {side: allocators[side].left for side in SIDES}
    panels = _choose(groups, _contracting(body, scope, axes, operands, machine), sharing, free)
    for side in SIDES:
        mine = [panel for panel in panels if panel.rows.side == side]
        _allocate(result, by_side[side], mine, side, allocators[side])
    panels_only = (
        (a is None or a.rows in result.panels) and b is not None and b.rows in result.panels
        for a, b in zip(by_side["A"], by_side["B"], strict=True)
    )
    result.always_streams = not any(panels_only)
    return result


def _uses(
    body: Sequence[Statement], side: Side, scope: Scope, operands: Mapping[Buffer, Operand]
) -> list[_Use | None]:
    """Return the uses of every contraction in order, ``None`` where its operand is computed."""
    inner = {s.index.symbol for s in statements(body) if isinstance(s, Repeat)}
    result: list[_Use | None] = []
    for statement in statements(body):
        if not isinstance(statement, Accumulate):
            continue
        if side == "A" and is_computed(statement):
            result += [None] * len(MODES[statement.tile.precision])
            continue
        view, tile = side_view(statement, side), statement.tile
        groups, nk = side_groups(tile, side, scope), tile.nk.evaluate(scope.env)
        fixed = not row_index(view).symbols() & inner
        swept = swept_blocks(body, statement, scope, operands)
        for modes in MODES[tile.precision]:
            mode = modes[0 if side == "A" else 1]
            rows = rows_of(statement, side, mode, scope) if fixed else None
            operand, turned = operands[view.buffer], view.kind == "transposed"
            result.append(_Use(rows, operand, view.buffer, groups, nk, view.loc, turned, swept))
    return result


def swept_blocks(
    body: Sequence[Statement],
    statement: Accumulate,
    scope: Scope,
    operands: Mapping[Buffer, Operand],
) -> int:
    """Return the blocks of K that one contraction of an instance runs over, all loops together."""
    born = _loops_around(body, lambda s: isinstance(s, TileDecl) and s.tile is statement.tile)
    mine = _loops_around(body, lambda s: s is statement)
    times = prod(_count(loop, scope) for loop in born)
    sweep = [loop for loop in mine if loop not in born]
    if any(loop.index.symbol in statement.chunk.symbols() for loop in sweep):
        return times * blocks_of_k(statement, operands)
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


def _groups(
    side: Side, uses: Sequence[_Use | None], scope: Scope, axes: Sequence[Axis]
) -> list[_Group]:
    """Gather uses of the same rows, with the ways to bring these in; the first is to stream."""
    found: dict[Rows | _Use, list[_Use]] = {}
    for use in uses:
        if use is None:
            continue
        found.setdefault(use if use.rows is None else use.rows, []).append(use)
    result: list[_Group] = []
    for key, same in found.items():
        options = [_streaming(same, axes)]
        blocks = blocks_of(same[0].operand, same[0].transposed)
        if isinstance(key, Rows) and max(blocks, key.groups) <= COUNT_MAX:
            options += _panels(key, same[0], scope, axes)
        result.append(_Group(side, same, options))
    return result


def _streaming(uses: Sequence[_Use], axes: Sequence[Axis]) -> _Option:
    instances = prod(axis.count for axis in axes)
    filled = sum(instances * _swept_words(use) for use in uses)
    first = max(use.groups * min(_row_words(use), use.nk * CHUNK_WORDS) for use in uses)
    return _Option(None, filled, first)


def _swept_words(use: _Use) -> int:
    """Return the words that streaming an operand takes in one instance."""
    blocks = blocks_of(use.operand, use.transposed)
    return -(-use.blocks * use.groups * _row_words(use) // blocks)


def _row_words(use: _Use) -> int:
    """Return the words of a group of rows, all of K."""
    operand = use.operand
    if use.transposed:
        return -(-LANES * operand.rows // FP16_PER_WORD)
    return LANES * -(-operand.width // FP16_PER_WORD)


def _contracting(
    body: Sequence[Statement],
    scope: Scope,
    axes: Sequence[Axis],
    operands: Mapping[Buffer, Operand],
    machine: Machine,
) -> int:
    """Return the cycles that the stage's contractions take."""
    cycles = 0
    for statement in statements(body):
        if isinstance(statement, Accumulate):
            gm, gn = (side_groups(statement.tile, side, scope) for side in SIDES)
            blocks = swept_blocks(body, statement, scope, operands)
            sweeps = len(MODES[statement.tile.precision])
            cycles += sweeps * costs.gemm(machine, gm, gn, blocks).cycles
    return cycles * prod(axis.count for axis in axes)


def _choose(
    groups: Sequence[_Group], contracting: int, sharing: float, free: Mapping[Side, int]
) -> list[Panel]:
    chosen = [group.options[0] for group in groups]

    def estimate(options: Sequence[_Option]) -> float:
        filled = sharing * sum(option.filled for option in options)
        first = sharing * sum(option.first for option in options)
        return max(contracting, filled) + first + filled * TRAFFIC

    def fits(options: Sequence[_Option]) -> bool:
        for side in SIDES:
            taken = stream = 0
            for group, option in zip(groups, options, strict=True):
                if group.side == side and option.panel is not None:
                    taken += option.panel.size * option.panel.slots
                elif group.side == side:
                    stream = max(stream, *(2 * use.region for use in group.uses))
            if taken + stream > free[side]:
                return False
        return True

    while True:
        trials = [
            [*chosen[:place], option, *chosen[place + 1 :]]
            for place, group in enumerate(groups)
            for option in group.options
            if option is not chosen[place]
        ]
        best = min((trial for trial in trials if fits(trial)), key=estimate, default=chosen)
        if estimate(best) >= estimate(chosen):
            return [option.panel for option in chosen if option.panel is not None]
        chosen = best


def _panels(rows: Rows, use: _Use, scope: Scope, axes: Sequence[Axis]) -> list[_Option]:
    """Return a panel for every level at which it saves fills."""
    operand, per_instance = use.operand, _swept_words(use)
    depends = [
        (operand.batch_strides[n] if n < len(scope.batch) else _chooses(rows, scope, axis)) != 0
        for n, axis in enumerate(axes)
    ]
    once = rows.groups * _row_words(use)
    result: list[_Option] = []
    for level in range(len(axes) + 1):
        inside = range(level, len(axes))
        if all(depends[n] or axes[n].count == 1 for n in inside) and per_instance <= once:
            continue
        moving = tuple(n for n in inside if depends[n] and axes[n].count > 1)
        outside = prod(axes[n].count for n in range(level))
        counts = tuple(axes[n].count for n in moving)
        slots = 1 if outside == 1 else 2
        last = moving[-1] if moving else 0
        adjacent = bool(moving) and last >= len(scope.batch)
        adjacent = adjacent and _chooses(rows, scope, axes[last]) == 1
        blocks = blocks_of(operand, use.transposed)
        panel = Panel(rows, level, moving, counts, adjacent, blocks, slots, use.loc)
        first = prod(counts) * once
        result.append(_Option(panel, outside * first, first))
    return result


def _chooses(rows: Rows, scope: Scope, axis: Axis) -> int:
    return next(
        (c for symbol, c in rows.form.coefficients if scope.indices[symbol] is axis.value), 0
    )


def _allocate(
    result: Residency,
    uses: Sequence[_Use | None],
    panels: Sequence[Panel],
    side: Side,
    allocator: Allocator,
) -> None:
    memory = f"L1{side}"
    held = {panel.rows for panel in panels}
    streaming = [use for use in uses if use is not None and use.rows not in held]
    if streaming:
        largest = max(streaming, key=lambda use: use.region)
        taken = sum(panel.size * panel.slots for panel in panels)
        slots = 2 if 2 * largest.region + taken <= allocator.left else 1
        name = " ".join(dict.fromkeys(use.buffer.name for use in streaming))
        base = allocator.allocate(
            f"the window of {name}",
            largest.region * slots,
            largest.loc,
            "use a smaller tile: fewer groups (gm, gn) or fewer blocks at a time (nk)",
        )
        result.streams[side] = Ring(f"{memory} stream", base, largest.region, slots)
        result.placements.append(
            Placement(name, "in", memory, base, largest.region, slots, largest.loc)
        )
    for panel in panels:
        name = panel.rows.buffer.name
        base = allocator.allocate(f"the panel of {name}", panel.size * panel.slots, panel.loc)
        panel.ring = Ring(f"{memory} {name}", base, panel.size, panel.slots)
        result.panels[panel.rows] = panel
        result.placements.append(
            Placement(name, "resident", memory, base, panel.size, panel.slots, panel.loc)
        )


def panel_strides(panel: Panel) -> list[int]:
    """Return the entries from row tile to row tile along each axis that moves, outermost first."""
    strides: list[int] = []
    step = panel.rows.groups * panel.blocks
    for count in reversed(panel.counts):
        strides.insert(0, step)
        step *= count
    return strides


def panel_loops(panel: Panel, axes: Sequence[Axis]) -> tuple[list[Loop], list[int], int]:
    """Return fresh loops over a panel's row tiles, their strides, and the groups of one fill.

    The innermost axis needs no loop where its row tiles follow each other in memory.
    """
    strides = panel_strides(panel)
    names = [f"{axes[n].name} of {panel.rows.buffer.name}" for n in panel.moving]
    loops = [Loop(name, count) for name, count in zip(names, panel.counts, strict=True)]
    groups = panel.rows.groups
    if loops and panel.adjacent and groups * panel.counts[-1] <= COUNT_MAX:
        groups *= loops.pop().count
        strides.pop()
    return loops, strides, groups
