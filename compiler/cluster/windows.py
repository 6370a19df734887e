"""What a stage occupies on a cluster: L1 windows, tiles, and a pair of semaphores for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

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
from compiler.cluster.operands import Side, is_computed
from compiler.cluster.residency import Panel, decide
from compiler.passes.stage import statements
from compiler.program import Ring
from compiler.vector.context import Allocator, Placement
from kohakuaccel.ir.nodes import Repeat, Statement, Store
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Accumulate, Tile, TileDecl, tiles_of, value_of

POSTS = 2  # of one instruction


class Windows:
    """Windows, tiles and semaphores of one stage.

    Attributes
    ----------
    residency : Residency
        Which operands stream and which stay.
    streams : dict
        The semaphores of the stream on each side.
    panels : dict
        For a level, its panels and their semaphores.
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
            context.sharing,
        )
        self.placements = list(self.residency.placements)
        self.streams: dict[Side, Handshake] = {}
        self.panels: dict[int, tuple[list[Panel], Handshake]] = {}
        self.tiles: dict[Tile, TileState] = {}
        self.read_at: dict[Tile, Location] = {}
        for statement in statements(body):
            value = value_of(statement)
            for tile in tiles_of(value) if value is not None else ():
                self.read_at.setdefault(tile, statement.loc)
        self._place_streams(body)
        self._place_panels()
        self._place_tiles(body)

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

    def _place_streams(self, body: Sequence[Statement]) -> None:
        streams = self.residency.streams
        lockstep = (
            len(streams) == 2
            and not self.residency.panels
            and not self._context.landings
            and streams["A"].slots == streams["B"].slots
            and not _has_neighbours(body)
        )
        for side, ring in streams.items():
            # Where both sides are filled and freed together, the first fill waits for both places
            # and the second tells that both are full.
            full, empty = not lockstep or side == "B", not lockstep or side == "A"
            self.streams[side] = self._handshake(f"L1{side} stream", ring.slots, FILL, full, empty)

    def _place_panels(self) -> None:
        """Allocate the semaphores of panels, as far as those of other windows imply nothing.

        Fills happen in order, so the last window filled before a contraction stands for all. A
        stream, or a panel further inside, that is filled twice or more while a panel lives paces
        the panel's fills as well.
        """
        panels = list(self.residency.panels.values())
        innermost = max((panel.level for panel in panels), default=0)
        for level in sorted({panel.level for panel in panels}):
            group = [panel for panel in panels if panel.level == level]
            inside = prod(axis.count for axis in self._context.axes[level:innermost])
            alone = not self.residency.always_streams
            full = alone and level == innermost
            empty = alone and group[0].slots > 1 and inside < 2
            if self._context.landings:
                # Contractions of one instance have streams in common or none: imply nothing.
                full, empty = level == innermost, group[0].slots > 1
            name = " ".join(panel.rows.buffer.name for panel in group)
            self.panels[level] = (
                group,
                self._handshake(f"panels of {name}", group[0].slots, FILL, full, empty),
            )

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
            handshake = self._handshake(f"tile {tile.name}", slots, GEMM)
            window = context.windows.get(tile)
            if window is not None:
                self._credit(window.credit[1], window.ring.slots, DRAIN)
            self.tiles[tile] = TileState(tile, gm, gn, nk, ring, handshake, window)
            self.placements.append(
                Placement(tile.name, "tile", "accumulator", base, size, slots, tile.loc)
            )

    def _handshake(
        self, name: str, slots: int, writer: int, full: bool = True, empty: bool = True
    ) -> Handshake:
        """Allocate a window's semaphores; its writer starts with ``slots`` credits."""
        allocate = self._context.semaphores.allocate
        result = Handshake(
            allocate(f"{name} full") if full else None,
            allocate(f"{name} empty") if empty else None,
        )
        if result.empty is not None:
            self._credit(result.empty, slots, writer)
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
