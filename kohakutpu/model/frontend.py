"""A unit's front end: control instructions, and engine instructions into their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohakutpu.model.faults import Violation
from kohakutpu.model.operation import ADDRESS_MASK
from kohakutpu.model.program import ADDA, BAD, BARRIER, END, ENGINE, HALT, LOOP, SETA, SYNCED

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit

# Why `advance` came back.
BUDGET = "budget"  # it took as many instructions as it was allowed
FULL = "queue"  # the queue it wants is full
LATER = "later"  # its clock is ahead, and what comes next looks at semaphores
WAIT = "semaphore"  # a wait does not hold
POSTED = "posts"  # `outbox` holds posts to deliver
AT_BARRIER = "barrier"  # waits are done; engines must become idle
AT_HALT = "halt"  # the same


def advance(unit: Unit, budget: int, now: int | None) -> str:
    """Take up to `budget` instructions and return why it stopped.

    The front end has a clock of its own, ``unit.time``, which may run ahead of the others: only
    queues and semaphores tell the difference. `now` is the time of the others, None if there
    is no time.
    """
    steps, a, loops, queues = unit.steps, unit.a, unit.loops, unit.queues
    depth = unit.machine.queue_depth
    start = time = unit.time
    limit = time + budget
    pc = unit.pc
    reason = BUDGET
    posts: tuple[tuple[int, int], ...] = ()
    # What steps are made of; see `program`.
    code: int
    index: int
    rd: int
    rs: int
    imm: int
    modulo: int
    target: int
    again: int
    while time < limit:
        here = pc
        step = steps[pc]
        code = step[0]
        if code == ENGINE:
            _, index, operation, resolve = step
            queue = queues[index]
            if len(queue) >= depth:
                reason = FULL
                unit.wants = index
                break
            queue.append((operation, resolve(a), time, pc))
            pc += 1
            time += 1
            continue
        if code == SYNCED:
            if now is not None and time > now:
                reason = LATER
                break
            _, waits, posts, step = step
            if not take(unit.semaphores, waits):
                posts = ()
                reason = WAIT
                break
            code = step[0]
        if code == ADDA:
            _, rd, rs, imm, modulo = step
            value = (a[rs] + imm) & ADDRESS_MASK
            if modulo and value >= modulo:
                value -= modulo
            a[rd] = value
            pc += 1
        elif code == END:
            _, target, again = step
            if loops[-1] > 1:
                loops[-1] -= 1
                pc = target
                unit.fetched += again
            else:
                loops.pop()
                pc += 1
        elif code == SETA:
            _, rd, imm = step
            a[rd] = imm
            pc += 1
        elif code == LOOP:
            _, rs, imm, target = step
            count = (a[rs] + imm) & ADDRESS_MASK
            if count:
                loops.append(count)
                pc += 1
            else:
                pc = target
        else:
            unit.pc = pc
            unit.time = time
            unit.instructions += time - start
            if code == BAD:
                _, cause, message, numbers = step
                raise Violation(cause, message, **numbers)
            assert code in (BARRIER, HALT)
            unit.outbox = posts
            unit.outbox_pc = pc
            return AT_BARRIER if code == BARRIER else AT_HALT
        time += 1
        if posts:
            unit.outbox = posts
            unit.outbox_pc = here
            reason = POSTED
            break
    unit.pc = pc
    unit.time = time
    unit.instructions += time - start
    return reason


def take(semaphores: list[int], waits: tuple[tuple[int, int], ...]) -> bool:
    """Subtract all of `waits` at once if all hold, and tell whether they did."""
    for semaphore, count in waits:
        if semaphores[semaphore] < count:
            return False
    for semaphore, count in waits:
        semaphores[semaphore] -= count
    return True
