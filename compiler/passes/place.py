"""Turn a stage into the programs of the units that share its instances.

Instances are cut into contiguous ranges of one axis: over pairs of a cluster and a vector core
for contractions, over all vector cores otherwise. Both halves of a pair go through the same
instances in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.cluster import ClusterLowering, Multicast, check_agreement, multicasts
from compiler.cluster.context import FILL, GEMM
from compiler.estimate import estimate
from compiler.passes.axes import Axes, Indices
from compiler.passes.context import APART, THRIFT, Names, Places, StageContext
from compiler.passes.epilogue import lower_vector_half
from compiler.passes.pair import VectorHalf, lower_pair
from compiler.passes.placed import Placed, Round, Share
from compiler.passes.rotate import rotate
from compiler.passes.specialise import Batch, Specialised, collapse_batch
from compiler.passes.stage import Band, Part, Stage, buffers, shares, split_axis
from compiler.program import Emit, Loop
from compiler.vector import IndexValue, VectorLowering
from compiler.vector.emit import EXEC, VFILL
from kohakuaccel.errors import CallError, CapacityError
from kohakuaccel.source import call_site
from kohakutpu import isa
from kohakutpu.config import Machine

LAST_FIRST = {"C": (GEMM, FILL), "V": (EXEC, VFILL)}


def place_stages(
    parts: Sequence[Part], program: Specialised, machine: Machine, places: Places = THRIFT[0]
) -> list[Placed | Round]:
    """Lower all stages; see :func:`place_stage`."""
    return _place(parts, program, machine, {node.id: {} for node in machine.nodes}, places)


def _place(
    parts: Sequence[Part],
    program: Specialised,
    machine: Machine,
    outer: Mapping[int, Indices],
    places: Places,
) -> list[Placed | Round]:
    result: list[Placed | Round] = []
    for part in parts:
        if isinstance(part, Stage):
            result.append(place_stage(part, program, machine, outer, places))
            continue
        if isinstance(part, Band):
            result.append(place_band(part, program, machine, outer, places))
            continue
        symbol = part.index.symbol
        loops = {node: Loop(symbol.name, part.count) for node in outer}
        inside = {
            node: {**indices, symbol: IndexValue(0, loops[node])} for node, indices in outer.items()
        }
        result.append(Round(loops, part.count, _place(part.body, program, machine, inside, places)))
    return result


def place_band(
    band: Band,
    program: Specialised,
    machine: Machine,
    outer: Mapping[int, Indices],
    places: Places = THRIFT[0],
) -> Placed:
    """Lower the stages of a band, one after the other on every unit, without barriers.

    Within a pair, what one half sends lands in windows that are the same in all stages, so that it
    may arrive early, and a semaphore has one purpose in all of them. Everything else of a unit is
    kept apart by letting its first engine wait for its last one.

    Raises
    ------
    CapacityError
        If an instance does not fit a unit.
    """
    for allowed in (places, replace(places, windows=1)):
        parts: list[Placed] = []
        names: Names = {}
        busy: dict[int, int] = {}  # cycles of each unit so far
        for stage in band.stages:
            order = sorted(range(_units(stage, machine)), key=lambda unit: busy.get(unit, 0))
            part = place_stage(stage, program, machine, outer, allowed, order, names)
            for unit, node in part.units.items():
                kind = "C" if stage.is_contraction else "V"
                loads = estimate(part.items[node], kind, machine)
                cycles = max(load.cycles for load in loads.values())
                busy[unit] = busy.get(unit, 0) + cycles
            parts.append(part)
        if _agree(parts):
            break
    return _merged(band, parts)


def _agree(parts: Sequence[Placed]) -> bool:
    """Tell whether the windows that are written from outside are the same in all stages."""
    known: dict[int, tuple[tuple[int, int], ...]] = {}
    return all(known.setdefault(node, w) == w for part in parts for node, w in part.shared.items())


def _merged(band: Band, parts: Sequence[Placed]) -> Placed:
    result = Placed(parts[0].stage, parts[0].batch)
    shares: dict[int, Share] = {}
    for part, value in zip(parts, range(len(parts)), strict=True):
        for share in part.shares:
            items = result.items.setdefault(share.node, [])
            if items:
                last, first = LAST_FIRST[share.kind]
                items.append(Emit(isa.SYNC, {"engine": last}, (), ((share.node, APART),)))
                items.append(Emit(isa.SYNC, {"engine": first}, ((APART, 1),)))
            items += part.items[share.node]
            known = shares.get(share.node)
            name = band.index.symbol.name
            instances = share.instances + (known.instances if known else 0)
            start = known.start if known else value
            notes = (*(known.notes if known else ()), *share.notes)
            shares[share.node] = replace(
                share, axis=name, start=start, length=value + 1 - start, instances=instances,
                notes=tuple(dict.fromkeys(notes)),
            )  # fmt: skip
    result.shares += shares.values()
    return result


def _units(stage: Stage, machine: Machine) -> int:
    return len(machine.pairs if stage.is_contraction else machine.of_kind("V"))


def place_stage(
    stage: Stage,
    program: Specialised,
    machine: Machine,
    outer: Mapping[int, Indices],
    places: Places = THRIFT[0],
    order: Sequence[int] | None = None,
    names: Names | None = None,
) -> Placed:
    """Lower a stage on every unit that has a share.

    ``outer`` are the loops around it, by node, ``order`` which units get a share first, and
    ``names`` the semaphores of stages before that no barrier divides from this one.

    Raises
    ------
    KernelError
        If an instance is not what a unit can compute.
    CapacityError
        If an instance does not fit a unit.
    """
    batch = collapse_batch(program, buffers(stage.grid.body))
    counts = (*batch.counts, *stage.counts)
    if 0 in counts:
        return Placed(stage, batch)
    if not stage.is_contraction:
        _check_widths(batch)
    units = _units(stage, machine)
    split = split_axis(counts, units) if counts else 0
    chosen = range(units) if order is None else order
    parts = list(zip(chosen, shares(counts[split] if counts else 1, units), strict=False))
    groups: list[Multicast] = []
    if stage.is_contraction:
        clusters = [machine.pairs[unit][0].id for unit, _ in parts]
        groups = multicasts(clusters, [length for _, (_, length) in parts], machine)
    if names is None and any(group.receivers for group in groups):
        context = StageContext(stage, machine, batch, groups, places)
        try:
            return _place_units(context, parts, counts, split, split, outer)
        except CapacityError:
            pass  # let everybody fetch what he wants, then
    # In a band, a unit may be in another stage than those that want the same as it.
    context = StageContext(stage, machine, batch, groups, places, names)
    return _place_units(context, parts, counts, split, None, outer)


def _check_widths(batch: Batch) -> None:
    for buffer, operand in batch.operands.items():
        if not operand.width:
            raise CallError(
                f"the rows of `{buffer.name}` have no elements to compute with",
                loc=call_site(),
                fix="leave out calls on tensors that hold nothing",
                notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
            )


def _place_units(
    context: StageContext,
    parts: Sequence[tuple[int, tuple[int, int]]],
    counts: Sequence[int],
    split: int,
    common: int | None,
    outer: Mapping[int, Indices],
) -> Placed:
    """Lower the parts of a stage, each with the unit that has it."""
    stage, batch, machine = context.stage, context.batch, context.machine
    result = Placed(stage, batch)
    clusters: dict[int, ClusterLowering] = {}
    for unit, (start, length) in parts:
        ranges = [(0, count) for count in counts]
        if counts:
            ranges[split] = (start, length)
        axes = Axes.over(stage, batch, ranges)
        where = (axes.names[split], start, length) if counts else ("", 0, 1)
        if stage.is_contraction:
            cluster, vector = (node.id for node in machine.pairs[unit])
            result.units[unit] = cluster
            both = axes, Axes.over(stage, batch, ranges)
            clusters[cluster] = lower_pair(
                context, result, cluster, vector, both, where, outer, common
            )
        else:
            node = machine.of_kind("V")[unit].id
            result.units[unit] = node
            lowering = lower_vector_half(stage.grid.body, context.vector(node, axes, outer[node]))
            result.items[node] = rotate(axes.around(lowering), machine)
            result.shares.append(Share.of_core(node, where, axes.instances, lowering))
    for group in context.groups:
        check_agreement(group, clusters)
    return result


def try_epilogue(
    stage: Stage, program: Specialised, machine: Machine, outer: Indices
) -> VectorLowering | None:
    """Lower the vector half of a contraction on one pair, for no other use than to see it.

    Returns
    -------
    VectorLowering or None
        ``None`` if the vector core has nothing to do.

    Raises
    ------
    CapacityError
        If an instance does not fit.
    """
    batch = collapse_batch(program, buffers(stage.grid.body))
    context = StageContext(stage, machine, batch, [])
    counts = (*batch.counts, *stage.counts)
    if not context.vector_body or 0 in counts:
        return None
    axes = Axes.over(stage, batch, [(0, count) for count in counts])
    cluster, vector = (node.id for node in machine.pairs[0])
    semaphores, l1 = context.semaphores(cluster, "cluster"), context.operand_memories(cluster)
    return VectorHalf(context, vector, cluster, axes, outer, semaphores, l1).lower()[0]
