"""Make a unit's tree smaller without changing what its engines do.

Loops that never run vanish, loops that run once become their body, loops with nothing in them go.
Affine terms that name such a loop stay: its index is 0 and the roll pass drops them.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.program import Advance, Emit, Item, Loop
from kohakutpu import isa

SLOTS = 2  # waits, and posts, of one instruction
WAIT_COUNT_MAX = 15


def simplify(body: Sequence[Item]) -> list[Item]:
    """Return the smaller tree; the loops of ``body`` are taken over and changed."""
    result: list[Item] = []
    for item in body:
        if not isinstance(item, Loop):
            result.append(item)
            continue
        if item.count == 0:
            continue
        item.body = inner = simplify(item.body)
        if item.count == 1:
            result.extend(inner)
        elif all(isinstance(part, Advance) for part in inner):
            result.extend(inner * item.count)
        else:
            result.append(item)
    return result


def merge_syncs(body: Sequence[Item]) -> list[Item]:
    """Let neighbours in an engine's queue do the waits and posts of a ``SYNC``.

    In one straight line, a ``SYNC`` that only waits joins the next instruction of its engine, and
    one that only posts joins the one before, as far as that has room. Each semaphore has one
    engine that waits for it, so waiting for two at once instead of in turn changes nothing.
    Loops of ``body`` are taken over and changed.
    """
    result: list[Item] = []
    last: dict[int, int] = {}  # engine: where in the result its last instruction is
    for item in body:
        if isinstance(item, Loop):
            item.body = merge_syncs(item.body)
            last.clear()
        elif isinstance(item, Emit):
            engine = _engine(item)
            if engine is None:
                last.clear()  # a barrier
            else:
                place = last.get(engine)
                before = result[place] if place is not None else None
                if isinstance(before, Emit) and place is not None:
                    if _is_sync(item) and not item.waits and _fits(before, item):
                        result[place] = _joined(before, before, item)
                        continue
                    if _is_sync(before) and not before.posts and _fits(before, item):
                        item = _joined(item, before, item)
                        result[place] = Loop("", 0)  # keeps the other places where they are
                last[engine] = len(result)
        result.append(item)
    return [item for item in result if not (isinstance(item, Loop) and item.count == 0)]


def _is_sync(emit: Emit) -> bool:
    return emit.record is isa.SYNC


def _engine(emit: Emit) -> int | None:
    return emit.operands["engine"] if _is_sync(emit) else emit.record.engine


def _waits(first: Emit, second: Emit) -> dict[int, int]:
    counts: dict[int, int] = {}
    for semaphore, count in first.waits + second.waits:
        counts[semaphore] = counts.get(semaphore, 0) + count
    return counts


def _fits(first: Emit, second: Emit) -> bool:
    waits = _waits(first, second)
    return (
        len(waits) <= SLOTS
        and all(count <= WAIT_COUNT_MAX for count in waits.values())
        and len(first.posts) + len(second.posts) <= SLOTS
    )


def _joined(base: Emit, first: Emit, second: Emit) -> Emit:
    waits = tuple(_waits(first, second).items())
    return Emit(
        base.record, base.operands, waits, first.posts + second.posts, base.loc, base.statement
    )
