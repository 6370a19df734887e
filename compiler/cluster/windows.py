"""What a stage occupies on a cluster: L1 windows, tiles, and a pair of semaphores for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from compiler.cluster.context import (
    DRAIN,
    FILL,
    GEMM,
    ClusterContext,
    TileState,
    feeds,
    last,
    stores,
    sync,
)
from compiler.cluster.operands import is_computed
from compiler.cluster.orders import Handshake, Order, make_order
from compiler.cluster.residency import Panel, decide
from compiler.passes.stage import statements
from compiler.program import Item, Ring
from compiler.vector.context import Allocator, Placement
from kohakuaccel.ir.nodes import Repeat, Statement, Store
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Accumulate, Tile, TileDecl, tiles_of, values_of

POSTS = 2  # of one instruction


class Windows:
    """Windows, tiles and semaphores of one stage.

    Attributes
    ----------
    residency : Residency
        Which operands stream and which stay.
    panels : dict
        For a level, its panels.
    reads, writes : list of Order
        What this cluster reads, and what it fills for itself and for others.
    tiles : dict
        The state of each tile.
    prologue, epilogue : list
        Credits for empty windows: posted before the loops, taken back after them, both in the
        queue of the engine that waits for them.
    placements : list of Placement
        For the plan.
    read_at : dict
        Where the vector core first computes with a tile.
    """

    def __init__(self, body: Sequence[Statement], context: ClusterContext) -> None:
        self._context = context
        self.prologue: list[Item] = []
        self.epilogue: list[Item] = []
        self.residency = decide(
            body,
            context.scope,
            context.axes,
            context.operands,
            context.l1,
            context.machine,
            context.ports,
            context.split,
        )
        self.placements = list(self.residency.placements)
        self.panels: dict[int, list[Panel]] = {}
        for panel in self.residency.panels.values():
            self.panels.setdefault(panel.level, []).append(panel)
        self.reads: list[Order] = []
        self.writes: list[Order] = []
        self.tiles: dict[Tile, TileState] = {}
        self.read_at: dict[Tile, Location] = {}
        for statement in statements(body):
            for tile in (tile for value in values_of(statement) for tile in tiles_of(value)):
                self.read_at.setdefault(tile, statement.loc)
        self._order_fills(body)
        self._place_tiles(body)

    def fills(self, ring: Ring) -> bool:
        """Tell whether this cluster fills a window of its own."""
        group = self._context.group
        return self._context.node == group.issuer or ring not in self.residency.common

    def receivers(self, ring: Ring) -> int:
        """Return the set of clusters that a window is filled on, 0 for this one alone."""
        if ring not in self.residency.common:
            return 0
        return sum(1 << node for node in self._context.group.members)

    def ahead(self, repeat: Repeat) -> list[Statement]:
        """Return what of a loop's body runs a pass ahead of the rest, nothing if all is in step.

        Tiles that need nothing of the vector core may be swept early if others of the same pass
        wait for it, and if two of each fit where the vector core computes with them.
        """
        if not any(isinstance(s, Accumulate) and is_computed(s) for s in statements(repeat.body)):
            return []
        late = {
            s.tile for s in statements(repeat.body) if isinstance(s, Accumulate) and is_computed(s)
        }
        born = [s.tile for s in repeat.body if isinstance(s, TileDecl) and s.tile not in late]
        early = [tile for tile in born if tile in self.tiles]
        slots = [self.tiles[tile].window for tile in early]
        if any(window is not None and window.ring.slots < 2 for window in slots):
            return []
        symbol = repeat.index.symbol
        result: list[Statement] = []
        for statement in repeat.body:
            inner = list(statements([statement]))
            fed = {s.tile for s in inner if isinstance(s, (Accumulate, TileDecl))}
            stored = {
                s.value.tile for s in inner if isinstance(s, Store) and s.value.tile is not None
            }
            if not (fed or stored) or not fed | stored <= set(early):
                continue
            if any(isinstance(s, Accumulate) and symbol in s.chunk.symbols() for s in inner):
                return []  # its last chunk may be shorter than the others
            result.append(statement)
        return result

    def _order_fills(self, body: Sequence[Statement]) -> None:
        """Allocate the semaphores of streams and panels, those of common ones first.

        All clusters of a group do that alike, so that each knows the numbers of the others.
        """
        node, group, residency = self._context.node, self._context.group, self.residency
        common = residency.common.keys()
        fulls: dict[str, int] = {}
        for reader in group.receivers if common else ():

            def full(name: str) -> int:
                if name not in fulls:
                    fulls[name] = self._allocate(f"{name} by {group.issuer}")
                return fulls[name]

            def empty(name: str, reader: int = reader) -> int:
                return self._allocate(f"{name} of {reader}")

            self._order(body, group.issuer, reader, common, full, empty)
        rings = {*residency.streams.values(), *(p.ring for p in residency.panels.values())}
        mine = {ring for ring in rings if self.fills(ring)}
        self._order(body, node, node, mine, self._allocate, self._allocate)

    def _allocate(self, name: str) -> int:
        return self._context.semaphores.allocate(name)

    def _order(
        self,
        body: Sequence[Statement],
        writer: int,
        reader: int,
        rings: Set[Ring],
        full: Callable[[str], int],
        empty: Callable[[str], int],
    ) -> None:
        context = self._context
        neighbours, landings = _has_neighbours(body), bool(context.landings)
        order = make_order(
            writer, reader, rings, self.residency, context.axes, neighbours, landings, full, empty
        )
        if reader == context.node:
            self.reads.append(order)
        if writer == context.node:
            self.writes.append(order)
            for semaphore, slots in order.slots:
                self._credit(semaphore, slots, FILL)

    def _place_tiles(self, body: Sequence[Statement]) -> None:
        context, env = self._context, self._context.scope.env
        accumulator = Allocator(
            f"accumulator sub-tiles of cluster {context.node}", context.machine.acc_subtiles
        )
        fed = {s.tile for s in statements(body) if isinstance(s, Accumulate)}
        tiles = [s.tile for s in statements(body) if isinstance(s, TileDecl) and s.tile in fed]
        firsts = [tile for tile in tiles if context.twins.get(tile, tile) is tile]
        sizes = {tile: tile.gm.evaluate(env) * tile.gn.evaluate(env) for tile in firsts}
        places = places_of_tiles(body, sizes, accumulator.left)
        implied = self._implied(body) if firsts == tiles and not context.landings else {}
        for tile in tiles:
            gm, gn, nk = (knob.evaluate(env) for knob in (tile.gm, tile.gn, tile.nk))
            if tile not in sizes:
                first = self.tiles[context.twins[tile]]
                window = context.windows.get(tile)
                self.tiles[tile] = TileState(tile, gm, gn, nk, first.ring, first.sync, window)
                continue
            size = sizes[tile]
            slots = min(places[tile], context.places)
            base = accumulator.allocate(
                f"tile `{tile.name}`", size * slots, tile.loc, "use smaller gm, gn"
            )
            ring = Ring(f"tile {tile.name}", base, size, slots)
            known = implied.get(tile, frozenset[str]())
            full, empty = (
                None if end in known else self._allocate(f"tile {tile.name} {end}")
                for end in ("full", "empty")
            )
            if empty is not None:
                self._credit(empty, slots, GEMM)
            handshake = Handshake(full, empty)
            window = context.windows.get(tile)
            if window is not None:
                self._credit(window.credit[1], window.ring.slots, DRAIN)
            self.tiles[tile] = TileState(tile, gm, gn, nk, ring, handshake, window)
            self.placements.append(
                Placement(tile.name, "tile", "accumulator", base, size, slots, tile.loc)
            )

    def _implied(self, body: Sequence[Statement]) -> dict[Tile, frozenset[str]]:
        """Return for tiles that are born and fed together which semaphores others imply.

        They leave in the order of their births: the last one's place is free when all are, and
        the first one is full when all are, unless precision sweeps once more for each.
        """
        result: dict[Tile, frozenset[str]] = {}
        for part in (body, *(s.body for s in statements(body) if isinstance(s, Repeat))):
            run: list[Tile] = []
            for statement in (*part, None):
                if isinstance(statement, TileDecl):
                    run.append(statement.tile)
                    continue
                fed = {last(part, tile, feeds) for tile in run}
                apart = any(
                    tile not in self._context.windows or last(part, tile, stores) >= 0
                    for tile in run
                )
                if len(run) > 1 and len(fed) == 1 and not apart:
                    for tile in run:
                        ends = {"empty"} if tile is not run[-1] else set[str]()
                        if tile is not run[0] and all(t.precision == "default" for t in run):
                            ends.add("full")
                        result[tile] = frozenset(ends)
                run = []
        return result

    def _credit(self, semaphore: int, slots: int, queue: int) -> None:
        post = (self._context.node, semaphore)
        for first in range(0, slots, POSTS):
            self.prologue.append(sync(queue, posts=(post,) * min(POSTS, slots - first)))
        self.epilogue.append(sync(queue, waits=((semaphore, slots),)))


def places_of_tiles(
    body: Sequence[Statement], sizes: Mapping[Tile, int], free: int
) -> dict[Tile, int]:
    """Return how many places each tile has: two if they fit, at least for those born in loops."""
    if 2 * sum(sizes.values()) <= free:
        return dict.fromkeys(sizes, 2)
    places = dict.fromkeys(sizes, 1)
    left = free - sum(sizes.values())
    loops = [s.body for s in statements(body) if isinstance(s, Repeat)]
    for statement in (s for inner in loops for s in inner):
        if isinstance(statement, TileDecl) and statement.tile in sizes:
            size = sizes[statement.tile]
            if places[statement.tile] == 1 and size <= left:
                places[statement.tile], left = 2, left - size
    return places


def _has_neighbours(body: Sequence[Statement]) -> bool:
    """Tell whether two contractions could follow each other with an operand in common."""
    inner = [s.body for s in statements(body) if isinstance(s, Repeat)]
    for part in (body, *inner):
        found = [s for s in part if isinstance(s, Accumulate)]
        if len(found) > 1 or any(s.tile.precision != "default" and _born(part, s) for s in found):
            return True
    return False


def _born(body: Sequence[Statement], statement: Accumulate) -> bool:
    return any(isinstance(s, TileDecl) and s.tile is statement.tile for s in body)
