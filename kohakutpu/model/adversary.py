"""The hostile scheduler: whoever can take a step may be the next to take it.

The units' front ends, their engines, and the posts on their way are *agents*. A seed fixes an
order of preference among them, which changes every now and then: an agent at its end is starved
until nobody else can move. An engine may start its next instruction while the posts of the last
one are still on their way. A program whose semaphores are right computes the same bits under any
seed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from kohakutpu.model.faults import Violation
from kohakutpu.model.frontend import AT_BARRIER, AT_HALT, BUDGET, POSTED, take
from kohakutpu.model.schedule import (
    ARRIVED,
    HALTED,
    advance,
    check_end,
    deadlock,
    deliver,
    fail,
)
from kohakutpu.model.unit import Engine, Unit

# How often the order of preference changes: always (plain chance), now and then, hardly ever
# (one engine runs as far as it can before another moves).
FICKLENESS = (1.0, 0.2, 0.03, 0.004)

Mail = tuple[int, tuple[int, int]]  # the pc that posts, and the post


class Adversary:
    """One run.

    Parameters
    ----------
    units : sequence of Unit
        Those that have a program.
    network : dict of int to Unit
        All units.
    seed : int
        What it does depends on this and on nothing else.
    limit : int
        Instructions that a front end may take.
    """

    def __init__(
        self, units: Sequence[Unit], network: dict[int, Unit], *, seed: int, limit: int
    ) -> None:
        self.units = units
        self.network = network
        self._limit = limit
        self._random = random.Random(seed)
        self._fickleness = FICKLENESS[seed % len(FICKLENESS)]
        self._agents: list[Callable[[], bool]] = []
        for unit in units:
            self._agents.append(partial(self._front, unit))
            for engine in unit.engines:
                mail: deque[Mail] = deque()
                self._agents.append(partial(self._engine, engine, mail))
                self._agents.append(partial(self._mail, unit, mail))

    def run(self) -> int:
        """Run to the end; there is no time, so the cycles are 0.

        Raises
        ------
        Fault
            The first one.
        """
        for unit in self.units:
            unit.front = BUDGET
        agents, chance = self._agents, self._random
        while True:
            if chance.random() < self._fickleness:
                chance.shuffle(agents)
            if not any(agent() for agent in agents):
                break
        if any(unit.front != HALTED for unit in self.units):
            raise deadlock(self.units)
        check_end(self.network.values())
        return 0

    def _front(self, unit: Unit) -> bool:
        """Take one instruction."""
        if unit.front in (HALTED, ARRIVED):
            return False
        if unit.front in (AT_BARRIER, AT_HALT):
            return self._settle(unit)
        before = unit.instructions
        unit.front = advance(unit, 1, None)
        if unit.instructions > self._limit:
            violation = Violation(
                "WATCHDOG",
                f"it took more than {self._limit} instructions",
                instructions=unit.instructions,
                limit=self._limit,
            )
            fail(unit, unit.pc, violation)
        if unit.front == POSTED:
            self._post(unit)
        return unit.instructions != before or unit.front in (AT_BARRIER, AT_HALT)

    def _settle(self, unit: Unit) -> bool:
        if not unit.idle:
            return False
        if unit.front == AT_HALT:
            try:
                unit.check_semaphores()
            except Violation as violation:
                fail(unit, unit.pc, violation)
            unit.front = HALTED
            unit.instructions += 1
            self._post(unit)
            return True
        unit.front = ARRIVED
        if all(other.front == ARRIVED for other in self.units):
            for other in self.units:
                other.front = BUDGET
                other.pc += 1
                other.instructions += 1
                self._post(other)
        return True

    def _post(self, unit: Unit) -> None:
        for post in unit.outbox:
            deliver(self.network, unit, unit.outbox_pc, post)
        unit.outbox = ()

    def _engine(self, engine: Engine, mail: deque[Mail]) -> bool:
        """Do the instruction at the head of the queue."""
        if not engine.queue:
            return False
        operation, args, _, pc = engine.queue[0]
        unit = engine.unit
        if operation.waits and not take(unit.semaphores, operation.waits):
            return False
        engine.queue.popleft()
        try:
            operation.run(unit, args)
        except Violation as violation:
            fail(unit, pc, violation)
        engine.instructions += 1
        for post in operation.posts:
            unit.transit += 1
            mail.append((pc, post))
        return True

    def _mail(self, unit: Unit, mail: deque[Mail]) -> bool:
        """Deliver the oldest post that an engine has sent."""
        if not mail:
            return False
        pc, post = mail.popleft()
        unit.transit -= 1
        deliver(self.network, unit, pc, post)
        return True
