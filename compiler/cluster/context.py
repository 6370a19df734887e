"""What the lowering of a contraction stage on one cluster works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.cluster.multicast import Multicast, Ports
from compiler.cluster.operands import Axis, is_computed
from compiler.cluster.orders import Handshake, Order
from compiler.cluster.residency import Residency
from compiler.passes.scope import Scope
from compiler.passes.stage import statements
from compiler.program import Emit, Item, Ring
from compiler.vector.context import Allocator, Landing, Operand, Placement, TileWindow
from kohakuaccel.ir.nodes import Buffer, Statement, Store
from kohakuaccel.source import Location
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.lang.ir import Accumulate, Computed, Side, Tile

Pairs = tuple[tuple[int, int], ...]

FILL, GEMM, DRAIN = range(3)  # queues
SLOTS = 2  # waits, and posts, of one instruction


@dataclass(eq=False, slots=True)
class ClusterContext:
    """What the lowering depends on.

    Parameters
    ----------
    machine : Machine
        The configuration.
    node, mate : int
        The cluster, and the vector core that takes its tiles.
    scope : Scope
        Numbers, and the indices around an instance.
    axes : sequence of Axis
        The loops around an instance, outermost first: batch, then grid.
    operands : mapping
        Every buffer the stage touches.
    windows : mapping
        Where tiles that the vector core computes with land in its L1.
    semaphores : Allocator
        What is left of the cluster's.
    landings : mapping
        Where computed operands land.
    l1 : mapping
        What is left of L1A and L1B.
    ports : Ports
        How clusters load the memory ports.
    group : Multicast
        The clusters that want the same at the same time.
    split : int
        The axis that they share out among them; `None` if each fills all that it wants.
    places : int
        How many places a tile may have in the accumulator.
    twins : mapping
        For a tile, the first one whose places it shares.
    """

    machine: Machine
    node: int
    mate: int
    scope: Scope
    axes: Sequence[Axis]
    operands: Mapping[Buffer, Operand]
    windows: Mapping[Tile, TileWindow]
    semaphores: Allocator
    landings: Mapping[Computed, Landing]
    l1: Mapping[Side, Allocator]
    ports: Ports
    group: Multicast
    split: int | None = None
    places: int = 2
    twins: Mapping[Tile, Tile] = field(default_factory=dict[Tile, Tile])


@dataclass(eq=False, slots=True)
class ClusterLowering:
    """The cluster's program for a stage and what it occupies."""

    body: list[Item]
    residency: Residency
    placements: list[Placement]
    orders: list[Order]


@dataclass(eq=False, slots=True)
class TileState:
    """An accumulator tile while its body is lowered."""

    tile: Tile
    gm: int
    gn: int
    nk: int
    ring: Ring
    sync: Handshake
    window: TileWindow | None
    started: bool = False  # whether something has been added
    depth: int = 0  # loops of the instance that were open at its birth


@dataclass(eq=False, slots=True)
class Gemm:
    """A contraction to emit, with the terms of its operands that it multiplies."""

    statement: Accumulate
    modes: tuple[str, str]

    def mode(self, side: Side) -> str:
        """Return which term of an operand is meant."""
        return self.modes[0 if side == "A" else 1]


Step = Gemm | list[Item] | None
"""What a body becomes on the way: contractions, items, and ``None`` where a loop used the rings."""


def wait_all(queue: int, semaphores: Iterable[int | None]) -> list[Item]:
    """Let an engine wait for several semaphores, those there are."""
    return [item for semaphore in semaphores for item in wait(queue, semaphore)]


def post_all(queue: int, posts: Iterable[tuple[int, int | None]]) -> list[Item]:
    """Let an engine post semaphores of several nodes, those there are."""
    return [item for node, semaphore in posts for item in post(queue, node, semaphore)]


def spread(item: Emit) -> list[Item]:
    """Return an instruction with ``SYNC`` around it for what it has no room for."""
    assert item.record.engine is not None
    queue, waits, posts = item.record.engine, item.waits, item.posts
    item.waits, item.posts = waits[:SLOTS], posts[:SLOTS]
    before = [sync(queue, (pair,)) for pair in waits[SLOTS:]]
    return [*before, item, *(sync(queue, (), (pair,)) for pair in posts[SLOTS:])]


def sync(queue: int, waits: Pairs = (), posts: Pairs = ()) -> Emit:
    """Return a ``SYNC``."""
    return Emit(isa.SYNC, {"engine": queue}, waits, posts)


def wait(queue: int, semaphore: int | None) -> list[Item]:
    """Let an engine wait for a semaphore, if there is one."""
    return [sync(queue, waits=((semaphore, 1),))] if semaphore is not None else []


def post(queue: int, node: int, semaphore: int | None) -> list[Item]:
    """Let an engine post a semaphore of ``node``, if there is one."""
    return [sync(queue, posts=((node, semaphore),))] if semaphore is not None else []


def emit(
    record: isa.Record,
    operands: dict[str, Any],
    loc: Location,
    waits: Sequence[tuple[int, int]] = (),
    posts: Sequence[tuple[int, int]] = (),
) -> Emit:
    """Return an instruction that comes from the line at ``loc``."""
    return Emit(record, operands, tuple(waits), tuple(posts), loc, loc.text.strip())


def feeds(statement: Statement, tile: Tile) -> bool:
    """Tell whether a statement adds to ``tile``."""
    return any(isinstance(s, Accumulate) and s.tile is tile for s in statements([statement]))


def feeds_again(statement: Statement, tile: Tile) -> bool:
    """Tell whether a statement adds to ``tile`` what the further sweeps of precision repeat."""
    return any(
        isinstance(s, Accumulate) and s.tile is tile and not is_computed(s)
        for s in statements([statement])
    )


def stores(statement: Statement, tile: Tile) -> bool:
    """Tell whether a statement stores ``tile`` as it is."""
    return any(isinstance(s, Store) and s.value.tile is tile for s in statements([statement]))


def first(body: Sequence[Statement], tile: Tile, does: Callable[[Statement, Tile], bool]) -> int:
    """Return the index of the first statement that does something to ``tile``, -1 if none."""
    return next((index for index, s in enumerate(body) if does(s, tile)), -1)


def last(body: Sequence[Statement], tile: Tile, does: Callable[[Statement, Tile], bool]) -> int:
    """Return the index of the last statement that does something to ``tile``, -1 if none."""
    return max((index for index, s in enumerate(body) if does(s, tile)), default=-1)
