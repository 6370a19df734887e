"""Decide what stays in the L1 of a cluster, and for how long.

An operand either streams, one K chunk after the other through a ring of two places, or its *panel*
(all of K for a row tile, or for all row tiles of some axes) is filled once and stays while the
loops inside it run. A panel saves the fills of every loop its address does not depend on; it costs
L1, and time before the first contraction. Panels are added as long as the estimate gets better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from compiler.cluster.multicast import Ports
from compiler.cluster.operands import (
    CHUNK_WORDS,
    MODES,
    Axis,
    Rows,
    Use,
    blocks_of,
    side_groups,
    swept_blocks,
    uses_of,
)
from compiler.passes.scope import Scope
from compiler.passes.stage import statements
from compiler.program import Loop, Ring
from compiler.vector.context import Allocator, Operand, Placement
from kohakuaccel.ir.nodes import Buffer, Statement
from kohakuaccel.source import Location
from kohakutpu import costs
from kohakutpu.config import Machine
from kohakutpu.lang.ir import SIDES, Accumulate, Side

COUNT_MAX = 1023  # of groups or blocks in one instruction
TRAFFIC = 0.1  # cycles that a word is worth even where filling is not what limits


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

    ``panels`` are keyed by what they hold; whatever has none streams through ``streams``. ``read``
    is for every contraction what windows it reads; those in ``common``, with what they hold, are
    the same on all clusters with equally many instances.
    """

    panels: dict[Rows, Panel] = field(default_factory=dict[Rows, Panel])
    streams: dict[Side, Ring] = field(default_factory=dict[Side, Ring])
    placements: list[Placement] = field(default_factory=list[Placement])
    read: list[frozenset[Ring]] = field(default_factory=list[frozenset[Ring]])
    common: dict[Ring, str] = field(default_factory=dict[Ring, str])


@dataclass(frozen=True, slots=True)
class _Option:
    """A way to bring rows in: words in all, and words before the first contraction."""

    panel: Panel | None
    filled: int
    first: int


@dataclass(eq=False, slots=True)
class _Group:
    side: Side
    uses: list[Use]
    options: list[_Option]

    @property
    def common(self) -> bool:
        return all(use.common for use in self.uses)


def decide(
    body: Sequence[Statement],
    scope: Scope,
    axes: Sequence[Axis],
    operands: Mapping[Buffer, Operand],
    allocators: Mapping[Side, Allocator],
    machine: Machine,
    ports: Ports,
    split: int | None,
) -> Residency:
    """Decide for the instances of ``body`` and allocate the windows.

    ``ports`` is how clusters load the memory ports. ``split`` is the axis whose values other
    clusters have that go through loops of the same shape, ``None`` if there are none.

    Raises
    ------
    CapacityError
        If not even one chunk of every operand fits.
    """
    result = Residency()
    by_side: dict[Side, list[Use | None]] = {
        side: uses_of(body, side, scope, operands, axes, split) for side in SIDES
    }
    groups = [group for side in SIDES for group in _groups(side, by_side[side], scope, axes)]
    free: dict[Side, int] = {side: allocators[side].left for side in SIDES}
    contracting, landing = _contracting(body, scope, axes, machine), costs.landing(machine)
    if any(use is None for uses in by_side.values() for use in uses):
        landing = 1  # where values are contracted, it is the vector core that takes longest
    panels = _choose(groups, contracting, ports, landing, free)
    for side in SIDES:
        mine = [panel for panel in panels if panel.rows.side == side]
        _allocate(result, by_side[side], mine, side, allocators[side])
    for pair in zip(*by_side.values(), strict=True):
        read = (_window(result, s, use) for s, use in zip(by_side, pair, strict=True) if use)
        result.read.append(frozenset(read))
    return result


def _window(result: Residency, side: Side, use: Use) -> Ring:
    if use.rows is not None and use.rows in result.panels:
        return result.panels[use.rows].ring
    return result.streams[side]


def _groups(
    side: Side, uses: Sequence[Use | None], scope: Scope, axes: Sequence[Axis]
) -> list[_Group]:
    """Gather uses of the same rows, with the ways to bring these in; the first is to stream."""
    found: dict[Rows | Use, list[Use]] = {}
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


def _streaming(uses: Sequence[Use], axes: Sequence[Axis]) -> _Option:
    instances = prod(axis.count for axis in axes)
    filled = sum(instances * use.swept_words for use in uses)
    first = max(use.groups * min(use.row_words, use.nk * CHUNK_WORDS) for use in uses)
    return _Option(None, filled, first)


def _contracting(
    body: Sequence[Statement], scope: Scope, axes: Sequence[Axis], machine: Machine
) -> int:
    """Return the cycles that the stage's contractions take."""
    cycles = 0
    for statement in statements(body):
        if isinstance(statement, Accumulate):
            gm, gn = (side_groups(statement.tile, side, scope) for side in SIDES)
            blocks = swept_blocks(body, statement, scope)
            sweeps = len(MODES[statement.tile.precision])
            cycles += sweeps * costs.gemm(machine, gm, gn, blocks).cycles
    return cycles * prod(axis.count for axis in axes)


def _choose(
    groups: Sequence[_Group],
    contracting: int,
    ports: Ports,
    landing: int,
    free: Mapping[Side, int],
) -> list[Panel]:
    chosen = [group.options[0] for group in groups]

    def estimate(options: Sequence[_Option]) -> float:
        apart = {  # sides where a stream brings something that is not common
            group.side
            for group, option in zip(groups, options, strict=True)
            if option.panel is None and not group.common
        }
        filled, first = [0, 0], [0, 0]  # alone, in common
        for group, option in zip(groups, options, strict=True):
            common = group.common and (option.panel is not None or group.side not in apart)
            filled[common] += option.filled
            first[common] += option.first
        words, starts = (max(ports.words(*each), landing * sum(each)) for each in (filled, first))
        return max(contracting, words) + starts + words * TRAFFIC

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


def _panels(rows: Rows, use: Use, scope: Scope, axes: Sequence[Axis]) -> list[_Option]:
    """Return a panel for every level at which it saves fills."""
    operand, per_instance = use.operand, use.swept_words
    depends = [
        (operand.batch_strides[n] if n < len(scope.batch) else _chooses(rows, scope, axis)) != 0
        for n, axis in enumerate(axes)
    ]
    once = rows.groups * use.row_words
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
    uses: Sequence[Use | None],
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
        result.streams[side] = ring = Ring(f"{memory} stream", base, largest.region, slots)
        if all(use.common for use in streaming):
            result.common[ring] = name
        result.placements.append(
            Placement(name, "in", memory, base, largest.region, slots, largest.loc)
        )
    for panel in panels:
        name = panel.rows.buffer.name
        base = allocator.allocate(f"the panel of {name}", panel.size * panel.slots, panel.loc)
        panel.ring = Ring(f"{memory} {name}", base, panel.size, panel.slots)
        result.panels[panel.rows] = panel
        if all(use.common for use in uses if use is not None and use.rows == panel.rows):
            result.common[panel.ring] = name
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
