"""The front end: fetches in order, executes control instructions, hands the rest to the queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kohakuaccel.isa import IllegalInstruction, Instruction
from kohakutpu import isa
from kohakutpu.config import LOOP_DEPTH, SEMAPHORE_MAX, WORD_BYTES, Machine
from kohakutpu.conformance.reference.faults import Fault
from kohakutpu.conformance.reference.unit import Unit
from kohakutpu.conformance.reference.values import MODULUS, address, members, resolve
from kohakutpu.isa import Wait

BUFFERS = {"FILL": "C", "VFILL": "V", "vector": "V", "l1a": "C", "l1b": "C"}
"""Which kind of unit receives: what an instruction fills, or what a drain's buffer is part of."""


def holds(unit: Unit, instruction: Instruction) -> bool:
    """Return whether the waits of an instruction hold."""
    waits: tuple[Wait, ...] = instruction.waits
    return all(unit.semaphores[wait.semaphore] >= wait.count for wait in waits)


def take(unit: Unit, instruction: Instruction) -> None:
    """Subtract the waits of an instruction, all at once."""
    for wait in instruction.waits:
        unit.semaphores[wait.semaphore] -= wait.count


def post(unit: Unit, pc: int, instruction: Instruction, units: Mapping[int, Unit]) -> None:
    """Make the posts of an instruction that has finished.

    Raises
    ------
    Fault
        If a semaphore would hold more than 255.
    """
    for target in instruction.posts:
        semaphores = units[target.node].semaphores
        if semaphores[target.semaphore] == SEMAPHORE_MAX:
            raise Fault(unit.node, pc, {"SEM_OVERFLOW"})
        semaphores[target.semaphore] += 1


class FrontEnd:
    """The front end of a unit with a program.

    Parameters
    ----------
    unit : Unit
        Whose it is.
    words : bytes
        The program.
    machine : Machine
        The configuration.
    units : mapping of int to Unit
        Every unit of the machine, by node.

    Attributes
    ----------
    pc : int
        Index of the next instruction.
    halted : bool
        Whether the unit has reported.
    arrived : bool
        Whether it waits at a barrier.
    executed : int
        Instructions so far, those handed to engines included.
    reached : set of bytes
        Words that were looked at.
    """

    def __init__(
        self, unit: Unit, words: bytes, machine: Machine, units: Mapping[int, Unit]
    ) -> None:
        self.unit = unit
        self.pc = 0
        self.halted = False
        self.arrived = False
        self.executed = 0
        self.reached: set[bytes] = set()
        self._words = words
        self._units = units
        self._depth = machine.queue_depth
        self._taken = False  # the waits of the instruction at pc
        self._loops: list[tuple[int, int]] = []  # first pc of the body, passes left
        self._control: dict[str, Callable[[Instruction], None]] = {
            "SETA": self._seta,
            "ADDA": self._adda,
            "LOOP": self._loop,
            "END": self._end,
        }

    def step(self) -> bool:
        """Go on by one instruction; return False if it has to wait.

        Raises
        ------
        Fault
            If the instruction is none, or a loop is not in order.
        """
        if self.halted or self.arrived:
            return False
        word = self._words[WORD_BYTES * self.pc : WORD_BYTES * (self.pc + 1)]
        if not word:
            raise Fault(self.unit.node, self.pc, {"LOOP_DEPTH"})
        self.reached.add(word)
        try:
            instruction = isa.decode(self.unit.kind, word)
        except IllegalInstruction:
            raise Fault(self.unit.node, self.pc, {"ILLEGAL"}) from None
        if not self._addressed(instruction):
            raise Fault(self.unit.node, self.pc, {"ILLEGAL"})
        queue = instruction.engine
        if queue is not None:
            if len(self.unit.queues[queue]) == self._depth:
                return False
            self.unit.queues[queue].append(resolve(self.pc, instruction, self.unit.registers))
            self.executed += 1
            self.pc += 1
            return True
        return self._execute(instruction)

    def _addressed(self, instruction: Instruction) -> bool:
        """Return whether posts go to units, and transfers to units that have the buffer."""
        if any(target.node not in self._units for target in instruction.posts):
            return False
        operands = instruction.operands
        kind = BUFFERS.get(operands.get("buffer", ""), BUFFERS.get(instruction.name, ""))
        nodes = members(operands.get("nodes", 0))
        return all(node in self._units and self._units[node].kind == kind for node in nodes)

    def _execute(self, instruction: Instruction) -> bool:
        if not self._taken:
            if not holds(self.unit, instruction):
                return False
            take(self.unit, instruction)
            self._taken = True
        if instruction.name in ("BARRIER", "HALT") and not self.unit.idle:
            return False
        self.executed += 1
        if instruction.name == "BARRIER":
            self.arrived = True
            return True
        if instruction.name == "HALT":
            if any(self.unit.semaphores):
                raise Fault(self.unit.node, self.pc, {"SEM_LEFT"})
            self.halted = True
            post(self.unit, self.pc, instruction, self._units)
            return True
        pc = self.pc
        self._control[instruction.name](instruction)
        post(self.unit, pc, instruction, self._units)
        self._taken = False
        return True

    def leave_barrier(self) -> None:
        """Go on behind a barrier that every unit has reached."""
        word = self._words[WORD_BYTES * self.pc : WORD_BYTES * (self.pc + 1)]
        post(self.unit, self.pc, isa.decode(self.unit.kind, word), self._units)
        self.arrived = False
        self._taken = False
        self.pc += 1

    def _seta(self, instruction: Instruction) -> None:
        self.unit.registers[instruction.rd] = instruction.imm
        self.pc += 1

    def _adda(self, instruction: Instruction) -> None:
        rs: int = instruction.rs
        imm: int = instruction.imm
        modulo: int = instruction.modulo
        value = (self.unit.registers[rs] + imm) % MODULUS
        if modulo and value >= modulo:
            value -= modulo
        self.unit.registers[instruction.rd] = value
        self.pc += 1

    def _loop(self, instruction: Instruction) -> None:
        if len(self._loops) == LOOP_DEPTH:
            raise Fault(self.unit.node, self.pc, {"LOOP_DEPTH"})
        count = address(instruction.count, self.unit.registers)
        self.pc += 1
        if count:
            self._loops.append((self.pc, count))
        else:
            self._skip()

    def _skip(self) -> None:
        """Go behind the END of a loop that makes no pass."""
        opcodes = [self._words[i] for i in range(0, len(self._words), WORD_BYTES)]
        depth = 1
        while depth:
            if self.pc >= len(opcodes):
                raise Fault(self.unit.node, self.pc, {"LOOP_DEPTH"})
            depth += opcodes[self.pc] == isa.LOOP.opcode
            depth -= opcodes[self.pc] == isa.END.opcode
            self.pc += 1

    def _end(self, instruction: Instruction) -> None:
        if not self._loops:
            raise Fault(self.unit.node, self.pc, {"LOOP_DEPTH"})
        first, left = self._loops.pop()
        if left > 1:
            self._loops.append((first, left - 1))
            self.pc = first
        else:
            self.pc += 1
