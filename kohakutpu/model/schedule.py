"""What both schedulers share: faults, barrier, deadlock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from kohakutpu.model import frontend
from kohakutpu.model.faults import Deadlock, Fault, Violation
from kohakutpu.model.unit import Unit

HALTED = "halted"
ARRIVED = "arrived"  # at the barrier, and waits for the other units


def fail(unit: Unit, pc: int, violation: Violation) -> NoReturn:
    """Stop the machine with the fault that a violation is."""
    raise Fault(unit.node, pc, violation.cause, violation.message, violation.numbers) from violation


def advance(unit: Unit, budget: int, now: int | None) -> str:
    """Let a front end work; see `frontend.advance`.

    Raises
    ------
    Fault
        If it breaks a rule.
    """
    try:
        return frontend.advance(unit, budget, now)
    except Violation as violation:
        fail(unit, unit.pc, violation)


def deliver(network: dict[int, Unit], sender: Unit, pc: int, post: tuple[int, int]) -> Unit:
    """Deliver a post and return the unit that has it now.

    Raises
    ------
    Fault
        ``SEM_OVERFLOW``.
    """
    receiver = network[post[0]]
    try:
        receiver.post(post[1])
    except Violation as violation:
        fail(sender, pc, violation)
    return receiver


def check_end(units: Iterable[Unit]) -> None:
    """Check, when every unit has halted, that no post has come to one that halted or never ran.

    Raises
    ------
    Fault
        ``SEM_LEFT``.
    """
    for unit in units:
        try:
            unit.check_semaphores()
        except Violation as violation:
            fail(unit, unit.pc, violation)


def deadlock(units: Sequence[Unit]) -> Deadlock:
    """Describe who waits for what, when nobody can proceed."""
    lines: list[str] = []
    first: tuple[int, int] | None = None
    for unit in units:
        for engine in unit.engines:
            if engine.queue:
                operation, _, _, pc = engine.queue[0]
                lines.append(_line(unit, engine.name, pc, _unmet(unit, operation.waits)))
                first = first or (unit.node, pc)
        if unit.front != HALTED:
            lines.append(_line(unit, "front end", unit.pc, _reason(unit)))
            first = first or (unit.node, unit.pc)
    assert first is not None, "everything has halted"
    return Deadlock(*first, tuple(lines))


def _line(unit: Unit, who: str, pc: int, what: str) -> str:
    return f"unit {unit.node} {who} at instruction {pc}: {what}"


def _unmet(unit: Unit, waits: tuple[tuple[int, int], ...]) -> str:
    return " and ".join(
        f"waits for semaphore {semaphore} to hold {count}, it holds {unit.semaphores[semaphore]}"
        for semaphore, count in waits
        if unit.semaphores[semaphore] < count
    )


def _reason(unit: Unit) -> str:
    if unit.front == frontend.FULL:
        return f"the queue of {unit.engines[unit.wants].name} is full"
    if unit.front == frontend.WAIT:
        return _unmet(unit, unit.steps[unit.pc][1])
    if unit.front == ARRIVED:
        return "waits at the barrier for the other units"
    return f"waits at its {unit.front} until its engines are idle"
