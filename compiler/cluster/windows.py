"""What a stage occupies on a cluster: L1 windows, tiles, and a pair of semaphores for each."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cluster.context import (
    DRAIN,
    FILL,
    GEMM,
    ClusterContext,
    Handshake,
    Item,
    TileState,
    sync,
)
from compiler.cluster.residency import SIDES, Panel, Side, decide
from compiler.passes.stage import statements
from compiler.program import Ring
from compiler.vector.context import Allocator, Placement
from kohakuaccel.ir.nodes import Statement
from kohakutpu.lang.ir import Accumulate, Tile, TileDecl

POSTS = 2  # of one instruction


class Windows:
    """Windows, tiles and semaphores of one stage.

    Attributes
    ----------
    residency : Residency
        Which operands stream and which stay.
    streams, panels : dict
        The semaphores of each window.
    tiles : dict
        The state of each tile.
    prologue, epilogue : list
        Credits for empty windows: posted before the loops, taken back after them, both in the
        queue of the engine that waits for them.
    placements : list of Placement
        For the plan.
    """

    def __init__(self, body: Sequence[Statement], context: ClusterContext) -> None:
        self._context = context
        self.prologue: list[Item] = []
        self.epilogue: list[Item] = []
        machine, node = context.machine, context.node
        limits: dict[Side, Allocator] = {
            side: Allocator(f"entries of L1{side} of cluster {node}", machine.l1_entries)
            for side in SIDES
        }
        self.residency = decide(body, context.scope, context.axes, context.operands, limits)
        self.placements = list(self.residency.placements)
        self.streams: dict[Side, Handshake] = {}
        self.panels: dict[Panel, Handshake] = {}
        self.tiles: dict[Tile, TileState] = {}
        for side, ring in self.residency.streams.items():
            self.streams[side] = self._handshake(f"L1{side} stream", ring.slots, FILL)
        for panel in self.residency.panels.values():
            name = f"L1{panel.rows.side} {panel.rows.buffer.name}"
            self.panels[panel] = self._handshake(name, panel.slots, FILL)
        self._place_tiles(body)

    def _place_tiles(self, body: Sequence[Statement]) -> None:
        context, env = self._context, self._context.scope.env
        accumulator = Allocator(
            f"accumulator sub-tiles of cluster {context.node}", context.machine.acc_subtiles
        )
        fed = {s.tile for s in statements(body) if isinstance(s, Accumulate)}
        tiles = [s.tile for s in statements(body) if isinstance(s, TileDecl) and s.tile in fed]
        sizes = [tile.gm.evaluate(env) * tile.gn.evaluate(env) for tile in tiles]
        slots = 2 if 2 * sum(sizes) <= accumulator.left else 1
        for tile, size in zip(tiles, sizes, strict=True):
            base = accumulator.allocate(
                f"tile `{tile.name}`", size * slots, tile.loc, "use smaller gm, gn"
            )
            ring = Ring(f"tile {tile.name}", base, size, slots)
            handshake = self._handshake(f"tile {tile.name}", slots, GEMM)
            window = context.windows.get(tile)
            if window is not None:
                self._credit(window.credit[1], window.ring.slots, DRAIN)
            gm, gn, nk = (knob.evaluate(env) for knob in (tile.gm, tile.gn, tile.nk))
            self.tiles[tile] = TileState(tile, gm, gn, nk, ring, handshake, window)
            self.placements.append(
                Placement(tile.name, "tile", "accumulator", base, size, slots, tile.loc)
            )

    def _handshake(self, name: str, slots: int, writer: int) -> Handshake:
        """Allocate a window's semaphores; its writer starts with ``slots`` credits."""
        allocate = self._context.semaphores.allocate
        result = Handshake(allocate(f"{name} full"), allocate(f"{name} empty"))
        self._credit(result.empty, slots, writer)
        return result

    def _credit(self, semaphore: int, slots: int, queue: int) -> None:
        post = (self._context.node, semaphore)
        for first in range(0, slots, POSTS):
            self.prologue.append(sync(queue, posts=(post,) * min(POSTS, slots - first)))
        self.epilogue.append(sync(queue, waits=((semaphore, slots),)))
