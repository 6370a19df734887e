"""How busy a program keeps its engines, and what it moves: the machine's costs, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from compiler.passes.registers import window_size
from compiler.program import Advance, Emit, Left, Loop, Window
from kohakutpu import costs, isa
from kohakutpu.config import LANES, Machine

Item = Loop | Emit | Advance

ENGINES = {"C": ("FILL", "GEMM", "DRAIN"), "V": ("VFILL", "EXEC", "VDRAIN")}
SIZES = {"fp16": 2, "fp32": 4, "l1h": 2, "l1f": 4}
ENUMERATED = 4096  # positions of an extent to average over; beyond that, edges hardly count


@dataclass(slots=True)
class Load:
    """What an engine does in a stage.

    Parameters
    ----------
    instructions : int
        How many it executes, ``SYNC`` not counted.
    cycles : int
        How long it is occupied.
    read, written : int
        Words from and to memory.
    sent : int
        Words to other units.
    """

    instructions: int = 0
    cycles: int = 0
    read: int = 0
    written: int = 0
    sent: int = 0


def estimate(body: Sequence[Item], kind: str, machine: Machine) -> dict[str, Load]:
    """Return the load of each engine of one unit that runs ``body``."""
    loads = {engine: Load() for engine in ENGINES[kind]}
    _add(body, 1, machine, loads)
    return loads


def _add(body: Sequence[Item], times: int, machine: Machine, loads: Mapping[str, Load]) -> None:
    for item in body:
        if isinstance(item, Loop):
            if item.count:
                _add(item.body, times * item.count, machine, loads)
        elif isinstance(item, Emit) and item.record.engine is not None:
            one, load = _cost(item, machine), loads[item.record.name]
            load.instructions += times
            load.cycles += times * one.cycles
            load.read += times * one.read
            load.written += times * one.written
            load.sent += times * one.sent


def _cost(emit: Emit, machine: Machine) -> Load:
    operands = emit.operands
    if emit.record is isa.FILL:
        rows, k = _mean(emit, "rows"), _mean(emit, "k")
        work = costs.fill(operands["g"], operands["nk"], rows, k, operands["mode"], False)
        return Load(1, work.cycles, read=work.port)
    if emit.record is isa.GEMM:
        work = costs.gemm(machine, operands["gm"], operands["gn"], operands["nk"])
        return Load(1, work.cycles)
    if emit.record is isa.EXEC:
        windows = (operands.get(name) for name in ("a", "b", "c", "dst"))
        kinds = [window.kind for window in windows if isinstance(window, Window)]
        sizes = tuple(SIZES[kind] for kind in kinds if kind in SIZES)
        work = costs.execute(machine, operands["rows"], operands["cols"], sizes)
        return Load(1, work.cycles)
    size = SIZES[operands["format"]]
    if emit.record is isa.DRAIN:
        rows, cols = LANES * operands["gm"], LANES * operands["gn"]
        extents = _mean(emit, "rows"), _mean(emit, "cols")
    else:
        rows, cols = operands["rows"], operands["cols"]
        extents = _mean(emit, "row_extent"), _mean(emit, "col_extent")
    window = rows * costs.words(cols, size)
    moved = extents[0] * costs.words(extents[1], size)
    if emit.record is isa.VFILL:
        return Load(1, costs.vfill(window, moved).cycles, read=moved)
    memory = operands.get("to", "memory") == "memory"
    moved = moved if memory else window
    if emit.record is isa.DRAIN:
        work = costs.drain(operands["gm"], operands["gn"], size, moved, memory)
    else:
        work = costs.vdrain(window, moved, memory)
    return Load(1, work.cycles, written=moved if memory else 0, sent=0 if memory else moved)


def _mean(emit: Emit, name: str) -> int:
    """Return an extent, clamped to its window, averaged over the loops it moves with."""
    value: Any = emit.operands[name]
    window = window_size(emit, name)
    if not isinstance(value, Left):
        return window
    terms = [(loop, stride) for loop, stride in value.position.terms if loop.count > 1 and stride]
    total = 1
    for loop, _ in terms:
        total *= loop.count
    if total > ENUMERATED:
        return window
    left = value.limit - value.position.constant
    steps = [[stride * n for n in range(loop.count)] for loop, stride in terms]
    found = sum(max(0, min(window, left - sum(offsets))) for offsets in product(*steps))
    return -(-found // total)
