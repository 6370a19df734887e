"""Writing a case: programs of several units, memory, and a look at whatever they left behind.

A draft is written in three parts. What `prepare` takes brings storage into a known state, one
engine instruction after the other. What `examine` takes is what the case is about. The rest is
made here: storage that the second part wrote, and what lies next to it, goes to memory, so that
the signature shows it.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable

from kohakuaccel.image import Image, UnitProgram
from kohakuaccel.isa import Instruction
from kohakutpu import isa
from kohakutpu.config import QUARTER_BYTES, SEMAPHORES, WORD_BYTES, Machine
from kohakutpu.conformance import dump
from kohakutpu.conformance.case import Case, Trace, settle
from kohakutpu.conformance.reference import Fault, Interpreter
from kohakutpu.isa import BARRIER, HALT, SYNC, Post, Wait

FREE = 2
"""Semaphores, from 0 on, that the chain leaves alone."""

RING = SEMAPHORES - FREE
"""Semaphores by which one instruction of a chain waits for the one before it, each in turn.

Instructions wait at the heads of three queues at a time, so no two that do may share one.
"""

Code = Instruction | bytes
"""An instruction, or a word that is none."""


def seeded(name: str) -> random.Random:
    """Return a source of chance that depends on a name alone."""
    return random.Random(zlib.crc32(name.encode()))


class Program:
    """The program of one unit, being written.

    Parameters
    ----------
    node : int
        The unit.
    kind : str
        Its kind.
    """

    def __init__(self, node: int, kind: str) -> None:
        self.node = node
        self.kind = kind
        self.code: list[Code] = []
        self._links = 0
        self._pending = False  # a post of the last chained instruction that nobody awaits yet

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What the next instruction of the chain waits for."""
        return (Wait(FREE + self._links % RING, 1),) if self._pending else ()

    def _link(self) -> tuple[Post, ...]:
        """Return what the next instruction of the chain posts."""
        self._links += 1
        self._pending = True
        return (Post(self.node, FREE + self._links % RING),)

    def chain(self, instruction: Instruction) -> None:
        """Add an instruction that starts when the one before it in the chain has finished."""
        waits = self.waits
        if instruction.engine is None:
            self.code.append(instruction.replace(waits=(*instruction.waits, *waits)))
            self._pending = False
        else:
            self.code.append(instruction.replace(waits=waits, posts=self._link()))

    def settle(self) -> None:
        """Let the front end wait for the chain."""
        if self._pending:
            self.chain(isa.ADDA(rd=15, rs=15, imm=0))

    def enclose(self, codes: Iterable[Code], engine: int) -> None:
        """Add instructions of one engine as they are, chained as a whole."""
        if self._pending:
            self.code.append(SYNC(engine, waits=self.waits))
        self.code += codes
        self.code.append(SYNC(engine, posts=self._link()))

    def words(self) -> bytes:
        """Return the program's words."""
        parts = (c if isinstance(c, bytes) else isa.encode(c) for c in self.code)
        return b"".join(parts)


class Draft:
    """A case, being written.

    Parameters
    ----------
    machine : Machine
        The configuration.
    name : str
        The case's name.
    """

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.random = seeded(name)
        self.memory: dict[int, bytes] = {}
        self.programs: dict[int, Program] = {}
        self._next = 0

    # ------------------------------------------------------------ what it is made of

    def program(self, node: int) -> Program:
        """Return the program of a unit; it joins the unit table the first time."""
        if node not in self.programs:
            kind = next(n.kind for n in self.machine.nodes if n.id == node)
            self.programs[node] = Program(node, kind)
        return self.programs[node]

    def data(self, content: bytes, at: int | None = None) -> int:
        """Put bytes into memory, whole words, and return the quarter where they start.

        The first one starts at 0. A region has a word of its own before and behind it that nobody
        may change.
        """
        content += bytes(-len(content) % WORD_BYTES)
        address = self._next if at is None else at
        front = WORD_BYTES if address else 0
        if at is None:
            self._next = address + len(content) + 3 * WORD_BYTES
        guard = b"\xc3" * WORD_BYTES
        self.memory[address - front] = guard[:front] + content + guard
        return address // QUARTER_BYTES

    def output(self, words: int, at: int | None = None) -> int:
        """Set memory aside that programs write, and return the quarter where it starts."""
        return self.data(b"\xa5" * (words * WORD_BYTES), at)

    def meet(self) -> None:
        """Let every unit wait for every other."""
        for program in self.programs.values():
            program.settle()
            program.code.append(BARRIER())

    # ------------------------------------------------------------ what becomes of it

    def finish(self) -> tuple[Case, Trace]:
        """Return the case: every unit halts, and memory is what it leaves.

        Raises
        ------
        Undefined
            If the contract does not settle what the programs do.
        """
        for program in self.programs.values():
            program.chain(HALT())
        return self.settled()

    def settled(self) -> tuple[Case, Trace]:
        """Return the case of the programs as they are.

        Raises
        ------
        Undefined
            If the contract does not settle what they do.
        """
        return settle(self.name, self.machine, self._image(), self.memory)

    def examine(self, node: int, codes: Iterable[Code], engine: int) -> tuple[Case, Trace]:
        """Add instructions of one engine of a unit, then a look at what they wrote, and finish.

        Raises
        ------
        Undefined
            If the contract does not settle what the programs do.
        """
        if len(self.programs) > 1:
            self.meet()
        program = self.program(node)
        mark = (node, len(program.code))
        program.enclose(codes, engine)
        lengths = {unit: len(program.code) for unit, program in self.programs.items()}
        after = self._interpret(mark)
        if after is None:
            return self.finish()
        several = len(self.programs) > 1
        if several:
            self.meet()
        for unit in self.programs:
            dump.show(self, unit, after.units[unit])
        if several and all(
            len(program.code) == lengths[unit] + 1 for unit, program in self.programs.items()
        ):
            for program in self.programs.values():
                program.code.pop()
        return self.finish()

    def _image(self) -> Image:
        units = tuple(UnitProgram(p.node, p.kind, p.words()) for p in self.programs.values())
        return Image(self.machine.hash, units)

    def _interpret(self, mark: tuple[int, int]) -> Interpreter | None:
        """Return what the programs so far leave; None if they end with a fault.

        What was written before the instruction at `mark`, a unit and a pc, does not count.
        """
        units = tuple(
            UnitProgram(p.node, p.kind, p.words() + isa.encode(HALT(waits=p.waits)))
            for p in self.programs.values()
        )
        interpreter = Interpreter(self.machine, units, self.memory, mark=mark)
        try:
            interpreter.run()
        except Fault:
            return None
        return interpreter
