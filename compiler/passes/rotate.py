"""Let the first reduction of an instance run before the one ahead of it has ended.

Scalars of rows leave the vector pipe long after the last element of their rows, and what computes
with them waits. ``max, exp, product`` of one instance after another would wait twice an instance;
in the order ``exp, max of the next instance, product`` something else runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.program import Advance, Affine, Emit, Item, Left, Loop, Nonzero, Ring, Window
from kohakutpu import isa
from kohakutpu.config import Machine

Beats = range

SHORTEST = 3  # instances that are worth a second copy of their instructions


def rotate(items: Sequence[Item], machine: Machine) -> list[Item]:
    """Return a vector core's program with its innermost loops rotated, where that can be.

    Parameters
    ----------
    items : sequence
        Loops around instances; whatever is changed is made anew.
    machine : Machine
        The configuration.
    """
    result: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            result.append(item)
        elif any(isinstance(inner, Loop) and inner.count != 1 for inner in item.body):
            item.body = rotate(item.body, machine)
            result.append(item)
        else:
            result += _rotated(item, machine)
    return result


def _rotated(loop: Loop, machine: Machine) -> list[Item]:
    emits = [item for item in loop.body if isinstance(item, Emit)]
    moves = [item for item in loop.body if isinstance(item, Advance)]
    executed = [emit for emit in emits if emit.record is isa.EXEC]
    fills = [emit for emit in emits if emit.record is isa.VFILL]
    known = len(fills) + len(executed) + sum(emit.record is isa.VDRAIN for emit in emits)
    if loop.count < SHORTEST or known + len(moves) < len(loop.body) or not fills:
        return [loop]
    following = _following(executed, machine)
    if following is None:
        return [loop]
    head = [*fills, executed[0]]
    rings = {ring: _twin(ring) for emit in head for ring in _rings(emit)}
    if any(ring.slots < 2 for ring in rings) or not rings.keys() <= {m.ring for m in moves}:
        return [loop]
    tail = [emit for emit in emits if emit not in head]
    at = tail.index(following)
    inside = Loop(loop.name, loop.count - 1)

    def placed(emit: Emit, index: Loop | None, offset: int, own: Mapping[Ring, Ring]) -> Emit:
        def move(form: Affine) -> Affine:
            stride = sum(step for around, step in form.terms if around is loop)
            others = tuple((around, step) for around, step in form.terms if around is not loop)
            mine = ((index, stride),) if index is not None and stride else ()
            ring = own.get(form.ring, form.ring) if form.ring is not None else None
            return Affine(form.constant + offset * stride, others + mine, form.operand, ring)

        operands = {name: _moved(value, move) for name, value in emit.operands.items()}
        return Emit(emit.record, operands, emit.waits, emit.posts, emit.loc, emit.statement)

    ahead: list[Item] = [Advance(ring) for ring in rings.values()]
    inside.body = [
        *(placed(emit, inside, 1, rings) for emit in fills),
        *(placed(emit, inside, 0, {}) for emit in tail[:at]),
        placed(executed[0], inside, 1, rings),
        *(placed(emit, inside, 0, {}) for emit in tail[at:]),
        *moves,
        *ahead,
    ]
    first = [placed(emit, None, 0, rings) for emit in head]
    last = [placed(emit, None, loop.count - 1, {}) for emit in tail]
    return [*first, *ahead, inside, *last, *moves]


def _following(executed: Sequence[Emit], machine: Machine) -> Emit | None:
    """Return the EXEC that the next instance's first one may run before, ``None`` if none."""
    first = executed[0] if executed else None
    if first is None or first.operands.get("reduce", "none") == "none":
        return None
    sources = [first.operands.get(name) for name in "abc"]
    if first.operands["dst"].kind != "none" or any(
        isinstance(source, Window)
        and (source.kind in ("reg", "row") or (source.kind != "imm" and source.base.ring is None))
        for source in sources
    ):
        return None
    scalars = _beats(first.operands["red"], -(-first.operands["rows"] // machine.lanes))
    users = [n for n, emit in enumerate(executed[1:], 1) if _touches(emit, scalars, machine)]
    if scalars is None or not users or users[-1] + 1 >= len(executed):
        return None
    return executed[users[-1] + 1]


def _touches(emit: Emit, beats: Beats | None, machine: Machine) -> bool:
    """Tell whether an EXEC reads or writes registers among ``beats``, as far as one can tell."""
    operands = emit.operands
    rows, columns = operands["rows"], -(-operands["cols"] // machine.lanes)
    high = -(-rows // machine.lanes)
    found: list[Beats | None] = []
    for window in (operands.get(name) for name in ("a", "b", "c", "dst")):
        if isinstance(window, Window) and window.kind == "row":
            found.append(_beats(window.base, high))
        elif isinstance(window, Window) and window.kind == "reg":
            found.append(_beats(window.base, (rows - 1) * window.stride + columns))
    if operands.get("reduce", "none") != "none":
        found.append(_beats(operands["red"], high))
    return any(
        beats is None or other is None or (beats.start < other.stop and other.start < beats.stop)
        for other in found
    )


def _beats(base: Affine, count: int) -> Beats | None:
    """Return the registers from ``base`` on, ``None`` if they move."""
    if base.terms or base.ring is not None:
        return None
    return range(base.constant, base.constant + count)


def _twin(ring: Ring) -> Ring:
    """Return a ring over the same places that moves on by itself."""
    return Ring(f"{ring.name} ahead", ring.base, ring.size, ring.slots)


def _rings(emit: Emit) -> Iterator[Ring]:
    for value in emit.operands.values():
        form = value.base if isinstance(value, Window) else value
        if isinstance(form, Affine) and form.ring is not None:
            yield form.ring


def _moved(value: Any, move: Callable[[Affine], Affine]) -> Any:
    match value:
        case Affine():
            return move(value)
        case Left():
            return Left(value.limit, move(value.position))
        case Nonzero():
            return Nonzero(move(value.position))
        case Window():
            return replace(value, base=move(value.base))
        case _:
            return value
