"""`FILL`, `GEMM` and `DRAIN`, as ``docs/machine.md`` states them.

Each is two functions: the causes for which it is a fault, and what it does.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache

from kohakutpu.config import KBLOCK, LANES, QUARTER_BYTES, QUARTERS_PER_WORD, WORD_BYTES
from kohakutpu.conformance.reference.storage import Block, Memory
from kohakutpu.conformance.reference.transfer import SIZES, Sending, quantise
from kohakutpu.conformance.reference.unit import Cluster, Entry, SubTile, Unit
from kohakutpu.conformance.reference.values import Resolved, clamp, members
from kohakutpu.numerics.scalar import fp32, mx
from kohakutpu.numerics.scalar.formats import FP32, narrow

SIDE = LANES  # rows and columns of a sub-tile


def receivers(operation: Resolved, unit: Unit, units: Mapping[int, Unit]) -> list[Unit]:
    """Return who receives the answer of a `FILL` or `VFILL`."""
    nodes = members(operation.values["nodes"])
    return [units[node] for node in nodes] if nodes else [unit]


# ------------------------------------------------------------------ FILL


def fill_wrong(operation: Resolved, unit: Unit, memory: Memory) -> set[str]:
    """Return the causes for which a `FILL` is a fault."""
    v = operation.values
    causes: set[str] = set()
    if v["mem"] % QUARTERS_PER_WORD:
        causes.add("MISALIGNED")
    entries = (v["l1"] + g * v["l1_stride"] + kb for g in range(v["g"]) for kb in range(v["nk"]))
    if unit.cluster.l1[v["buffer"]].outside(entries):
        causes.add("L1_RANGE")
    if not all(memory.holds(*piece) for piece in _requested(operation)):
        causes.add("MEMORY")
    return causes


def _requested(operation: Resolved) -> list[tuple[int, int]]:
    """Return address and length, in bytes, of every run of memory that a `FILL` looks at."""
    v = operation.values
    start = v["mem"] * QUARTER_BYTES
    if v["mode"] == "packed":
        entries = v["g"] * v["nk"]
        return [(start, (LANES * entries + -(-entries // 8)) * WORD_BYTES)]
    rows, k = clamp(v["rows"], LANES * v["g"]), clamp(v["k"], KBLOCK * v["nk"])
    count, length = (k, rows) if v["transpose"] else (rows, k)
    stride = v["stride"] * WORD_BYTES
    return [(start + row * stride, 2 * length) for row in range(count) if length]


def fill(operation: Resolved, to: list[Unit], memory: Memory) -> None:
    """Load a region into L1A or L1B of each receiver."""
    v = operation.values
    for g in range(v["g"]):
        for kb in range(v["nk"]):
            entry = v["l1"] + g * v["l1_stride"] + kb
            for lane in range(LANES):
                if v["mode"] == "packed":
                    block = _packed(operation, memory, g * v["nk"] + kb, lane)
                else:
                    block = _quantised(operation, memory, LANES * g + lane, KBLOCK * kb)
                for unit in to:
                    unit.cluster.write_lane(v["buffer"], entry, lane, block)


def _packed(operation: Resolved, memory: Memory, entry: int, lane: int) -> Block | None:
    """Return a lane of an entry of packed memory; None if a part of it is unknown."""
    v = operation.values
    start = v["mem"] * QUARTER_BYTES
    scales = start + LANES * v["g"] * v["nk"] * WORD_BYTES
    elements = memory.read(start + (LANES * entry + lane) * KBLOCK, KBLOCK)
    scale = memory.read(scales + LANES * entry + lane, 1)
    if elements is None or scale is None:
        return None
    return struct.unpack(f"<{KBLOCK}b", elements), scale[0]


def _quantised(operation: Resolved, memory: Memory, row: int, first: int) -> Block | None:
    """Return K elements from `first` on of a row in MX form; None if a part is unknown."""
    v = operation.values
    rows, k = clamp(v["rows"], LANES * v["g"]), clamp(v["k"], KBLOCK * v["nk"])
    true = clamp(k - first, KBLOCK) if row < rows else 0
    start, stride = v["mem"] * QUARTER_BYTES, v["stride"] * WORD_BYTES
    if v["transpose"]:
        pieces = [(start + (first + i) * stride + 2 * row, 2) for i in range(true)]
    else:
        pieces = [(start + row * stride + 2 * first, 2 * true)] if true else []
    data = [memory.read(*piece) for piece in pieces]
    known = b"".join(part for part in data if part is not None)
    if len(known) < 2 * true:
        return None
    codes = struct.unpack(f"<{true}H", known)
    return quantise(codes, v["mode"] == "residual")


# ------------------------------------------------------------------ GEMM


def gemm_wrong(operation: Resolved, cluster: Cluster) -> set[str]:
    """Return the causes for which a `GEMM` is a fault."""
    v = operation.values
    causes: set[str] = set()
    for side, base, groups, stride in (
        ("A", v["a"], v["gm"], v["a_stride"]),
        ("B", v["b"], v["gn"], v["b_stride"]),
    ):
        last = base + (groups - 1) * stride + v["nk"] - 1
        if cluster.l1[side].outside((base, last)):
            causes.add("L1_RANGE")
    if cluster.accumulator.outside((v["acc"], v["acc"] + v["gm"] * v["gn"] - 1)):
        causes.add("ACC_RANGE")
    return causes


def gemm(operation: Resolved, cluster: Cluster) -> None:
    """Contract two regions into a tile, K blocks in ascending order."""
    v = operation.values
    tile = cluster.accumulator
    for kb in range(v["nk"]):
        for g in range(v["gm"]):
            for h in range(v["gn"]):
                place = v["acc"] + g * v["gn"] + h
                fresh = kb == 0 and not v["accumulate"]
                sums = (0,) * (SIDE * SIDE) if fresh else tile.peek(place)
                a = cluster.l1["A"].peek(v["a"] + g * v["a_stride"] + kb)
                b = cluster.l1["B"].peek(v["b"] + h * v["b_stride"] + kb)
                tile.write(place, _multiply(sums, a, b))
                cluster.pairs += 1


@lru_cache(maxsize=1 << 15)
def _multiply(sums: SubTile | None, a: Entry | None, b: Entry | None) -> SubTile | None:
    """Return a sub-tile with the product of two entries added; None if anything is unknown."""
    if sums is None or a is None or b is None:
        return None
    result: list[int] = []
    for row in range(SIDE):
        for column in range(SIDE):
            left, right = a[row], b[column]
            if left is None or right is None:
                return None
            pair = ((list(left[0]), left[1]), (list(right[0]), right[1]))
            result.append(fp32.add(sums[SIDE * row + column], mx.partial(*pair)))
    return tuple(result)


# ------------------------------------------------------------------ DRAIN


def drain_wrong(
    operation: Resolved, unit: Unit, memory: Memory, units: Mapping[int, Unit]
) -> set[str]:
    """Return the causes for which a `DRAIN` is a fault."""
    v = operation.values
    causes: set[str] = set()
    if unit.cluster.accumulator.outside((v["acc"], v["acc"] + v["gm"] * v["gn"] - 1)):
        causes.add("ACC_RANGE")
    if v["order"] == "row":
        return causes | _sending(operation).wrong(memory, units)
    if v["to"] == "memory":
        if v["mem"] % QUARTERS_PER_WORD:
            causes.add("MISALIGNED")
        if not all(memory.holds(place, WORD_BYTES) for place in _tile_order(operation).values()):
            causes.add("MEMORY")
    elif any(
        units[node].core.l1.outside(_tile_order(operation).values()) for node in members(v["nodes"])
    ):
        causes.add("L1_RANGE")
    return causes


def _sending(operation: Resolved) -> Sending:
    v = operation.values
    return Sending(operation, SIDE * v["gm"], SIDE * v["gn"], v["rows"], v["cols"])


def _tile_order(operation: Resolved) -> dict[tuple[int, int, int], int]:
    """Return where each word of each sub-tile goes: a byte of memory, or a word of a vector L1."""
    v = operation.values
    words = SIZES[v["format"]] // 2
    places: dict[tuple[int, int, int], int] = {}
    for g in range(v["gm"]):
        for h in range(v["gn"]):
            for word in range(words):
                offset = g * v["stride"] + h * words + word
                if v["to"] == "memory":
                    places[g, h, word] = v["mem"] * QUARTER_BYTES + offset * WORD_BYTES
                else:
                    places[g, h, word] = v["mem"] + offset
    return places


def drain(operation: Resolved, unit: Unit, memory: Memory, units: Mapping[int, Unit]) -> None:
    """Send a tile to memory or to other units."""
    v = operation.values
    size = SIZES[v["format"]]
    tile = {
        (g, h): unit.cluster.accumulator.read(v["acc"] + g * v["gn"] + h)
        for g in range(v["gm"])
        for h in range(v["gn"])
    }

    def cell(row: int, column: int) -> bytes:
        code = tile[row // SIDE, column // SIDE][SIDE * (row % SIDE) + column % SIDE]
        if size == 2:
            return narrow(code).to_bytes(2, "little")
        return (FP32.nan if FP32.is_nan(code) else code).to_bytes(4, "little")

    sending = _sending(operation)
    if v["order"] == "row":
        rows = [b"".join(cell(r, c) for c in range(SIDE * v["gn"])) for r in range(SIDE * v["gm"])]
        sending.send(rows, memory, units)
        return
    to_memory = v["to"] == "memory"
    for (g, h, word), place in _tile_order(operation).items():
        data = b""
        for index in range(word * WORD_BYTES // size, (word + 1) * WORD_BYTES // size):
            row, column = SIDE * g + index // SIDE, SIDE * h + index % SIDE
            within = row < sending.true_rows and column < sending.true_cols
            data += cell(row, column) if to_memory or within else bytes(size)
        if to_memory:
            for quarter in range(QUARTERS_PER_WORD):
                at = quarter * QUARTER_BYTES
                memory.write_quarter(place + at, data[at : at + QUARTER_BYTES])
        else:
            for node in members(v["nodes"]):
                units[node].core.l1.write(place, data)
