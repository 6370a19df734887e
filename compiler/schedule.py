"""How long a stage takes: its programs' instructions timed, with their semaphores, without data.

Engines are in order and one engine waits for each semaphore, so times hardly depend on the order in
which they are found. A long stage is timed for a while and extrapolated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.estimate import SIZES, cost_of, port_of
from compiler.program import Emit, Item, Loop, Window
from kohakuaccel.errors import InternalError
from kohakutpu import costs, isa
from kohakutpu.config import Machine

STEPS = 3000  # instructions that are timed one by one
LATENCY = {"FILL": costs.READ, "VFILL": costs.READ, "GEMM": costs.GEMM}


@dataclass(eq=False, slots=True)
class _Engine:
    node: int
    port: int
    emits: Iterator[Emit]
    free: int = 0
    last: Emit | None = None  # EXEC
    written: tuple[int, int] = (0, 0)  # when the results of the last two EXECs are there
    head: Emit | None = None
    start: int | None = None  # of the head, once all it waits for is known


@dataclass(eq=False, slots=True)
class _State:
    posts: dict[tuple[int, int], deque[int]] = field(
        default_factory=dict[tuple[int, int], "deque[int]"]
    )
    ports: dict[tuple[int, int | None], int] = field(
        default_factory=dict[tuple[int, "int | None"], int]
    )  # by engine: one reads, another writes
    cost: dict[Emit, tuple[int, int, int]] = field(default_factory=dict[Emit, tuple[int, int, int]])


def stage_cycles(items: Mapping[int, Sequence[Item]], machine: Machine) -> int:
    """Return the cycles from the first instruction of a stage to its last one's effect.

    Raises
    ------
    InternalError
        If two engines wait for one semaphore: who gets a post would be a matter of luck.
    """
    for node, body in items.items():
        _check_waits(node, body)
    state = _State()
    engines = [
        _Engine(node, port_of(node, machine), _walk(part))
        for node, body in items.items()
        for part in _by_engine(body)
    ]
    total = sum(_count(body) for body in items.values())
    for engine in engines:
        _next(engine, state)
    done = end = 0
    while done < STEPS:
        ready = [engine for engine in engines if engine.start is not None]
        if not ready:
            break
        engine = min(ready, key=lambda one: one.start or 0)
        end = max(end, _run(engine, state, machine))
        done += 1
        for other in engines:
            if other.start is None and other.head is not None:
                _try(other, state)
    return end if done == total or not done else end * total // done


def _check_waits(node: int, body: Sequence[Item]) -> None:
    engines: dict[int, int] = {}
    for emit in _emits(body):
        for semaphore, _ in emit.waits:
            if engines.setdefault(semaphore, _engine(emit)) != _engine(emit):
                raise InternalError(f"two engines of unit {node} wait for semaphore {semaphore}")


def _by_engine(body: Sequence[Item]) -> list[list[Item]]:
    """Return what each engine executes, loops kept."""
    found: dict[int, None] = {}
    for emit in _emits(body):
        found[_engine(emit)] = None
    return [_only(body, number) for number in found]


def _engine(emit: Emit) -> int:
    if emit.record is isa.SYNC:
        return int(emit.operands["engine"])
    return -1 if emit.record.engine is None else emit.record.engine


def _emits(body: Sequence[Item]) -> Iterator[Emit]:
    for item in body:
        if isinstance(item, Loop):
            yield from _emits(item.body)
        elif isinstance(item, Emit):
            yield item


def _only(body: Sequence[Item], engine: int) -> list[Item]:
    result: list[Item] = []
    for item in body:
        if isinstance(item, Loop):
            inner = _only(item.body, engine)
            if inner and item.count:
                result.append(Loop(item.name, item.count, inner))
        elif isinstance(item, Emit) and _engine(item) == engine:
            result.append(item)
    return result


def _walk(body: Sequence[Item]) -> Iterator[Emit]:
    for item in body:
        if isinstance(item, Loop):
            for _ in range(item.count):
                yield from _walk(item.body)
        elif isinstance(item, Emit):
            yield item


def _count(body: Sequence[Item]) -> int:
    return sum(
        item.count * _count(item.body) if isinstance(item, Loop) else isinstance(item, Emit)
        for item in body
    )


def _next(engine: _Engine, state: _State) -> None:
    engine.head, engine.start = next(engine.emits, None), None
    if engine.head is not None:
        _try(engine, state)


def _try(engine: _Engine, state: _State) -> None:
    """Find when the head of an engine starts, if everything it waits for has been posted."""
    assert engine.head is not None
    start = engine.free
    for semaphore, count in engine.head.waits:
        posts = state.posts.get((engine.node, semaphore), ())
        if len(posts) < count:
            return
        start = max(start, posts[count - 1])
    engine.start = start


def _run(engine: _Engine, state: _State, machine: Machine) -> int:
    """Execute the head of an engine and return when its effect has arrived."""
    emit = engine.head
    assert emit is not None
    assert engine.start is not None
    for semaphore, count in emit.waits:
        for _ in range(count):
            state.posts[engine.node, semaphore].popleft()
    if emit not in state.cost:
        state.cost[emit] = _cost(emit, machine)
    cycles, port, latency = state.cost[emit]
    start = engine.start
    if emit.record is isa.EXEC:
        before, last = engine.written
        follows = engine.last is not None and _follows(engine.last, emit, machine)
        start = max(start, last if follows else before)
        engine.last, engine.written = emit, (last, max(last, start + cycles + latency))
    if port:
        way = engine.port, emit.record.engine
        start = max(start, state.ports.get(way, 0))
        state.ports[way] = start + port
    engine.free = start + cycles
    arrived = engine.free + latency
    for node, semaphore in emit.posts:
        late = 0 if node == engine.node else costs.POST
        state.posts.setdefault((node, semaphore), deque()).append(arrived + late)
    _next(engine, state)
    return arrived


def _cost(emit: Emit, machine: Machine) -> tuple[int, int, int]:
    """Return an instruction's cycles, its cycles at the memory port, and its latency."""
    if emit.record.engine is None or emit.record is isa.SYNC:
        return 1, 0, 0
    cycles, words, where = cost_of(emit, machine)
    port = round(words) if where in ("read", "written") else 0
    latency = LATENCY.get(emit.record.name)
    if emit.record is isa.EXEC:
        latency = costs.executed(emit.operands.get("reduce", "none") != "none")
    elif latency is None:
        latency = costs.WRITE if emit.operands.get("to", "memory") == "memory" else costs.TRANSFER
    if emit.record in isa.records("C"):
        latency = costs.latency(machine, latency)
    return round(cycles), port, latency


def _follows(last: Emit, emit: Emit, machine: Machine) -> bool:
    """Tell whether an EXEC reads what the last one writes, as far as their places tell."""
    written = _hulls(last, ("dst",), machine)
    if last.operands.get("reduce", "none") != "none":
        beats = -(-last.operands["rows"] // machine.lanes)
        start = last.operands["red"].constant
        written.append((False, start, start + beats))
    return any(
        in_l1 == other and start < end and begin < stop
        for in_l1, start, stop in _hulls(emit, ("a", "b", "c"), machine)
        for other, begin, end in written
    )


def _hulls(emit: Emit, names: Sequence[str], machine: Machine) -> list[tuple[bool, int, int]]:
    """Return for each window whether it is in L1, where it begins and where it ends."""
    found: list[tuple[bool, int, int]] = []
    rows, cols = emit.operands["rows"], emit.operands["cols"]
    for window in (emit.operands.get(name) for name in names):
        if not isinstance(window, Window) or window.kind in ("none", "imm"):
            continue
        base = window.base
        start = base.constant + (base.ring.base if base.ring is not None else 0)
        if window.kind == "row":
            length = -(-rows // machine.lanes)
        else:
            size = SIZES.get(window.kind)
            span = costs.words(cols, size) if size else -(-cols // machine.lanes)
            length = (rows - 1) * window.stride + span
        found.append((window.kind in SIZES, start, start + length))
    return found
