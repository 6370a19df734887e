"""Where values lie: input and output windows, residents, temporaries in registers or in L1.

Temporaries are FP32 wherever they lie, so a result's bits do not depend on what fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.vector.context import StateHome, TileWindow
from compiler.vector.graph import Node
from compiler.vector.homes import Home, Pool, ShortageError, Sizes
from compiler.vector.operations import Operation, Output, Selection
from kohakuaccel.ir.nodes import Store
from kohakutpu.lang.ir import State

KINDS = {"fp16": "l1h", "fp32": "l1f"}


@dataclass(eq=False, slots=True)
class Segment:
    """A group of stores over one block, and what was selected for it.

    ``ring`` numbers the loop nest it stands in: what runs equally often shares a ring of windows.
    """

    sizes: Sizes
    selection: Selection
    dtype: Callable[[Any], str]
    tall: Callable[[Any], bool]
    tiles: Mapping[Any, TileWindow]
    states: Mapping[State, StateHome]
    ring: int = 0

    def loaded_extent(self, node: Node) -> str:
        """Return the extent of a load's L1 window."""
        return "column" if node.op == "load" and self.tall(node.source) else node.extent


@dataclass(eq=False, slots=True)
class Arrangement:
    """Every home of a stage's values on one core, and the totals.

    ``rings`` (a place of each), ``resident`` and ``temporary`` are words; ``permanent`` beats lie
    below the ``volatile`` ones of the temporaries, ``scratch`` ones for copies of L1 operands at
    their end. ``products`` is where ``a * b`` may lie while ``c`` waits, for the operations that
    are better made of two.
    """

    homes: dict[Node, Home] = field(default_factory=dict[Node, Home])
    outputs: dict[Output, Home] = field(default_factory=dict[Output, Home])
    products: dict[Operation, Home] = field(default_factory=dict[Operation, Home])
    rings: Counter[int] = field(default_factory=Counter[int])
    resident: int = 0
    temporary: int = 0
    permanent: int = 0
    volatile: int = 0
    scratch: int = 0

    @property
    def registers(self) -> int:
        """Beats in all."""
        return self.permanent + self.volatile + self.scratch

    @property
    def scratch_offset(self) -> int:
        """Beat at which the scratch starts."""
        return self.permanent + self.volatile

    def words(self, slots: int) -> int:
        """Words in all with ``slots`` places of every ring."""
        return slots * self.rings.total() + self.resident + self.temporary


def arrange(segments: Sequence[Segment], registers: int) -> Arrangement:
    """Return homes for all values of ``segments``, which run one after the other.

    Parameters
    ----------
    segments : sequence of Segment
        What the stage computes.
    registers : int
        Beats that are free.

    Raises
    ------
    ShortageError
        If scalars of rows do not fit the registers.
    """
    result = Arrangement()
    for segment in segments:
        _place_windows(segment, result)
    for segment in segments:
        _place_permanent(segment, result, registers // 2, registers)
    left = registers - result.permanent
    scratch = 0
    for segment in segments:
        if any(op.pattern.windows > 2 for op in _operations(segment)):
            # Copies for three L1 operands, if it comes to that: not all, in pieces.
            pieces = max(left // 4, -(-16 // segment.sizes.lanes))
            most = max(operation.cols for operation in _operations(segment))
            scratch = max(scratch, min(segment.sizes.register("full", most)[1], pieces))
    trial = [_place_temporaries(segment, result, left) for segment in segments]
    if _crowded(segments, result):
        if scratch > left:
            at, loc = result.permanent + scratch, segments[0].selection.body[0].loc
            raise ShortageError("copies of L1 operands", at, loc)
        trial = [_place_temporaries(segment, result, left - scratch) for segment in segments]
        _crowded(segments, result)
        result.scratch = scratch
    result.volatile = max((beats for beats, _ in trial), default=0)
    result.temporary = max((l1 for _, l1 in trial), default=0)
    return result


def _operations(segment: Segment) -> list[Operation]:
    return [*segment.selection.prologue, *segment.selection.body]


def l1_sources(operation: Operation, homes: Mapping[Node, Home]) -> list[Node]:
    """Return the sources that are L1 windows; an EXEC takes two."""
    return [node for node in operation.pattern.operands if homes[node].kind != "reg"]


def _crowded(segments: Sequence[Segment], result: Arrangement) -> bool:
    """Note the products of operations of three L1 windows; tell whether that leaves others."""
    result.products.clear()
    crowded = False
    for segment in segments:
        operations = _operations(segment)
        last = _last_uses(operations)
        for i, operation in enumerate(operations):
            if len(l1_sources(operation, result.homes)) <= 2:
                continue
            home = _product_home(operation, last, i, result)
            if home is None:
                crowded = True
            else:
                result.products[operation] = home
    return crowded


def _product_home(
    operation: Operation, last: Mapping[Node, int], i: int, result: Arrangement
) -> Home | None:
    """Return an FP32 window for ``a * b``: the destination, or that of a factor that dies."""
    if operation.pattern.f != "mac":
        return None
    a, b, c = (result.homes.get(s) if s is not None else None for s in operation.pattern.sources)
    if operation.store is not None:
        target = result.outputs[operation.store]
    else:
        target = result.homes[operation.result] if operation.result is not None else None
    if operation.state is not None:
        target = None  # it may be one of the sources
    if target is not None and target.kind != "l1h" and target != c:
        return target
    for factor, home in zip(operation.pattern.sources, (a, b), strict=False):
        if factor is None or home is None or home == c or factor.extent != operation.extent:
            continue
        if home.region == "temporary" and last[factor] == i:
            return home
    return None


def _last_uses(operations: Sequence[Operation]) -> dict[Node, int]:
    return {node: i for i, op in enumerate(operations) for node in op.pattern.operands}


def _place_windows(segment: Segment, result: Arrangement) -> None:
    """Give loads, tiles and outputs their windows; a place of the ring holds one of each."""
    homes = result.homes
    for operation in _operations(segment):
        for node in operation.pattern.operands:
            if node.op == "state":
                homes[node] = state_home(segment.states[node.source])
            if node in homes or not node.leaf:
                continue
            if node.op == "tile":
                tile = segment.tiles[node.source]
                homes[node] = Home("tile", "l1h", 0, tile.stride, 0, tile=tile)
                continue
            dtype = segment.dtype(node.source)
            stride, size = segment.sizes.l1(segment.loaded_extent(node), node.cols, dtype)
            if node.invariant:
                homes[node] = Home("resident", KINDS[dtype], result.resident, stride, size)
                result.resident += size
            else:
                homes[node] = _in_ring(segment.ring, KINDS[dtype], stride, size, result)
        if operation.store is not None:
            store = operation.store
            dtype = segment.dtype(store.view) if isinstance(store, Store) else "fp16"
            stride, size = segment.sizes.l1(operation.extent, operation.cols, dtype)
            home = _in_ring(segment.ring, KINDS[dtype], stride, size, result)
            result.outputs[operation.store] = home
            if operation.result is not None:
                homes[operation.result] = home


def state_home(home: StateHome) -> Home:
    """Return the home of a state."""
    return Home("state", home.kind, home.base, home.stride, home.size)


def _in_ring(ring: int, kind: str, stride: int, size: int, result: Arrangement) -> Home:
    home = Home("ring", kind, result.rings[ring], stride, size, ring)
    result.rings[ring] += size
    return home


def _made(operation: Operation) -> list[Node]:
    """Return the values that an operation makes and that have no window."""
    output = operation.store is not None or operation.state is not None
    kept = None if output else operation.result
    return [node for node in (kept, operation.reduced) if node is not None]


def _place_permanent(segment: Segment, result: Arrangement, budget: int, registers: int) -> None:
    for operation in segment.selection.prologue:
        for node in _made(operation):
            stride, size = segment.sizes.register(node.extent, node.cols)
            if node.extent == "channel" and result.permanent + size > budget:
                stride, size = segment.sizes.l1("channel", node.cols, "fp32")
                result.homes[node] = Home("resident", "l1f", result.resident, stride, size)
                result.resident += size
                continue
            result.homes[node] = Home("registers", "reg", result.permanent, stride, size)
            result.permanent += size
            if result.permanent > registers:
                raise ShortageError("scalars that all instances share", result.permanent, node.loc)


def _place_temporaries(segment: Segment, result: Arrangement, limit: int) -> tuple[int, int]:
    """Give what an instance makes a home in at most ``limit`` beats; return beats and words."""
    body = segment.selection.body
    base = result.permanent
    needed = Pool(None)
    rows = [_registers(segment, needed, base)]
    _scan(body, result, lambda node: node.extent in ("row", "scalar"), rows)
    if needed.peak > limit:
        loc = next(op.loc for op in body if op.reduced is not None or op.extent != "full")
        raise ShortageError("scalars of rows", base + needed.peak, loc)
    beats, l1 = Pool(limit - needed.peak), Pool(None)
    places = [_registers(segment, beats, base + needed.peak), _words(segment, l1)]
    _scan(body, result, lambda node: node.extent in ("full", "channel"), places)
    return needed.peak + beats.peak, l1.peak


@dataclass(frozen=True, slots=True)
class _Place:
    """Somewhere a temporary may lie: a pool, and the home of a node at an offset in it."""

    pool: Pool
    base: int
    region: str
    kind: str
    shape: Callable[[str, int], tuple[int, int]]

    def take(self, node: Node) -> Home | None:
        stride, size = self.shape(node.extent, node.cols)
        offset = self.pool.take(size)
        if offset is None:
            return None
        return Home(self.region, self.kind, self.base + offset, stride, size)


def _registers(segment: Segment, pool: Pool, base: int) -> _Place:
    return _Place(pool, base, "registers", "reg", segment.sizes.register)


def _words(segment: Segment, pool: Pool) -> _Place:
    sizes = segment.sizes
    return _Place(pool, 0, "temporary", "l1f", lambda extent, cols: sizes.l1(extent, cols, "fp32"))


def _scan(
    body: Sequence[Operation],
    result: Arrangement,
    mine: Callable[[Node], bool],
    places: Iterable[_Place],
) -> None:
    """Walk the operations in order and reuse what is dead.

    A destination may be the window of a source that dies, if both have the same shape; otherwise it
    lies apart from all sources, which are given back only after the operation.
    """
    last = _last_uses(body)
    owner: dict[Node, _Place] = {}
    for i, operation in enumerate(body):
        operands = dict.fromkeys(operation.pattern.operands)
        dying = [node for node in operands if last[node] == i and node in owner]
        for node in _made(operation):
            if not mine(node):
                continue
            heir = next(
                (
                    n
                    for n in dying
                    if node is operation.result
                    and n.extent == node.extent == operation.extent
                    and n.cols == node.cols
                ),
                None,
            )
            if heir is not None:
                result.homes[node] = result.homes[heir]
                owner[node] = owner.pop(heir)
                dying.remove(heir)
                continue
            for place in places:
                home = place.take(node)
                if home is not None:
                    result.homes[node], owner[node] = home, place
                    break
        for node in dying:
            place = owner.pop(node)
            place.pool.give_back(result.homes[node].offset - place.base)
