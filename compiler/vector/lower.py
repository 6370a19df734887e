"""One instance's vector work as instructions: VFILL, EXEC and VDRAIN with their semaphores.

Windows of an instance lie in a ring of two places. A VFILL waits for the ``empty`` credit of its
window and posts ``full``; the first EXEC that reads the window waits for ``full``, the last one
posts the credit. Outputs are the same the other way round. Every semaphore ends at zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compiler.program import Advance, Affine, Item, Ring
from compiler.vector.capacity import fitting_plan
from compiler.vector.context import Placement, TileWindow, VectorContext, VectorLowering
from compiler.vector.emit import EXEC, VFILL, Bases, Emitter, Post, Wait, sync
from compiler.vector.graph import Node
from compiler.vector.homes import Home
from compiler.vector.operations import Operation, Output
from compiler.vector.plan import Group, Nest, Plan
from kohakuaccel.ir.nodes import Statement, Store
from kohakuaccel.source import Location

MAX_COUNT = 15  # of a wait


def lower_vector(body: Sequence[Statement], context: VectorContext) -> VectorLowering:
    """Lower one instance's statements on one vector core.

    Parameters
    ----------
    body : sequence of Statement
        Stores, sends and assignments, and repeats of them.
    context : VectorContext
        The core, the indices around the instance, and what is free; its allocators are used.

    Returns
    -------
    VectorLowering
        What runs before, in and after the loops around an instance.

    Raises
    ------
    KernelError
        If a statement is not what an instance of its grid can compute.
    CapacityError
        If one instance does not fit the core; it says what would.
    """
    return _Lowering(body, context).run()


class _Lowering:
    def __init__(self, body: Sequence[Statement], context: VectorContext) -> None:
        self._context = context
        self._plan, self._slots = fitting_plan(body, context)
        self._result = VectorLowering()
        self._bases = self._allocate(body[0].loc)
        self._resident = 0  # VFILLs of the prologue
        self._held = _tiles_held(self._plan)
        self._handshakes = Counter[int]()

    def run(self) -> VectorLowering:
        for group in self._plan.groups:
            self._prepare(group)
        result, root = self._result, self._plan.root
        mine = [tile for tile in self._tiles() if tile.tile not in self._context.held]
        held = [tile for tile in mine if tile.tile in self._held]
        readers = {
            tile.tile: [p for p in root.items if tile.tile in tiles_read(p)] for tile in held
        }
        for part in root.items:
            result.body += sync(EXEC, [(t.full, 1) for t in held if readers[t.tile][0] is part])
            result.body += self._group(part) if isinstance(part, Group) else self._nest(part)
            result.body += sync(EXEC, (), [t.credit for t in held if readers[t.tile][-1] is part])
        result.body += self._moves(root)
        result.body += [Advance(tile.ring) for tile in mine]
        return result

    # ------------------------------------------------------------- resources

    def _allocate(self, loc: Location) -> Bases:
        context, arrangement = self._context, self._plan.arrangement
        rings = {
            number: self._ring(number, arrangement.rings[number], loc)
            for number in sorted(arrangement.rings)
        }
        bases = Bases(
            rings,
            context.l1.allocate("operands of all instances", arrangement.resident, loc),
            context.l1.allocate("temporaries", arrangement.temporary, loc),
            context.registers.allocate("scalars of all instances", arrangement.permanent, loc),
            context.registers.share("temporaries", arrangement.volatile + arrangement.scratch, loc),
            arrangement.permanent,
        )
        self._report(bases)
        return bases

    def _ring(self, number: int, size: int, loc: Location) -> Ring:
        base = self._context.l1.allocate(
            f"windows of {self._slots} instances", self._slots * size, loc
        )
        return Ring(f"windows{number}", base, size, self._slots)

    def _report(self, bases: Bases) -> None:
        arrangement, place = self._plan.arrangement, self._result.placements
        for node, home in arrangement.homes.items():
            if node.op == "load":
                role = "resident" if home.region == "resident" else "in"
                place.append(self._window(node.source.buffer.name, role, home, bases, node.loc))
        for store, home in arrangement.outputs.items():
            name = store.view.buffer.name if isinstance(store, Store) else store.tile.name
            role = "out" if isinstance(store, Store) else "operand"
            place.append(self._window(name, role, home, bases, store.loc))
        if arrangement.temporary:
            size = arrangement.temporary
            place.append(Placement("temporaries", "temporary", "L1", bases.temporary, size, 1))
            self._result.notes.append(
                f"temporaries of {size} L1 words: the registers of core {self._context.node} do "
                "not hold all"
            )
        if arrangement.registers:
            size = arrangement.registers
            base = bases.volatile
            place.append(Placement("temporaries", "temporary", "registers", base, size, 1))
        if self._slots == 1 and self._context.double_buffer:
            self._result.notes.append(
                "single-buffered: two instances take "
                f"{arrangement.words(2)} of {self._context.l1.limit} L1 words"
            )

    def _window(self, name: str, role: str, home: Home, bases: Bases, loc: Location) -> Placement:
        base = bases.resident if role == "resident" else bases.rings[home.ring].base
        slots = 1 if role == "resident" else self._slots
        return Placement(name, role, "L1", base + home.offset, home.size, slots, loc)

    def _tiles(self) -> dict[TileWindow, None]:
        homes = self._plan.arrangement.homes.values()
        return dict.fromkeys(home.tile for home in homes if home.tile is not None)

    # ---------------------------------------------------------- before the loops

    def _prepare(self, group: Group) -> None:
        """Fill what is the same in all instances, and compute what depends on that alone."""
        emitter = Emitter(group.segment, self._plan.arrangement, self._bases)
        prologue = self._result.prologue
        residents = [n for n in _loads(group) if self._home(n).region == "resident"]
        if residents:
            full = self._semaphore("residents")
            posts: list[Post] = [(self._context.node, full)]
            for node in residents:
                transfer = group.layout.transfer(node.source)
                prologue.append(emitter.fill(node, transfer, [], posts))
            for first in range(0, len(residents), MAX_COUNT):
                prologue += sync(EXEC, [(full, len(residents[first : first + MAX_COUNT]))])
        for operation in group.segment.selection.prologue:
            prologue += emitter.execute(operation, [], [])

    # ------------------------------------------------------------- an instance

    def _nest(self, nest: Nest) -> list[Item]:
        items: list[Item] = []
        for part in nest.items:
            items += self._group(part) if isinstance(part, Group) else self._nest(part)
        assert nest.loop is not None
        nest.loop.body += items + self._moves(nest)
        return [nest.loop]

    def _moves(self, nest: Nest) -> list[Item]:
        ring = self._bases.rings.get(nest.number)
        return [Advance(ring)] if ring is not None else []

    def _group(self, group: Group) -> list[Item]:
        emitter = Emitter(group.segment, self._plan.arrangement, self._bases)
        events = _Events(group.segment.selection.body)
        node = self._context.node
        items: list[Item] = []
        for load in _loads(group):
            if self._home(load).region == "ring":
                empty, full = self._handshake(f"`{load.source.buffer.name}`", VFILL)
                transfer = group.layout.transfer(load.source)
                items.append(emitter.fill(load, transfer, [(empty, 1)], [(node, full)]))
                events.reads(load, full, (node, empty))
        for leaf in {n: None for n in _leaves(group) if n.op == "tile"}:
            tile = self._context.tiles[leaf.source]
            if tile.tile not in self._held | self._context.held:
                events.reads(leaf, tile.full, tile.credit)
        for i, operation in enumerate(group.segment.selection.body):
            waits, posts = events.waits[i], events.posts[i]
            if operation.store is None:
                items += emitter.execute(operation, waits, posts)
                continue
            store = operation.store
            empty, full = self._handshake(_name(store), EXEC)
            items += emitter.execute(operation, [*waits, (empty, 1)], [*posts, (node, full)])
            if isinstance(store, Store):
                transfer = group.layout.transfer(store.view)
                items.append(emitter.drain(operation, transfer, [(full, 1)], [(node, empty)]))
                continue
            landing = self._context.landings[store.operand]
            arrived, gone = [(full, 1)], [(node, empty)]
            if landing.keep is not None:  # it is waited for and told of as a whole
                keep, chunk = landing.keep, store.operand.chunk
                at = group.layout.position(chunk, keep.nk, store.loc, store.tile.name)
                terms = (*at.terms, *zip(keep.loops, keep.strides, strict=True))
                items += emitter.send(operation, landing, replace(at, terms=terms), arrived, gone)
                continue
            arrived, gone = [*arrived, (landing.empty, 1)], [*gone, landing.full]
            items += emitter.send(operation, landing, Affine(), arrived, gone)
            items.append(Advance(landing.ring))
        return items

    def _handshake(self, name: str, engine: int) -> tuple[int, int]:
        """Return the ``empty`` and ``full`` semaphores of a window that ``engine`` writes.

        The credits are posted before the loops and taken back after them.
        """
        known, result = self._context.handshakes, self._result
        # Pieces of a fused stage run one after the other on every engine, so that their windows
        # may share: what is taken first is given back first.
        key = engine, self._handshakes[engine], self._slots
        self._handshakes[engine] += 1
        if known is not None and key in known:
            return known[key]
        allocate = self._context.semaphores.allocate
        writer = "read" if engine == VFILL else "written"
        empty, full = (allocate(f"{name} {writer}, {what}") for what in ("empty", "full"))
        if known is not None:
            known[key] = empty, full
        result.prologue += sync(engine, (), [(self._context.node, empty)] * self._slots)
        result.epilogue += sync(engine, [(empty, self._slots)])
        return empty, full

    def _semaphore(self, name: str) -> int:
        """Return a semaphore that is posted and waited for before the loops."""
        known = self._context.handshakes
        if known is None:
            return self._context.semaphores.allocate(f"{name} full")
        if name not in known:
            semaphore = self._context.semaphores.allocate(f"{name} full")
            known[name] = semaphore, semaphore
        return known[name][0]

    def _home(self, node: Node) -> Home:
        return self._plan.arrangement.homes[node]


class _Events:
    """Waits and posts of each operation of a group."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.waits: list[list[Wait]] = [[] for _ in operations]
        self.posts: list[list[Post]] = [[] for _ in operations]
        self._first: dict[Node, int] = {}
        self._last: dict[Node, int] = {}
        for i, operation in enumerate(operations):
            for source in operation.pattern.operands:
                self._first.setdefault(source, i)
                self._last[source] = i

    def reads(self, node: Node, full: int, credit: Post) -> None:
        """Let the first reader of ``node`` wait for ``full`` and the last one post ``credit``."""
        self.waits[self._first[node]].append((full, 1))
        self.posts[self._last[node]].append(credit)


def _leaves(group: Group) -> list[Node]:
    selection = group.segment.selection
    operations = [*selection.prologue, *selection.body]
    return list(dict.fromkeys(s for op in operations for s in op.pattern.operands if s.leaf))


def _loads(group: Group) -> list[Node]:
    return [node for node in _leaves(group) if node.op == "load"]


def _name(store: Output) -> str:
    if isinstance(store, Store):
        return f"`{store.view.buffer.name}`"
    return f"operand {store.side} of `{store.tile.name}`"


def tiles_read(part: Group | Nest) -> set[Any]:
    """Return the tiles that a part of an instance reads."""
    if isinstance(part, Group):
        return {node.source for node in _leaves(part) if node.op == "tile"}
    return set[Any]().union(*(tiles_read(inner) for inner in part.items))


def _tiles_held(plan: Plan) -> set[Any]:
    """Return the tiles that several groups or a loop read: they are waited for and let go apart."""
    readers = Counter[Any]()
    inner = {id(group) for nest in _inner(plan.root) for group in nest.items}
    for group in plan.groups:
        readers.update(dict.fromkeys(tiles_read(group), 2 if id(group) in inner else 1))
    return {tile for tile, count in readers.items() if count > 1}


def _inner(nest: Nest) -> list[Nest]:
    nests = [part for part in nest.items if isinstance(part, Nest)]
    return [*nests, *(below for part in nests for below in _inner(part))]
