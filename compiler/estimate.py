"""How busy a program keeps its engines, and what it moves: the machine's costs, added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from compiler.passes.registers import window_size
from compiler.program import Emit, Item, Left, Loop, Window
from kohakutpu import costs, isa
from kohakutpu.config import LANES, Machine

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
            cycles, moved, where = cost_of(item, machine)
            load = loads[item.record.name]
            load.instructions += times
            load.cycles += round(times * cycles)
            if where:
                setattr(load, where, getattr(load, where) + round(times * moved))


def cost_of(emit: Emit, machine: Machine) -> tuple[float, float, str]:
    """Return an instruction's average cycles, the words it moves and what to count these as."""
    operands = emit.operands
    if emit.record is isa.GEMM:
        work = costs.gemm(machine, operands["gm"], operands["gn"], operands["nk"])
        return work.cycles, 0, ""
    if emit.record is isa.EXEC:
        windows = (operands.get(name) for name in ("a", "b", "c", "dst"))
        kinds = [window.kind for window in windows if isinstance(window, Window)]
        sizes = tuple(SIZES[kind] for kind in kinds if kind in SIZES)
        reduces = operands.get("reduce", "none") != "none"
        rows, cols = operands["rows"], operands["cols"]
        return costs.execute(machine, rows, cols, sizes, reduces).cycles, 0, ""
    if emit.record is isa.FILL:
        words = _mean(emit, "rows") * _mean(emit, "k", lambda k: costs.words(k, SIZES["fp16"]))
        landed = costs.landing(machine) * max(words, operands["g"] * operands["nk"])
        return costs.START + landed, words, "read"
    size = SIZES[operands["format"]]

    def row(elements: int) -> int:
        return costs.words(elements, size)

    if emit.record is isa.DRAIN:
        rows, cols, extents = LANES * operands["gm"], LANES * operands["gn"], ("rows", "cols")
    else:
        rows, cols, extents = operands["rows"], operands["cols"], ("row_extent", "col_extent")
    window = rows * row(cols)
    if operands.get("to", "memory") == "memory":
        words, where = _mean(emit, extents[0]) * _mean(emit, extents[1], row), "written"
    else:
        words, where = float(window), "sent"
    if emit.record is isa.VFILL:
        return costs.START + max(window, words), words, "read"
    to = "memory"
    if operands.get("to", "memory") == "node":
        to = "vector" if operands.get("buffer", "vector") == "vector" else "cluster"
    if emit.record is isa.DRAIN:
        gm, gn = operands["gm"], operands["gn"]
        return costs.drain(machine, gm, gn, size, math.ceil(words), to).cycles, words, where
    return costs.vdrain(machine, window, math.ceil(words), to).cycles, words, where


def _mean(emit: Emit, name: str, measure: Callable[[int], int] = int) -> float:
    """Return what ``measure`` makes of an extent, averaged over the loops it moves with."""
    value: Any = emit.operands[name]
    window = window_size(emit, name)
    if not isinstance(value, Left):
        return measure(window)
    terms = [(loop, stride) for loop, stride in value.position.terms if loop.count > 1 and stride]
    total = prod(loop.count for loop, _ in terms)
    if total > ENUMERATED:
        return measure(window)
    left = value.limit - value.position.constant
    steps = [[stride * n for n in range(loop.count)] for loop, stride in terms]
    extents = (max(0, min(window, left - sum(offsets))) for offsets in product(*steps))
    return sum(map(measure, extents)) / total


def port_of(node: int, machine: Machine) -> int:
    """Return the memory port that a unit uses: the nearest, then the lowest."""
    x, y = node % machine.width, node // machine.width
    ports = machine.of_kind("M")
    return min(ports, key=lambda port: (abs(port.x - x) + abs(port.y - y), port.id)).id
