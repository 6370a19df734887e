"""What an instruction costs, in cycles and in words over the memory port.

Pure functions of an instruction's resolved sizes and the machine. The golden machine schedules
with them and the compiler plans with them; they are compared with the counters of the RTL.

``cycles`` is how long an engine is occupied; what is pipelined behind it (the latencies below)
delays the posts of an instruction but not the next instruction of its engine.
"""

from __future__ import annotations

from typing import NamedTuple

from kohakutpu.config import KBLOCK, LANES, QUARTERS_PER_WORD, WORD_BYTES, Machine

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
REDUCTION_GROUP = 16  # elements that a tree adds up
START = 2  # an engine takes an instruction from its queue and sets up its counters

SERIAL_CHECK = 30  # to check an instruction of a cluster that multiplies with an adder

FP16_PER_WORD = WORD_BYTES // 2


class Work(NamedTuple):
    """Cycles an engine is occupied and words it moves over the memory port."""

    cycles: int
    port: int


def words(elements: int, size: int) -> int:
    """Words that hold `elements` of `size` bytes each."""
    return -(-elements * size // WORD_BYTES)


def landing(machine: Machine) -> int:
    """Cycles that a word takes to land in a cluster, which is as wide as the K it contracts."""
    return KBLOCK // machine.k_per_cycle


def is_serial(machine: Machine) -> bool:
    """Tell whether rows of a sub-tile take turns in a cluster, and checks take their time."""
    return landing(machine) >= LANES


def latency(machine: Machine, behind: int) -> int:
    """Cycles from when an engine of a cluster is free to its posts, `behind` of them on any.

    An instruction is checked while the one before runs, so that its engine is not held up; but
    whoever waits for the first of several, or for one alone, waits for its check.
    """
    return behind + SERIAL_CHECK if is_serial(machine) else behind


def fill(machine: Machine, g: int, nk: int, rows: int, k: int, mode: str, transpose: bool) -> Work:
    """``FILL`` of ``g x nk`` entries with `rows` and `k` elements below the extents."""
    entries = g * nk
    if mode == "packed":
        port = LANES * entries + -(-entries // 8)
    elif transpose:
        port = k * words(rows, 2)
    else:
        port = rows * words(k, 2)
    return Work(START + landing(machine) * max(port, entries), port)


def gemm(machine: Machine, gm: int, gn: int, nk: int) -> Work:
    """``GEMM`` of a ``gm x gn`` tile over `nk` blocks; a small tile waits for its own sums."""
    sweep = gm * gn * 32 // machine.k_per_cycle
    return Work(START + nk * max(sweep, GEMM_TURNAROUND), 0)


def drain(machine: Machine, gm: int, gn: int, size: int, sent: int, to: str) -> Work:
    """``DRAIN`` of a tile of elements of `size` bytes, `sent` words leaving the cluster.

    `to` is where they go: ``"memory"``, ``"vector"`` or ``"cluster"``. Where rows take turns at
    the adders of a cluster, the accumulator is read a row a cycle.
    """
    read = gm * gn * (LANES if is_serial(machine) else size // 2)
    word = landing(machine) if to == "cluster" else 1
    return Work(START + max(read, word * sent), sent if to == "memory" else 0)


def vfill(window: int, fetched: int) -> Work:
    """``VFILL`` of `window` words, of which `fetched` come from memory."""
    return Work(START + max(window, fetched), fetched)


def vdrain(machine: Machine, window: int, sent: int, to: str) -> Work:
    """``VDRAIN`` of a window of `window` words, `sent` words leaving the core.

    `to` is where they go: ``"memory"``, ``"vector"`` or ``"cluster"``.
    """
    word = QUARTERS_PER_WORD + 1 if is_narrow(machine) else 1
    if to == "cluster":
        word = max(word, landing(machine))
    return Work(START + word * max(window, sent), sent if to == "memory" else 0)


def is_narrow(machine: Machine) -> bool:
    """Tell whether the paths of a vector core are as wide as its beats, which are of 4 lanes."""
    return machine.lanes == QUARTERS_PER_WORD


def execute(
    machine: Machine, rows: int, cols: int, l1_sizes: tuple[int, ...], reduces: bool = False
) -> Work:
    """``EXEC`` of ``rows x cols`` elements; `l1_sizes` are the element sizes of its L1 windows.

    Every L1 window has a bank of its own, one word a cycle: an FP32 window feeds 8 elements a
    cycle whatever the lanes. Reductions share adders where a group of 16 takes several beats.
    """
    row = -(-cols // machine.lanes)
    if reduces and is_narrow(machine):
        row = max(row, REDUCTION_GROUP // machine.lanes)
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
