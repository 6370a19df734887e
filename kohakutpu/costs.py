"""What an instruction costs, in cycles and in words over the memory port.

Pure functions of an instruction's resolved sizes and the machine. The golden machine schedules
with them and the compiler plans with them; they are compared with the counters of the RTL.

``cycles`` is how long an engine is occupied; what is pipelined behind it (the latencies below)
delays the posts of an instruction but not the next instruction of its engine.
"""

from __future__ import annotations

from typing import NamedTuple

from kohakutpu.config import LANES, QUARTERS_PER_WORD, WORD_BYTES, Machine

LAUNCH = 64  # from GO to the first instruction: unit table, kick, first fetch
FETCH = 1  # a front end takes one instruction a cycle
BARRIER = 24  # arrive at the control node and be released
POST = 6  # a semaphore of another node
READ = 40  # a request to memory until its first word lands
WRITE = 24  # the last word to memory until its acknowledgement
TRANSFER = 8  # the last word to another node until it has landed
GEMM = 16  # the chain and the adder behind the last entry pair
GEMM_TURNAROUND = 8  # cycles between two additions to one sub-tile
EXEC = 34  # through the vector pipe and written; what reads it begins then
REDUCTION = 65  # more, until scalars of rows are written
EXEC_START = 5  # cycles between the beats of one EXEC and those of the next
EXEC_CHECK = 20  # to check an EXEC, beside the one before
START = 2  # an engine takes an instruction from its queue and sets up its counters

FP16_PER_WORD = WORD_BYTES // 2


class Work(NamedTuple):
    """Cycles an engine is occupied and words it moves over the memory port."""

    cycles: int
    port: int


def words(elements: int, size: int) -> int:
    """Words that hold `elements` of `size` bytes each."""
    return -(-elements * size // WORD_BYTES)


def fill(g: int, nk: int, rows: int, k: int, mode: str, transpose: bool) -> Work:
    """``FILL`` of ``g x nk`` entries with `rows` and `k` elements below the extents."""
    entries = g * nk
    if mode == "packed":
        port = LANES * entries + -(-entries // 8)
    elif transpose:
        port = k * words(rows, 2)
    else:
        port = rows * words(k, 2)
    return Work(START + max(port, entries), port)


def gemm(machine: Machine, gm: int, gn: int, nk: int) -> Work:
    """``GEMM`` of a ``gm x gn`` tile over `nk` blocks; a small tile waits for its own sums."""
    sweep = gm * gn * 32 // machine.k_per_cycle
    return Work(START + nk * max(sweep, GEMM_TURNAROUND), 0)


def drain(gm: int, gn: int, size: int, sent: int, to_memory: bool) -> Work:
    """``DRAIN`` of a tile of elements of `size` bytes, `sent` words leaving the cluster."""
    read = gm * gn * (size // 2)
    return Work(START + max(read, sent), sent if to_memory else 0)


def vfill(window: int, fetched: int) -> Work:
    """``VFILL`` of `window` words, of which `fetched` come from memory."""
    return Work(START + max(window, fetched), fetched)


def vdrain(window: int, sent: int, to_memory: bool) -> Work:
    """``VDRAIN`` of a window of `window` words, `sent` words leaving the core."""
    return Work(START + max(window, sent), sent if to_memory else 0)


def execute(machine: Machine, rows: int, cols: int, l1_sizes: tuple[int, ...]) -> Work:
    """``EXEC`` of ``rows x cols`` elements; `l1_sizes` are the element sizes of its L1 windows.

    Every L1 window has a bank of its own, one word a cycle: an FP32 window feeds 8 elements a
    cycle whatever the lanes.
    """
    row = -(-cols // machine.lanes)
    for size in l1_sizes:
        row = max(row, words(cols, size))
    return Work(max(EXEC_CHECK, EXEC_START + rows * row), 0)


def executed(reduces: bool) -> int:
    """Cycles after an ``EXEC`` has left its engine until all it writes is there.

    The next one begins before that if it touches none of it, the one after the next never does.
    """
    return EXEC + REDUCTION if reduces else EXEC


def span(quarter: int, elements: int, size: int) -> int:
    """Words that `elements` of `size` bytes touch in memory when they start at `quarter`."""
    if not elements:
        return 0
    quarters = -(-elements * size // (WORD_BYTES // QUARTERS_PER_WORD))
    return (quarter % QUARTERS_PER_WORD + quarters + QUARTERS_PER_WORD - 1) // QUARTERS_PER_WORD
