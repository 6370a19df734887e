"""A test of conformance: an image, what memory holds before, and what must be there after."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from kohakuaccel.image import Image, UnitProgram
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.conformance.reference import Fault, Interpreter


@dataclass(frozen=True)
class Stop:
    """The fault that a case must end with.

    Attributes
    ----------
    unit : int
        Node of the unit.
    pc : int or None
        Index of the instruction; None where the contract leaves it open.
    causes : tuple of str
        Any of them is right: the instruction is wrong in each of these ways.
    """

    unit: int
    pc: int | None
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One test.

    Attributes
    ----------
    name : str
        Parts separated by slashes, the first one is the group.
    image : Image
        The programs.
    bases : tuple of int
        Byte address of each operand of the image, all inside regions.
    memory : tuple of (int, bytes)
        Byte address and contents of each region before the run.
    stop : Stop or None
        The fault it ends with; None if every unit halts.
    signature : tuple of bytes
        Contents of each region after the run; those of a run that faults do not count.
    instructions : tuple of (int, int)
        Node of each unit with a program, and the instructions it executes.
    macs : int
        Multiply-accumulates of all clusters.
    reach : int
        Bytes of memory that a device must have: instructions may ask for places outside of all
        regions, and nobody looks at what they get.
    """

    name: str
    image: Image
    bases: tuple[int, ...]
    memory: tuple[tuple[int, bytes], ...]
    stop: Stop | None
    signature: tuple[bytes, ...]
    instructions: tuple[tuple[int, int], ...]
    macs: int
    reach: int = field(compare=False)  # of a run that faults, it depends on who is faster

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.split("/")[0]

    @property
    def programs(self) -> tuple[UnitProgram, ...]:
        """The unit table, addresses of operands patched in."""
        words = isa.patch(self.image, self.bases)
        return tuple(
            UnitProgram(unit.node, unit.kind, code)
            for unit, code in zip(self.image.units, words, strict=True)
        )


@dataclass(frozen=True)
class Trace:
    """What a case made the reference look at: each unit's kind, and the words its front end met."""

    words: Mapping[str, frozenset[bytes]]


def settle(
    name: str,
    machine: Machine,
    image: Image,
    memory: Mapping[int, bytes],
    bases: tuple[int, ...] = (),
    order: random.Random | None = None,
) -> tuple[Case, Trace]:
    """Return the case of an image, its expectations from the reference, and what it reached.

    Raises
    ------
    Undefined
        If the contract does not settle what the image does.
    """
    units = tuple(
        UnitProgram(unit.node, unit.kind, words)
        for unit, words in zip(image.units, isa.patch(image, bases), strict=True)
    )
    interpreter = Interpreter(machine, units, memory, order)
    stop = None
    try:
        interpreter.run()
    except Fault as fault:
        stop = Stop(fault.unit, fault.pc, tuple(sorted(fault.causes)))
    case = Case(
        name=name,
        image=image,
        bases=bases,
        memory=tuple(memory.items()),
        stop=stop,
        signature=() if stop else tuple(bytes(c) for c in interpreter.memory.regions.values()),
        instructions=() if stop else interpreter.executed,
        macs=0 if stop else interpreter.macs,
        reach=interpreter.memory.reach,
    )
    return case, Trace(interpreter.reached)
