"""A unit's front end: control instructions, and engine instructions into their queues."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

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
    steps: tuple[tuple[Any, ...], ...] = unit.steps
    a = unit.a
    loops = unit.loops
    queues: tuple[deque[Any], ...] = unit.queues
    depth = unit.machine.queue_depth
    start = time = unit.time
    limit = time + budget
    pc = unit.pc
    reason = BUDGET
    posts = ()
    while time < limit:
        here = pc
        step = steps[pc]
        code = step[0]
        if code == ENGINE:
            queue = queues[step[1]]
            if len(queue) >= depth:
                reason = FULL
                unit.wants = step[1]
                break
            queue.append((step[2], step[3](a), time, pc))
            pc += 1
            time += 1
            continue
        if code == SYNCED:
            if now is not None and time > now:
                reason = LATER
                break
            if not take(unit.semaphores, step[1]):
                reason = WAIT
                break
            posts = step[2]
            step = step[3]
            code = step[0]
        if code == ADDA:
            value = (a[step[2]] + step[3]) & ADDRESS_MASK
            if step[4] and value >= step[4]:
                value -= step[4]
            a[step[1]] = value
            pc += 1
        elif code == END:
            if loops[-1] > 1:
                loops[-1] -= 1
                pc = step[1]
                unit.fetched += step[2]
            else:
                loops.pop()
                pc += 1
        elif code == SETA:
            a[step[1]] = step[2]
            pc += 1
        elif code == LOOP:
            count = (a[step[1]] + step[2]) & ADDRESS_MASK
            if count:
                loops.append(count)
                pc += 1
            else:
                pc = step[3]
        else:
            unit.pc = pc
            unit.time = time
            unit.instructions += time - start
            if code == BAD:
                raise Violation(step[1], step[2], **step[3])
            unit.outbox = posts
            unit.outbox_pc = pc
            assert code in (BARRIER, HALT)
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
