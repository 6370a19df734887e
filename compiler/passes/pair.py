"""The work of the units that share a stage: one pair's two halves, or one vector core.

Both halves of a pair go through the same instances in the same order, and know of each other
where tiles and computed operands land, and the semaphores that hand them over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from compiler.analysis.heights import height_of_grid, height_of_operand
from compiler.analysis.twins import twins
from compiler.cluster import (
    Axis,
    ClusterContext,
    ClusterLowering,
    Multicast,
    check_agreement,
    lower_cluster,
    ports_of,
)
from compiler.cluster.operands import MODES
from compiler.passes.epilogue import lower_vector_half, vector_half
from compiler.passes.keep import kept_operands, sends, without
from compiler.passes.scope import Scope
from compiler.passes.specialise import Batch, Specialised
from compiler.passes.stage import Stage, statements
from compiler.program import Advance, Emit, Loop, Ring
from compiler.vector import (
    Allocator,
    IndexValue,
    Landing,
    Placement,
    TileWindow,
    VectorContext,
    VectorLowering,
)
from compiler.vector.context import Keep
from compiler.vector.emit import VDRAIN, sync
from kohakuaccel.errors import CallError, CapacityError, InternalError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Statement
from kohakuaccel.source import call_site
from kohakutpu.config import LANES, SEMAPHORES, WORD_BYTES, Machine
from kohakutpu.lang.ir import (
    SIDES,
    Computed,
    Send,
    Side,
    Tile,
    TileDecl,
    tiles_of,
    values_of,
)

Item = Loop | Emit | Advance
Indices = Mapping[Symbol, IndexValue]

Names = dict[int, dict[tuple[str, int], int]]
"""The semaphores of each unit by name: a number has one purpose in all stages of a band."""

APART = SEMAPHORES - 1  # lets the first engine of a unit wait for its last one


@dataclass(frozen=True, slots=True)
class Share:
    """What one unit does in a stage: ``length`` values from ``start`` on of one axis.

    ``common`` is what it fetches for several units, which are ``receivers``.
    """

    node: int
    kind: str
    axis: str
    start: int
    length: int
    instances: int
    placements: tuple[Placement, ...]
    notes: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    receivers: tuple[int, ...] = ()


@dataclass(eq=False, slots=True)
class Placed:
    """A stage's items by node, and what there is to say about it.

    ``units`` is the first node of each unit that has work, ``shared`` the base and places of
    windows that the other half of a pair writes, by node.
    """

    stage: Stage
    batch: Batch
    items: dict[int, list[Item]] = field(default_factory=dict[int, "list[Item]"])
    shares: list[Share] = field(default_factory=list[Share])
    units: dict[int, int] = field(default_factory=dict[int, int])
    shared: dict[int, tuple[tuple[int, int], ...]] = field(
        default_factory=dict[int, "tuple[tuple[int, int], ...]"]
    )


@dataclass(frozen=True, slots=True)
class Places:
    """How many places windows may have: where a tile is contracted, and where it is handed over."""

    tiles: int = 2
    windows: int = 2


THRIFT = (Places(), Places(1, 2), Places(1, 1))
"""What to try in turn: the fewer places, the fewer address registers, and the less overlaps."""


SINGLE = "tiles have one place each: with two, the program needs more address registers than are"


class Axes:
    """The loops around the instances of one unit, freshly made."""

    def __init__(
        self, names: Sequence[str], ranges: Sequence[tuple[int, int]], stage: Stage, batch: int
    ) -> None:
        self.values = [
            IndexValue(start, Loop(name, length))
            for name, (start, length) in zip(names, ranges, strict=True)
        ]
        self.axes = [Axis(name, value) for name, value in zip(names, self.values, strict=True)]
        self.batch = self.values[:batch]
        symbols = [index.symbol for index in stage.indices]
        self.indices: Indices = dict(zip(symbols, self.values[batch:], strict=True))

    def with_values(self, values: Sequence[IndexValue]) -> Axes:
        """Return axes of the same names and indices that are worth something else."""
        result = object.__new__(Axes)
        result.values = list(values)
        names = (axis.name for axis in self.axes)
        result.axes = [Axis(name, value) for name, value in zip(names, values, strict=True)]
        result.batch = result.values[: len(self.batch)]
        result.indices = dict(zip(self.indices, result.values[len(self.batch) :], strict=True))
        return result

    @property
    def instances(self) -> int:
        """How many instances the loops go through."""
        result = 1
        for axis in self.axes:
            result *= axis.count
        return result

    def around(self, lowering: VectorLowering) -> list[Item]:
        """Return the loops with an instance inside."""
        items = [*lowering.ahead.get(len(self.values), ()), *lowering.body]
        for level, value in reversed(list(enumerate(self.values))):
            assert value.loop is not None
            value.loop.body = items
            items = [*lowering.ahead.get(level, ()), value.loop]
        return [*lowering.prologue, *items, *lowering.epilogue]


def stage_twins(stage: Stage) -> dict[Tile, Tile]:
    """Return which tiles share places; only those of a fused stage do."""
    tiles = (s.tile for s in statements(stage.grid.body) if isinstance(s, TileDecl))
    return twins(stage.grid.body, stage.env) if stage.is_fused else {tile: tile for tile in tiles}


@dataclass(eq=False, slots=True)
class Shared:
    """What both halves of a pair know: where tiles and computed operands land."""

    windows: dict[Tile, TileWindow] = field(default_factory=dict[Tile, TileWindow])
    landings: dict[Computed, Landing] = field(default_factory=dict[Computed, Landing])
    placements: list[Placement] = field(default_factory=list[Placement])


class Work:
    """A stage on its way to the units that have a share of it."""

    def __init__(
        self,
        stage: Stage,
        program: Specialised,
        machine: Machine,
        batch: Batch,
        groups: Sequence[Multicast],
        places: Places = THRIFT[0],
        names: Names | None = None,
    ) -> None:
        self.stage = stage
        self.program = program
        self.machine = machine
        self.batch = batch
        self.vector_body = vector_half(stage.grid.body)
        self.places = places
        self.names = names
        self.twins = stage_twins(stage)
        self.rows = height_of_grid(stage.grid, stage.env) if stage.is_fused else 0
        self.groups = groups
        self.lowered: dict[int, ClusterLowering] = {}  # clusters

    def pair(
        self,
        result: Placed,
        cluster: int,
        vector: int,
        axes: Sequence[Axes],
        where: tuple[str, int, int],
        outer: Mapping[int, Indices],
        split: int | None,
    ) -> None:
        """Lower both halves of one pair.

        ``split`` is the axis that its group shares out, if one of the group fills for all.
        """
        semaphores = self.semaphores(cluster, "cluster")
        l1 = self.l1_of(cluster)
        shared = Shared()
        if self.vector_body:
            lowering, shared = self.epilogue(
                vector, cluster, axes[1], outer[vector], semaphores, l1
            )
            result.items[vector] = axes[1].around(lowering)
            result.shares.append(self.share(vector, "V", where, axes[1], lowering))
        scope = Scope(self.stage.env, {**outer[cluster], **axes[0].indices}, axes[0].batch)
        group = next(group for group in self.groups if cluster in group.members)
        context = ClusterContext(
            self.machine,
            cluster,
            vector,
            scope,
            axes[0].axes,
            self.batch.operands,
            shared.windows,
            semaphores,
            shared.landings,
            l1,
            ports_of(self.groups, self.machine),
            group,
            split,
            self.places.tiles,
            self.twins,
        )
        self.lowered[cluster] = half = lower_cluster(self.stage.grid.body, context)
        result.items[cluster] = half.body
        placements = (*half.placements, *shared.placements)
        result.shared[vector] = tuple((w.ring.base, w.ring.slots) for w in shared.windows.values())
        landings = shared.landings.values()
        result.shared[cluster] = tuple((w.ring.base, w.ring.slots) for w in landings)
        notes = () if self.places.tiles > 1 else (SINGLE,)
        common = tuple(half.residency.common.values()) if cluster == group.issuer else ()
        result.shares.append(
            Share(cluster, "C", *where, axes[0].instances, placements, notes, common, group.members)
        )

    def check_agreement(self) -> None:
        """Check that clusters agree on what one of them fills for others."""
        for group in self.groups:
            check_agreement(group, self.lowered)

    def semaphores(self, node: int, kind: str) -> Allocator:
        """Return the semaphores of a unit, those of a band's stages by name."""
        names = None if self.names is None else self.names.setdefault(node, {})
        return Allocator(f"semaphores of {kind} {node}", APART, names=names)

    def registers(self, node: int) -> Allocator:
        """Return the registers of a vector core, free."""
        return Allocator(f"register beats of vector core {node}", self.machine.registers)

    def l1_of(self, cluster: int) -> dict[Side, Allocator]:
        """Return the operand memories of a cluster, empty."""
        entries = self.machine.l1_entries
        return {
            side: Allocator(f"entries of L1{side} of cluster {cluster}", entries) for side in SIDES
        }

    def epilogue(
        self,
        node: int,
        cluster: int,
        axes: Axes,
        outer: Indices,
        credits: Allocator,
        l1: Mapping[Side, Allocator],
    ) -> tuple[VectorLowering, Shared]:
        """Lower the vector half, with two places for the tiles if they fit."""
        values = [value for s in statements(self.vector_body) for value in values_of(s)]
        tiles = dict.fromkeys(tile for value in values for tile in tiles_of(value))
        numbers: dict[Tile, int] = {}
        for tile in tiles:
            first = self.twins[tile]
            if first not in numbers:
                numbers[first] = credits.allocate(f"tile {tile.name} credit")
            numbers[tile] = numbers[first]
        semaphores = self.semaphores(node, "vector core")
        allocators = (credits, semaphores, *l1.values())
        marks = [len(allocator.claims) for allocator in allocators]
        for kept in (self._kept(axes, outer, l1), {}):
            shared = self._landings(cluster, credits, semaphores, l1, kept)
            try:
                return self._fitting(node, cluster, axes, outer, numbers, semaphores, shared)
            except CapacityError:
                if not kept:
                    raise
                for allocator, mark in zip(allocators, marks, strict=True):
                    allocator.release(mark)
        raise InternalError("no way was tried")

    def _kept(
        self, axes: Axes, outer: Indices, l1: Mapping[Side, Allocator]
    ) -> dict[Computed, Keep]:
        """Return which computed operands stay; in a band, stages have windows in common."""
        if self.names is not None or any(self.twins[tile] is not tile for tile in self.twins):
            return {}
        symbols = [None] * len(axes.batch) + [index.symbol for index in self.stage.indices]
        values = list(zip(symbols, axes.values, strict=True))
        grid, operands = self.stage.grid, self.batch.operands
        known = frozenset(outer)
        return kept_operands(grid, self.vector_body, self.stage.env, values, known, operands, l1)

    def _fitting(
        self,
        node: int,
        cluster: int,
        axes: Axes,
        outer: Indices,
        numbers: Mapping[Tile, int],
        semaphores: Allocator,
        shared: Shared,
    ) -> tuple[VectorLowering, Shared]:
        """Lower the vector half, with one place for the tiles if two do not fit."""
        mark = len(semaphores.claims)
        try:
            slots = self.places.windows
            return self._with_windows(
                node, cluster, axes, outer, numbers, semaphores, shared, slots
            )
        except CapacityError:
            if self.places.windows == 1:
                raise
            semaphores.release(mark)
            return self._with_windows(node, cluster, axes, outer, numbers, semaphores, shared, 1)

    def _landings(
        self,
        cluster: int,
        full: Allocator,
        empty: Allocator,
        l1: Mapping[Side, Allocator],
        kept: Mapping[Computed, Keep],
    ) -> Shared:
        """Give every computed operand a ring of regions in the memory of its side."""
        env, shared = self.stage.env, Shared()
        made: dict[tuple[Tile, Side], Landing] = {}
        for send in statements(self.vector_body):
            if not isinstance(send, Send):
                continue
            tile, side, entries = send.tile, send.side, l1[send.side]
            known = made.get((self.twins[tile], side))
            if known is not None and self.twins[tile] is not tile:
                shared.landings[send.operand] = known
                continue
            groups = height_of_operand(tile, side, env) // LANES
            blocks = tile.nk.evaluate(env)
            modes = tuple(dict.fromkeys(pair[SIDES.index(side)] for pair in MODES[tile.precision]))
            size, place = groups * blocks, groups * blocks * len(modes)
            slots = self.places.tiles if 4 * place <= entries.limit else 1
            keep = kept.get(send.operand)
            if keep is not None:
                size, place, slots = keep.size, keep.size * len(modes), keep.slots
                blocks = keep.blocks
            name = f"the operand of {tile.name}" + (" on the right" if side == "B" else "")
            fix = "use fewer rows or fewer columns in a block"
            base = entries.allocate(name, slots * place, send.loc, fix)
            ring = Ring(f"operand {side} of {tile.name}", base, place, slots)
            arrived = cluster, full.allocate(f"{name} full")
            free = empty.allocate(f"{name} empty")
            landing = Landing(cluster, side, ring, blocks, size, modes, arrived, free, keep)
            shared.landings[send.operand] = made[tile, side] = landing
            shared.placements.append(
                Placement(
                    tile.name,
                    "operand" if keep is None else "computed once",
                    f"L1{side}",
                    base,
                    place,
                    slots,
                    send.loc,
                )
            )
        return shared

    def _with_windows(
        self,
        node: int,
        cluster: int,
        axes: Axes,
        outer: Indices,
        credits: Mapping[Tile, int],
        semaphores: Allocator,
        shared: Shared,
        slots: int,
    ) -> tuple[VectorLowering, Shared]:
        l1 = Allocator(f"L1 words of vector core {node}", self.machine.vl1_words)
        env = self.stage.env
        windows = shared.windows
        windows.clear()  # of a try that did not fit
        placements: list[Placement] = []
        for tile, credit in credits.items():
            rows, cols = LANES * tile.gm.evaluate(env), LANES * tile.gn.evaluate(env)
            stride = -(-cols * 2 // WORD_BYTES)
            assert tile.cols is not None
            width, first = tile.cols.evaluate(env), windows.get(self.twins[tile])
            if first is not None:
                windows[tile] = replace(first, tile=tile, width=width)
                continue
            base = l1.allocate(f"tile {tile.name}", rows * stride * slots, tile.loc)
            windows[tile] = TileWindow(
                tile,
                rows,
                cols,
                Ring(f"tile {tile.name}", base, rows * stride, slots),
                stride,
                semaphores.allocate(f"tile {tile.name} full"),
                (cluster, credit),
                width,
            )
            placements.append(
                Placement(tile.name, "tile", "L1", base, rows * stride, slots, tile.loc)
            )
        kept = {o: way.keep for o, way in shared.landings.items() if way.keep is not None}
        body = without(self.vector_body, kept)
        registers = self.registers(node)
        lowering = self.vector(body, node, axes, outer, shared, l1, semaphores, registers)
        lowering.placements[:0] = placements
        for send, loops in sends(self.vector_body):
            if send.operand in kept:
                around = replace(loops[0], body=[send]) if loops else send
                part = partial(self.vector, [around], node)
                self._ahead(part, send, axes, outer, shared, l1, semaphores, registers, lowering)
        for landing in dict.fromkeys(shared.landings.values()):
            self._credit(landing, node, lowering)
        return lowering, shared

    def _ahead(
        self,
        lower: Callable[..., VectorLowering],
        send: Send,
        axes: Axes,
        outer: Indices,
        shared: Shared,
        l1: Allocator,
        semaphores: Allocator,
        registers: Allocator,
        lowering: VectorLowering,
    ) -> None:
        """Compute all of an operand that stays, before the loops that do not change it."""
        landing = shared.landings[send.operand]
        keep = landing.keep
        assert keep is not None
        fresh = dict(zip(keep.moving, keep.loops, strict=True))
        inside = axes.with_values(
            [
                value if n < keep.level else IndexValue(value.start, fresh.get(n))
                for n, value in enumerate(axes.values)
            ]
        )
        part = lower(inside, outer, shared, l1, semaphores, registers)
        items: list[Item] = part.body
        for loop in reversed(keep.loops):
            loop.body = items
            items = [loop]
        lowering.ahead.setdefault(keep.level, []).extend(
            [
                *sync(VDRAIN, [(landing.empty, 1)]),
                *items,
                *sync(VDRAIN, (), [landing.full]),
                Advance(landing.ring),
            ]
        )
        lowering.prologue += part.prologue
        lowering.epilogue += part.epilogue
        lowering.placements += part.placements
        lowering.notes += part.notes
        side = "left" if send.side == "A" else "right"
        names = [axis.name for axis in axes.axes[keep.level :]]
        lowering.notes.append(
            f"the {side} operand of {send.tile.name} is computed once for all of "
            f"{', '.join(names)}: {keep.slots * keep.size * len(landing.modes)} entries of "
            f"L1{send.side} hold it"
        )

    def _credit(self, landing: Landing, node: int, lowering: VectorLowering) -> None:
        """Let a vector core start with credits for the places of a landing, and end with them."""
        slots, empty = landing.ring.slots, landing.empty
        lowering.prologue += sync(VDRAIN, (), [(node, empty)] * slots)
        lowering.epilogue += sync(VDRAIN, [(empty, slots)])

    def vector(
        self,
        body: Sequence[Statement],
        node: int,
        axes: Axes,
        outer: Indices,
        shared: Shared,
        l1: Allocator | None = None,
        semaphores: Allocator | None = None,
        registers: Allocator | None = None,
    ) -> VectorLowering:
        """Lower the instances of one vector core."""
        for buffer, operand in self.batch.operands.items():
            if not operand.width and not self.stage.is_contraction:
                raise CallError(
                    f"the rows of `{buffer.name}` have no elements to compute with",
                    loc=call_site(),
                    fix="leave out calls on tensors that hold nothing",
                    notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
                )
        machine = self.machine
        context = VectorContext(
            machine,
            node,
            self.stage.env,
            {**outer, **axes.indices},
            self.batch.operands,
            l1 or Allocator(f"L1 words of vector core {node}", machine.vl1_words),
            registers or self.registers(node),
            semaphores or self.semaphores(node, "vector core"),
            axes.batch,
            shared.windows,
            rows=self.rows,
            landings=shared.landings,
        )
        return lower_vector_half(body, context)

    def share(
        self, node: int, kind: str, where: tuple[str, int, int], axes: Axes, half: VectorLowering
    ) -> Share:
        """Return the entry of a vector core."""
        return Share(node, kind, *where, axes.instances, tuple(half.placements), tuple(half.notes))
