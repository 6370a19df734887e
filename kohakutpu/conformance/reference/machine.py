"""The whole machine: units that go on in some order until all have halted, or nobody can."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from kohakuaccel.image import UnitProgram
from kohakutpu.config import KBLOCK, LANES, Machine
from kohakutpu.conformance.reference import cluster, vector
from kohakutpu.conformance.reference.faults import Fault
from kohakutpu.conformance.reference.frontend import FrontEnd, holds, post, take
from kohakutpu.conformance.reference.storage import Memory
from kohakutpu.conformance.reference.unit import Unit
from kohakutpu.conformance.reference.values import Resolved

LIMIT = 1_000_000  # steps; a test of conformance is short


class Interpreter:
    """A machine that runs one set of programs once.

    Parameters
    ----------
    machine : Machine
        The configuration.
    programs : sequence of UnitProgram
        The unit table, addresses of operands patched in.
    memory : mapping of int to bytes
        What memory holds, by byte address; programs write there alone.
    order : random.Random, optional
        Who goes on next is drawn from it; the front ends first, engine by engine, if left out.

    mark : tuple of (int, int), optional
        Unit and pc of an instruction: what was written before it starts does not count as written.

    Attributes
    ----------
    units : dict of int to Unit
        Every unit, by node.
    memory : Memory
        Contents at the end.
    """

    def __init__(
        self,
        machine: Machine,
        programs: tuple[UnitProgram, ...],
        memory: Mapping[int, bytes],
        order: random.Random | None = None,
        mark: tuple[int, int] | None = None,
    ) -> None:
        self.units = {node.id: Unit(machine, node) for node in machine.nodes if node.kind in "CV"}
        self.memory = Memory(machine.dram_words, memory)
        self._order = order
        self._mark = mark
        self._fronts = [
            FrontEnd(self.units[program.node], program.words, machine, self.units)
            for program in programs
        ]

    @property
    def macs(self) -> int:
        """Multiply-accumulates so far."""
        kinds = (unit for unit in self.units.values() if unit.kind == "C")
        return LANES * LANES * KBLOCK * sum(unit.cluster.pairs for unit in kinds)

    @property
    def executed(self) -> tuple[tuple[int, int], ...]:
        """Node of each unit with a program, and the instructions it executed."""
        return tuple((front.unit.node, front.executed) for front in self._fronts)

    @property
    def reached(self) -> dict[str, frozenset[bytes]]:
        """The words that front ends looked at, by kind of unit."""
        return {
            kind: frozenset(w for f in self._fronts if f.unit.kind == kind for w in f.reached)
            for kind in "CV"
        }

    def run(self) -> None:
        """Run every program to its end.

        Raises
        ------
        Fault
            If the machine stops.
        Undefined
            If what happens is not settled by the contract.
        """
        steps: list[Callable[[], bool]] = []
        for front in self._fronts:
            steps.append(front.step)
            for queue in range(3):
                steps.append(self._engine(front.unit, queue))
        for _ in range(LIMIT):
            if self._order is not None:
                self._order.shuffle(steps)
            moved = [step() for step in steps]
            if all(front.arrived for front in self._fronts):
                for front in self._fronts:
                    front.leave_barrier()
                continue
            if all(front.halted for front in self._fronts):
                break
            if not any(moved):
                raise self._stuck()
        else:
            raise AssertionError(f"not over after {LIMIT} steps")
        for unit in self.units.values():
            if any(unit.semaphores):
                raise Fault(unit.node, None, {"SEM_LEFT"})

    def _stuck(self) -> Fault:
        """Return the fault of a machine where everybody waits."""
        front = next(front for front in self._fronts if not front.halted)
        heads = [queue[0].pc for queue in front.unit.queues if queue]
        return Fault(front.unit.node, heads[0] if heads else front.pc, {"WATCHDOG"})

    def _engine(self, unit: Unit, number: int) -> Callable[[], bool]:
        queue = unit.queues[number]

        def step() -> bool:
            if not queue or not holds(unit, queue[0].instruction):
                return False
            operation = queue[0]
            if (unit.node, operation.pc) == self._mark:
                self._forget()
            take(unit, operation.instruction)
            causes = self._wrong(operation, unit)
            if causes:
                raise Fault(unit.node, operation.pc, causes)
            self._perform(operation, unit)
            post(unit, operation.pc, operation.instruction, self.units)
            queue.popleft()
            return True

        return step

    def _forget(self) -> None:
        self._mark = None
        for unit in self.units.values():
            for store in unit.stores:
                store.written.clear()

    def _wrong(self, operation: Resolved, unit: Unit) -> set[str]:
        match operation.instruction.name:
            case "FILL":
                to = cluster.receivers(operation, unit, self.units)
                return cluster.fill_wrong(operation, to[0], self.memory)
            case "GEMM":
                return cluster.gemm_wrong(operation, unit.cluster)
            case "DRAIN":
                return cluster.drain_wrong(operation, unit, self.memory, self.units)
            case "VFILL":
                to = cluster.receivers(operation, unit, self.units)
                return vector.vfill_wrong(operation, to[0], self.memory)
            case "EXEC":
                return vector.exec_wrong(operation, unit.core)
            case "VDRAIN":
                return vector.vdrain_wrong(operation, unit, self.memory, self.units)
            case _:
                return set()

    def _perform(self, operation: Resolved, unit: Unit) -> None:
        match operation.instruction.name:
            case "FILL":
                to = cluster.receivers(operation, unit, self.units)
                cluster.fill(operation, to, self.memory)
            case "GEMM":
                cluster.gemm(operation, unit.cluster)
            case "DRAIN":
                cluster.drain(operation, unit, self.memory, self.units)
            case "VFILL":
                vector.vfill(operation, cluster.receivers(operation, unit, self.units), self.memory)
            case "EXEC":
                vector.execute(operation, unit.core)
            case "VDRAIN":
                vector.vdrain(operation, unit, self.memory, self.units)
            case name:
                assert name == "SYNC", name
