"""The default scheduler: an event-driven simulation with the cycles of `kohakutpu.costs`.

An instruction has its effect at the time it starts, and its posts are delivered when it has
finished; so effects follow each other in the order of time. Everything is deterministic.

The memory ports are servers with a queue: a unit uses the port nearest to it (fewest hops, then
lowest id), and a port moves one word a cycle in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from kohakutpu import costs
from kohakutpu.model.faults import Violation
from kohakutpu.model.frontend import AT_BARRIER, AT_HALT, BUDGET, FULL, LATER, POSTED, WAIT, take
from kohakutpu.model.report import Span
from kohakutpu.model.schedule import (
    ARRIVED,
    HALTED,
    advance,
    check_end,
    deadlock,
    deliver,
    fail,
)
from kohakutpu.model.unit import IDLE, LATER_ON, Engine, Unit

STRETCH = 4096  # control instructions that a front end takes before others get a look in

FREE, POST, START, FRONT, RELEASE = range(5)  # events


class Timing:
    """One run.

    Parameters
    ----------
    units : sequence of Unit
        Those that have a program.
    network : dict of int to Unit
        All units.
    timeline : bool
        Keep a `Span` for each engine instruction.
    """

    def __init__(
        self, units: Sequence[Unit], network: dict[int, Unit], *, timeline: bool, limit: int
    ) -> None:
        self.units = units
        self.network = network
        self.timeline: list[Span] = []
        self._record = timeline
        self._limit = limit
        self._events: list[tuple[int, int, int, Any, Any]] = []
        self._sequence = 0
        self._ports: dict[tuple[int, int], int] = {}  # by engine: one reads, another writes
        self._cycles = 0

    def run(self) -> int:
        """Run to the end and return the cycle in which the last unit reported.

        Raises
        ------
        Fault
            The first one.
        """
        for unit in self.units:
            unit.time = costs.LAUNCH
            unit.front = BUDGET
            self._push(unit.time, FRONT, unit)
        events, network = self._events, self.network
        while events:
            now, _, event, subject, detail = heappop(events)
            if event == FREE:
                subject.running = IDLE
                unit = subject.unit
                unit.transit -= 1
                self._start(subject, now)
                if unit.front in (AT_BARRIER, AT_HALT):
                    self._settle(unit, now)
            elif event == POST:
                unit, pc = subject
                unit.transit -= 1
                self._wake(deliver(network, unit, pc, detail), now)
                if unit.front in (AT_BARRIER, AT_HALT):
                    self._settle(unit, now)
            elif event == START:
                subject.running = IDLE
                self._start(subject, now)
            elif event == FRONT:
                self._front(subject, now)
            else:
                self._release(now)
        if any(unit.front != HALTED for unit in self.units):
            raise deadlock(self.units)
        check_end(self.network.values())
        return self._cycles

    def _push(self, time: int, event: int, subject: Any, detail: Any = None) -> None:
        self._sequence += 1
        heappush(self._events, (time, self._sequence, event, subject, detail))

    def _start(self, engine: Engine, now: int) -> None:
        """Start the head of the queue if it can start."""
        queue = engine.queue
        if engine.running != IDLE or not queue:
            return
        operation, args, ready, pc = queue[0]
        if ready > now:
            engine.running = LATER_ON
            self._push(ready, START, engine)
            return
        unit = engine.unit
        if operation.waits and not take(unit.semaphores, operation.waits):
            engine.blocked = True
            return
        engine.blocked = False
        engine.running = pc
        queue.popleft()
        try:
            cycles, port = operation.run(unit, args)
        except Violation as violation:
            fail(unit, pc, violation)
        begin = now
        if operation.name == "EXEC":
            before, last = engine.written
            begin = max(now, last if unit.follows else before)
            engine.written = last, max(last, begin + cycles + operation.latency)
        if port:
            way = unit.port, engine.index
            begin = max(now, self._ports.get(way, 0))
            self._ports[way] = begin + port
        end = begin + cycles
        engine.instructions += 1
        engine.busy += cycles
        engine.stalled += begin - max(engine.free, ready)
        engine.free = end
        unit.transit += 1
        self._push(end, FREE, engine)
        if self._record:
            self.timeline.append(Span(unit.node, engine.name, pc, operation.name, begin, end))
        end += operation.latency
        if end > unit.settled:
            unit.settled = end
        if operation.posts:
            self._post(unit, pc, operation.posts, end)
        if unit.front == FULL and unit.wants == engine.index:
            self._front(unit, now)

    def _post(
        self, unit: Unit, pc: int, posts: tuple[tuple[int, int], ...], done: int
    ) -> None:  # fmt: skip
        """Deliver posts at `done`, those to other nodes a little later."""
        for post in posts:
            time = done if post[0] == unit.node else done + costs.POST
            unit.transit += 1
            unit.settled = max(unit.settled, time)
            self._push(time, POST, (unit, pc), post)

    def _wake(self, unit: Unit, now: int) -> None:
        """Try again whoever of the unit waits for a semaphore."""
        for engine in unit.engines:
            if engine.blocked:
                self._start(engine, now)
        if unit.front == WAIT:
            self._front(unit, now)

    def _front(self, unit: Unit, now: int) -> None:
        """Let the front end work until it has to wait, then start the engines it gave work."""
        unit.time = max(unit.time, now)
        while True:
            unit.front = reason = advance(unit, STRETCH, now)
            if reason == POSTED:
                self._post(unit, unit.outbox_pc, unit.outbox, unit.time)
            elif reason != BUDGET:
                break
            if unit.instructions > self._limit:
                self._exhausted(unit)
        for engine in unit.engines:
            if engine.running == IDLE and engine.queue and not engine.blocked:
                self._start(engine, now)
        if unit.front == LATER:
            self._push(unit.time, FRONT, unit)
        elif unit.front in (AT_BARRIER, AT_HALT):
            self._settle(unit, now)

    def _settle(self, unit: Unit, now: int) -> None:
        """Arrive at the barrier or halt, if the engines are idle."""
        if not unit.idle:
            return
        unit.time = unit.settled = max(unit.time, unit.settled, now)
        if unit.front == AT_HALT:
            try:
                unit.check_semaphores()
            except Violation as violation:
                fail(unit, unit.pc, violation)
            unit.front = HALTED
            unit.instructions += 1
            self._cycles = max(self._cycles, unit.time)
            if unit.outbox:
                self._post(unit, unit.outbox_pc, unit.outbox, unit.time)
            return
        unit.front = ARRIVED
        if all(other.front == ARRIVED for other in self.units):
            last = max(other.time for other in self.units)
            self._push(last + costs.BARRIER, RELEASE, None)

    def _release(self, now: int) -> None:
        for unit in self.units:
            unit.time = now
            unit.instructions += 1
            unit.pc += 1
            unit.front = BUDGET
            if unit.outbox:
                self._post(unit, unit.outbox_pc, unit.outbox, now)
        for unit in self.units:
            self._front(unit, now)

    def _exhausted(self, unit: Unit) -> None:
        violation = Violation(
            "WATCHDOG",
            f"it took more than {self._limit} instructions",
            instructions=unit.instructions,
            limit=self._limit,
        )
        fail(unit, unit.pc, violation)
