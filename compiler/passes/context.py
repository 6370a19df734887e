"""What the lowering of a stage works with on all of its units, and what is free on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.analysis.heights import height_of_grid
from compiler.analysis.twins import twins
from compiler.cluster import Multicast
from compiler.passes.axes import Axes, Indices
from compiler.passes.epilogue import vector_half
from compiler.passes.specialise import Batch
from compiler.passes.stage import Stage, statements
from compiler.vector import Allocator, Landing, Placement, TileWindow, VectorContext
from kohakutpu.config import SEMAPHORES, Machine
from kohakutpu.lang.ir import SIDES, Computed, Side, Tile, TileDecl

Names = dict[int, dict[tuple[str, int], int]]
"""The semaphores of each unit by name: a number has one purpose in all stages of a band."""

APART = SEMAPHORES - 1  # lets the first engine of a unit wait for its last one


@dataclass(frozen=True, slots=True)
class Places:
    """How many places windows may have: where a tile is contracted, and where it is handed over."""

    tiles: int = 2
    windows: int = 2


THRIFT = (Places(), Places(1, 2), Places(1, 1))
"""What to try in turn: the fewer places, the fewer address registers, and the less overlaps."""


@dataclass(eq=False, slots=True)
class Shared:
    """What both halves of a pair know: where tiles and computed operands land."""

    windows: dict[Tile, TileWindow] = field(default_factory=dict[Tile, TileWindow])
    landings: dict[Computed, Landing] = field(default_factory=dict[Computed, Landing])
    placements: list[Placement] = field(default_factory=list[Placement])


class StageContext:
    """A stage on its way to the units that have a share of it.

    Attributes
    ----------
    vector_body : list of Statement
        What of a contraction's instance runs on the vector core.
    twins : dict
        For a tile, the first one whose places it shares; only tiles of a fused stage do.
    rows : int
        Rows of an instance of a fused stage, 0 of any other.
    """

    def __init__(
        self,
        stage: Stage,
        machine: Machine,
        batch: Batch,
        groups: Sequence[Multicast],
        places: Places = THRIFT[0],
        names: Names | None = None,
    ) -> None:
        self.stage = stage
        self.machine = machine
        self.batch = batch
        self.groups = groups
        self.places = places
        self.names = names
        self.vector_body = vector_half(stage.grid.body)
        self.twins = _twins(stage)
        self.rows = height_of_grid(stage.grid, stage.env) if stage.is_fused else 0

    def semaphores(self, node: int, kind: str) -> Allocator:
        """Return the semaphores of a unit, those of a band's stages by name."""
        names = None if self.names is None else self.names.setdefault(node, {})
        return Allocator(f"semaphores of {kind} {node}", APART, names=names)

    def operand_memories(self, cluster: int) -> dict[Side, Allocator]:
        """Return the operand memories of a cluster, empty."""
        entries = self.machine.l1_entries
        return {
            side: Allocator(f"entries of L1{side} of cluster {cluster}", entries) for side in SIDES
        }

    def vector(
        self,
        node: int,
        axes: Axes,
        outer: Indices,
        shared: Shared | None = None,
        semaphores: Allocator | None = None,
    ) -> VectorContext:
        """Return what the lowering on a vector core depends on, with all of its memory free."""
        machine, shared = self.machine, shared or Shared()
        return VectorContext(
            machine,
            node,
            self.stage.env,
            {**outer, **axes.indices},
            self.batch.operands,
            Allocator(f"L1 words of vector core {node}", machine.vl1_words),
            Allocator(f"register beats of vector core {node}", machine.registers),
            semaphores or self.semaphores(node, "vector core"),
            axes.batch,
            shared.windows,
            rows=self.rows,
            landings=shared.landings,
        )


def _twins(stage: Stage) -> dict[Tile, Tile]:
    if stage.is_fused:
        return twins(stage.grid.body, stage.env)
    return {s.tile: s.tile for s in statements(stage.grid.body) if isinstance(s, TileDecl)}
