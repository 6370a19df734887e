"""A pair's work in a stage: the cluster's half and the vector core's.

Both halves go through the same instances in the same order, and know of each other where tiles and
computed operands land, and the semaphores that hand them over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.cluster import ClusterContext, ClusterLowering, lower_cluster, ports_of
from compiler.passes.axes import Axes, Indices
from compiler.passes.context import Shared, StageContext
from compiler.passes.epilogue import lower_vector_half
from compiler.passes.keep import held_axes, kept_operands, run_ahead, sends, without
from compiler.passes.landings import credit, place_operands, place_tiles, tile_credits
from compiler.passes.placed import Placed, Share
from compiler.passes.scope import Scope
from compiler.vector import Allocator, VectorLowering
from compiler.vector.context import Keep
from kohakuaccel.errors import CapacityError
from kohakutpu.lang.ir import Computed, Side

SINGLE = "tiles have one place each: with two, the program needs more address registers than are"


def lower_pair(
    context: StageContext,
    result: Placed,
    cluster: int,
    vector: int,
    axes: tuple[Axes, Axes],
    where: tuple[str, int, int],
    outer: Mapping[int, Indices],
    split: int | None,
) -> ClusterLowering:
    """Lower both halves of one pair, and return the cluster's.

    Parameters
    ----------
    context : StageContext
        The stage.
    result : Placed
        Where the items of both units and what there is to say about them are added.
    cluster, vector : int
        The nodes.
    axes : tuple of Axes
        The loops around the instances, of the cluster and of the vector core.
    where : tuple
        The axis that the pair has a part of, its first value and how many it has.
    outer : mapping
        By node, the indices of the loops around the stage.
    split : int or None
        The axis that its group shares out, if one of the group fills for all.

    Raises
    ------
    CapacityError
        If an instance does not fit one of them.
    """
    mine, theirs = axes
    semaphores = context.semaphores(cluster, "cluster")
    l1 = context.operand_memories(cluster)
    shared = Shared()
    if context.vector_body:
        half = VectorHalf(context, vector, cluster, theirs, outer[vector], semaphores, l1)
        lowering, shared = half.lower()
        result.items[vector] = theirs.around(lowering)
        result.shares.append(Share.of_core(vector, where, theirs.instances, lowering))
    scope = Scope(context.stage.env, {**outer[cluster], **mine.indices}, mine.batch)
    group = next(group for group in context.groups if cluster in group.members)
    done = lower_cluster(
        context.stage.grid.body,
        ClusterContext(
            context.machine,
            cluster,
            vector,
            scope,
            mine.axes,
            context.batch.operands,
            shared.windows,
            semaphores,
            shared.landings,
            l1,
            ports_of(context.groups, context.machine),
            group,
            split,
            context.places.tiles,
            context.twins,
        ),
    )
    result.items[cluster] = done.body
    rings = {vector: shared.windows.values(), cluster: shared.landings.values()}
    for node, landings in rings.items():
        result.shared[node] = tuple((each.ring.base, each.ring.slots) for each in landings)
    placements = (*done.placements, *shared.placements)
    notes = () if context.places.tiles > 1 else (SINGLE,)
    common = tuple(done.residency.common.values()) if cluster == group.issuer else ()
    result.shares.append(
        Share(cluster, "C", *where, mine.instances, placements, notes, common, group.members)
    )
    return done


class VectorHalf:
    """The vector core's half of a pair's work.

    Parameters
    ----------
    context : StageContext
        The stage.
    node, cluster : int
        The vector core, and the cluster whose tiles it takes.
    axes : Axes
        The loops around the instances.
    outer : mapping
        The indices of the loops around the stage.
    credits : Allocator
        The semaphores of the cluster.
    l1 : mapping
        The operand memories of the cluster.
    """

    def __init__(
        self,
        context: StageContext,
        node: int,
        cluster: int,
        axes: Axes,
        outer: Indices,
        credits: Allocator,
        l1: Mapping[Side, Allocator],
    ) -> None:
        self._context = context
        self._node = node
        self._cluster = cluster
        self._axes = axes
        self._outer = outer
        self._credits = credits
        self._l1 = l1
        self._semaphores = context.semaphores(node, "vector core")
        self._tiles = tile_credits(context, credits)

    def lower(self) -> tuple[VectorLowering, Shared]:
        """Return its program, and where tiles and computed operands land.

        Raises
        ------
        CapacityError
            If an instance does not fit even if nothing stays and every window has one place.
        """
        allocators = (self._credits, self._semaphores, *self._l1.values())
        marks = [len(allocator.claims) for allocator in allocators]
        kept = self._kept()
        shared = self._operands(kept)
        try:
            return self._fitting(shared), shared
        except CapacityError:
            if not kept:
                raise
        for allocator, mark in zip(allocators, marks, strict=True):
            allocator.release(mark)
        shared = self._operands({})
        return self._fitting(shared), shared

    def _kept(self) -> dict[Computed, Keep]:
        """Return which computed operands stay; in a band, stages have windows in common."""
        context, axes = self._context, self._axes
        if context.names is not None or any(first is not t for t, first in context.twins.items()):
            return {}
        symbols = [*[None] * len(axes.batch), *axes.symbols]
        values = list(zip(symbols, axes.values, strict=True))
        return kept_operands(
            context.stage.grid,
            context.vector_body,
            context.stage.env,
            values,
            frozenset(self._outer),
            context.batch.operands,
            self._l1,
        )

    def _operands(self, kept: Mapping[Computed, Keep]) -> Shared:
        return place_operands(
            self._context, self._cluster, self._credits, self._semaphores, self._l1, kept
        )

    def _fitting(self, shared: Shared) -> VectorLowering:
        """Lower it with one place for the tiles if two do not fit."""
        mark, slots = len(self._semaphores.claims), self._context.places.windows
        try:
            return self._lower(shared, slots)
        except CapacityError:
            if slots == 1:
                raise
        self._semaphores.release(mark)
        return self._lower(shared, 1)

    def _lower(self, shared: Shared, slots: int) -> VectorLowering:
        context, axes, body = self._context, self._axes, self._context.vector_body
        core = context.vector(self._node, axes, self._outer, shared, self._semaphores)
        placements = place_tiles(
            context, shared, self._cluster, self._tiles, self._semaphores, core.l1, slots
        )
        kept = {o: way.keep for o, way in shared.landings.items() if way.keep is not None}
        lowering = lower_vector_half(without(body, kept), core)
        lowering.placements[:0] = placements
        for send, loops in sends(body):
            if send.operand in kept:
                around = replace(loops[0], body=[send]) if loops else send
                inside = held_axes(kept[send.operand], axes)
                indices = {**self._outer, **inside.indices}
                ahead = replace(core, indices=indices, batch=inside.batch)
                part = lower_vector_half([around], ahead)
                run_ahead(lowering, part, send, shared.landings[send.operand], axes)
        for landing in dict.fromkeys(shared.landings.values()):
            credit(landing, self._node, lowering)
        return lowering
