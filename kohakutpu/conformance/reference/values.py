"""Operands as they are when an instruction is handed to its engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kohakuaccel.isa import Instruction
from kohakutpu.config import ADDRESS_BITS
from kohakutpu.isa import Address, Destination, Extent, Flag, Source

MODULUS = 1 << ADDRESS_BITS


@dataclass(frozen=True)
class Window:
    """A source or destination of `EXEC`: kind, and what goes with it."""

    kind: str
    bits: int
    base: int
    stride: int


@dataclass(frozen=True)
class Resolved:
    """An engine instruction and its operands, registers read.

    Attributes
    ----------
    pc : int
        Where it stood.
    instruction : Instruction
        What it was.
    values : dict
        Its operands: an address is a number, an extent ``limit - a[r]`` not yet clamped, a flag a
        bool, a source or destination a `Window`.
    """

    pc: int
    instruction: Instruction
    values: dict[str, Any]


def signed(register: int) -> int:
    """Return a register read as a signed number of 34 bits."""
    return register - MODULUS if register >> (ADDRESS_BITS - 1) else register


def address(operand: Address, registers: Sequence[int]) -> int:
    """Return ``a[r] + imm``, modulo 2**34."""
    return (registers[operand.reg] + operand.imm) % MODULUS


def resolve(pc: int, instruction: Instruction, registers: Sequence[int]) -> Resolved:
    """Return an instruction with its registers read."""
    values: dict[str, Any] = {}
    for name, operand in instruction.operands.items():
        if isinstance(operand, Address):
            values[name] = address(operand, registers)
        elif isinstance(operand, Extent):
            values[name] = operand.limit - signed(registers[operand.reg])
        elif isinstance(operand, Flag):
            values[name] = operand.imm or registers[operand.reg] != 0
        elif isinstance(operand, Source):
            base = address(operand.base, registers)
            values[name] = Window(operand.kind, operand.bits, base, operand.stride)
        elif isinstance(operand, Destination):
            values[name] = Window(operand.kind, 0, address(operand.base, registers), operand.stride)
        else:
            values[name] = operand
    return Resolved(pc, instruction, values)


def clamp(extent: int, size: int) -> int:
    """Return an extent, no less than 0 and no more than the window's own size."""
    return min(max(extent, 0), size)


def members(nodes: int) -> list[int]:
    """Return the numbers whose bits are set."""
    return [node for node in range(nodes.bit_length()) if nodes >> node & 1]
