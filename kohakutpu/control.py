"""The control node as a host sees it: registers, the unit table, counters.

The hardware (`hw.control`) is built from this map, and every device that runs hardware reads it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from kohakutpu.config import ADDRESS_BITS, MAX_NODES, QUARTER_BYTES, WORD_BYTES

IDENTITY = int.from_bytes(b"KTPU", "little")
VERSION = 1
COUNTERS = 0x800
"""Byte address of the counters: 64 bytes a node, in the order of `COUNTER_NAMES`."""

PC_BITS = 20
NODE_BITS = 4

COUNTER_NAMES = (
    "instructions", "fetched", "read", "written", "sent", "steps_0", "steps_1", "steps_2",
    "busy_0", "busy_1", "busy_2", "stalled_0", "stalled_1", "stalled_2",
)  # fmt: skip
"""What a unit counts, 32 bits each. ``read``: words from memory that landed for the unit's own
transfers; ``written``: WRITEs; ``sent``: words to other units; then by engine."""

COUNTER_BYTES = 4
COUNTERS_PER_WORD = WORD_BYTES // COUNTER_BYTES
COUNTER_WORDS = -(-len(COUNTER_NAMES) // COUNTERS_PER_WORD)
"""Words that hold all of a node's."""

CAUSES = {
    "ILLEGAL": "the word is no instruction of this unit",
    "LOOP_DEPTH": "loops too deep, an END without LOOP, or past the program's end",
    "L1_RANGE": "a window leaves an L1",
    "ACC_RANGE": "a tile leaves the accumulator",
    "REG_RANGE": "a window leaves the register file",
    "OVERLAP": "windows overlap",
    "MISALIGNED": "the memory address is not that of a word",
    "MEMORY": "an error response, or an address past the memory",
    "SEM_OVERFLOW": "a semaphore was posted above 255",
    "SEM_LEFT": "a semaphore is not zero at the end",
    "WATCHDOG": "nobody made progress",
}
"""Causes of a fault, numbered from 1, and what the contract says of each: hardware reports no
numbers."""


class Register(enum.IntEnum):
    """Byte addresses. All are read; those up to `COMMAND` that the host may write say so."""

    IDENTITY = 0x00
    VERSION = 0x04
    HASH_LOW = 0x08
    HASH_HIGH = 0x0C
    TABLE = 0x10  # written: word address of the unit table
    UNITS = 0x14  # written: entries of it
    WATCHDOG = 0x18  # written: cycles
    COMMAND = 0x1C  # written: bit 0 go, bit 1 stop
    STATUS = 0x20  # bit 0 busy, bit 1 done, bit 2 fault
    FAULT = 0x24  # pc 19:0, cause 23:20, unit 27:24
    CYCLES_LOW = 0x28
    CYCLES_HIGH = 0x2C


class Command(enum.IntFlag):
    """`Register.COMMAND`."""

    GO = 1
    STOP = 2


class Status(enum.IntFlag):
    """`Register.STATUS`."""

    BUSY = 1
    DONE = 2
    FAULT = 4


def fault(value: int) -> tuple[int, int, str]:
    """Return unit, pc and cause of `Register.FAULT`.

    Raises
    ------
    ValueError
        If it names no cause.
    """
    pc, rest = value & (1 << PC_BITS) - 1, value >> PC_BITS
    names = list(CAUSES)
    cause, unit = rest & 15, rest >> 4
    if not 1 <= cause <= len(names):
        raise ValueError(f"a fault of cause {cause}; there are 1 to {len(names)}")
    return unit, pc, names[cause - 1]


def unit_table(programs: Sequence[tuple[int, int, int]]) -> bytes:
    """Return the unit table as it lies in memory.

    Parameters
    ----------
    programs : sequence of (int, int, int)
        Node, byte address and instruction words of each program.
    """
    entries = (
        address // QUARTER_BYTES | count << ADDRESS_BITS | node << ADDRESS_BITS + PC_BITS
        for node, address, count in programs
    )
    return b"".join(entry.to_bytes(WORD_BYTES, "little") for entry in entries)


def counters(node: int, read: Callable[[int], int]) -> dict[str, int]:
    """Return what a node has counted, by name.

    Parameters
    ----------
    node : int
        Which.
    read : callable
        Returns the register at a byte address.
    """
    first = COUNTERS + node * COUNTER_WORDS * WORD_BYTES
    return {name: read(first + COUNTER_BYTES * n) for n, name in enumerate(COUNTER_NAMES)}


TABLE_WORDS = MAX_NODES
"""Words at the end of memory that are the host's: the unit table."""
