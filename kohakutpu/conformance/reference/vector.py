"""`VFILL`, `EXEC` and `VDRAIN`, as ``docs/machine.md`` states them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache

from kohakutpu.config import LANES, QUARTER_BYTES, WORD_BYTES
from kohakutpu.conformance.reference.storage import Memory
from kohakutpu.conformance.reference.transfer import SIZES, Row, Sending, mask, words
from kohakutpu.conformance.reference.unit import Core, Unit
from kohakutpu.conformance.reference.values import Resolved, Window, clamp
from kohakutpu.numerics.scalar import fp32, reduction, seeds
from kohakutpu.numerics.scalar.formats import narrow, widen

ONE = 0x3F800000
MINUS_ZERO = 0x80000000

_widen = lru_cache(maxsize=None)(widen)  # there are 65536

Element = Callable[[int, int | None, int | None], int]


def _pair(operation: Callable[[int, int], int]) -> Element:
    def value(a: int, b: int | None, c: int | None) -> int:
        assert b is not None, "a pair has two operands"
        return operation(a, b)

    return value


def _mac(a: int, b: int | None, c: int | None) -> int:
    product = fp32.canonical(a) if b is None else fp32.mul(a, b)
    return product if c is None else fp32.add(product, c)


def _select(a: int, b: int | None, c: int | None) -> int:
    assert b is not None, "select has three operands"
    assert c is not None, "select has three operands"
    return fp32.select(c, a, b)


FUNCTIONS: dict[str, Element] = {
    "mac": _mac,
    "max": _pair(fp32.maximum),
    "min": _pair(fp32.minimum),
    "lt": _pair(fp32.lt),
    "le": _pair(fp32.le),
    "eq": _pair(fp32.eq),
    "select": _select,
}
UNARIES: dict[str, Callable[[int], int]] = {
    "none": lambda x: x,
    "abs": fp32.absolute,
    "neg": fp32.neg,
    "exp2": seeds.exp2,
    "log2": seeds.log2,
    "recip": seeds.recip,
    "rsqrt": seeds.rsqrt,
}
REDUCTIONS = {"sum": reduction.row_sum, "max": reduction.row_max, "min": reduction.row_min}


# ------------------------------------------------------------------ VFILL


def _requested(operation: Resolved) -> list[tuple[int, int]]:
    """Return address and length, in bytes, of every run of memory that a `VFILL` looks at."""
    v = operation.values
    length = clamp(v["col_extent"], v["cols"]) * SIZES[v["format"]]
    rows = clamp(v["row_extent"], v["rows"]) if length else 0
    start = v["mem"] * QUARTER_BYTES
    return [(start + row * v["stride"] * WORD_BYTES, length) for row in range(rows)]


def vfill_wrong(operation: Resolved, unit: Unit, memory: Memory) -> set[str]:
    """Return the causes for which a `VFILL` is a fault."""
    v = operation.values
    causes: set[str] = set()
    last = v["l1"] + (v["rows"] - 1) * v["l1_stride"] + words(v["cols"], SIZES[v["format"]]) - 1
    if unit.core.l1.outside((v["l1"], last)):
        causes.add("L1_RANGE")
    if not all(memory.holds(*piece) for piece in _requested(operation)):
        causes.add("MEMORY")
    return causes


def vfill(operation: Resolved, to: list[Unit], memory: Memory) -> None:
    """Copy rows from memory to L1 of each receiver."""
    v = operation.values
    size = SIZES[v["format"]]
    rows: list[Row] = [memory.read(*piece) for piece in _requested(operation)]
    rows += [b""] * (v["rows"] - len(rows))
    kept = clamp(v["col_extent"], v["cols"])
    for unit in to:
        for number, row in enumerate(rows):
            masked = mask(row, 0 if row == b"" else kept, size, v["cols"])
            for w in range(words(v["cols"], size)):
                cell = None if masked is None else masked[w * WORD_BYTES : (w + 1) * WORD_BYTES]
                unit.core.l1.write(v["l1"] + number * v["l1_stride"] + w, cell)


# ------------------------------------------------------------------ EXEC


class Places:
    """The cells that an operand window of `EXEC` covers, row by row.

    `kind` is one of ``reg l1h l1f row``; a `row` window has one cell, of which one lane counts.
    """

    def __init__(self, window: Window, rows: int, cols: int, lanes: int) -> None:
        self.window = window
        self.rows = rows
        self.lanes = lanes
        self.registers = window.kind in ("reg", "row")
        if window.kind == "row":
            self.length = 1
        elif window.kind == "reg":
            self.length = -(-cols // lanes)
        else:
            self.length = words(cols, 2 if window.kind == "l1h" else 4)

    def first(self, row: int) -> int:
        """Return the first cell of a row."""
        if self.window.kind == "row":
            return self.window.base + row // self.lanes
        return self.window.base + row * self.window.stride

    def cells(self) -> set[int]:
        """Return every cell."""
        rows = range(self.rows) if self.window.kind == "row" or self.window.stride else range(1)
        return {self.first(row) + i for row in rows for i in range(self.length)}

    def outside(self, core: Core) -> bool:
        """Return whether the window leaves its storage."""
        ends = (self.window.base, self.first(self.rows - 1) + self.length - 1)
        return (core.registers if self.registers else core.l1).outside(ends)

    def meets(self, other: Places) -> bool:
        """Return whether two windows share a cell."""
        return self.registers == other.registers and not self.cells().isdisjoint(other.cells())

    def same(self, other: Places) -> bool:
        """Return whether two windows are one: same base, stride and format."""
        return self.window == other.window

    def read(self, row: int, cols: int, core: Core) -> list[int]:
        """Return the elements of a row as FP32 codes."""
        first = self.first(row)
        if self.window.kind == "row":
            return [core.registers.read(first)[row % self.lanes]] * cols
        if self.window.kind == "reg":
            beats = [core.registers.read(first + i) for i in range(self.length)]
            return [code for beat in beats for code in beat][:cols]
        data = b"".join(core.l1.read(first + i) for i in range(self.length))
        if self.window.kind == "l1f":
            return list(struct.unpack_from(f"<{cols}I", data))
        return [_widen(code) for code in struct.unpack_from(f"<{cols}H", data)]

    def write(self, row: int, codes: list[int], core: Core) -> None:
        """Write the elements of a row; the rest of its last cell becomes zero."""
        first = self.first(row)
        if self.window.kind == "reg":
            codes = codes + [0] * (self.length * self.lanes - len(codes))
            for i in range(self.length):
                core.registers.write(first + i, tuple(codes[i * self.lanes : (i + 1) * self.lanes]))
            return
        half = self.window.kind == "l1h"
        stored = [narrow(code) for code in codes] if half else codes
        data = struct.pack(f"<{len(stored)}{'H' if half else 'I'}", *stored)
        data += bytes(self.length * WORD_BYTES - len(data))
        for i in range(self.length):
            core.l1.write(first + i, data[i * WORD_BYTES : (i + 1) * WORD_BYTES])


def _windows(operation: Resolved, lanes: int) -> dict[str, Places]:
    """Return the windows of an `EXEC` by operand; immediates and absent operands are none."""
    v = operation.values
    operands = {name: v[name] for name in ("a", "b", "c", "dst")}
    if v["reduce"] != "none":
        operands["red"] = Window("row", 0, v["red"], 0)
    return {
        name: Places(window, v["rows"], v["cols"], lanes)
        for name, window in operands.items()
        if window.kind not in ("none", "imm")
    }


def exec_wrong(operation: Resolved, core: Core) -> set[str]:
    """Return the causes for which an `EXEC` is a fault."""
    windows = _windows(operation, core.lanes)
    causes = {
        "REG_RANGE" if window.registers else "L1_RANGE"
        for window in windows.values()
        if window.outside(core)
    }
    if causes:
        return causes
    destinations = [windows[name] for name in ("dst", "red") if name in windows]
    for destination in destinations:
        for name in "abc":
            source = windows.get(name)
            if source and not destination.same(source) and destination.meets(source):
                return {"OVERLAP"}
    if len(destinations) == 2 and destinations[0].meets(destinations[1]):
        return {"OVERLAP"}
    dst = windows.get("dst")
    if dst and dst.rows > 1 and dst.window.stride < dst.length:
        return {"OVERLAP"}
    return set()


def execute(operation: Resolved, core: Core) -> None:
    """Compute rows of elements, and reduce them."""
    v = operation.values
    windows = _windows(operation, core.lanes)
    function, unary = FUNCTIONS[v["f"]], UNARIES[v["unary"]]
    results: list[list[int]] = []
    for row in range(v["rows"]):
        operands: list[list[int] | list[None]] = []
        for name in "abc":
            if name in windows:
                operands.append(windows[name].read(row, v["cols"], core))
            elif v[name].kind == "imm":
                operands.append([v[name].bits] * v["cols"])
            else:
                operands.append([None] * v["cols"])
        triples = zip(*operands, strict=True)
        results.append([unary(function(a or 0, b, c)) for a, b, c in triples])
    if "dst" in windows:
        for row, codes in enumerate(results):
            windows["dst"].write(row, codes, core)
    if "red" in windows:
        scalars = [REDUCTIONS[v["reduce"]](codes) for codes in results]
        scalars += [0] * (-len(scalars) % core.lanes)
        for beat in range(len(scalars) // core.lanes):
            codes = scalars[beat * core.lanes : (beat + 1) * core.lanes]
            core.registers.write(v["red"] + beat, tuple(codes))


# ------------------------------------------------------------------ VDRAIN


def _cells(operation: Resolved) -> list[list[tuple[int, int, int]]]:
    """Return for each row of the window the pieces it is made of: word, first byte, bytes."""
    v = operation.values
    size = SIZES[v["format"]]
    rows: list[list[tuple[int, int, int]]] = []
    for row in range(v["rows"]):
        if v["order"] == "row":
            start = v["l1"] + row * v["l1_stride"]
            length = words(v["cols"], size)
            rows.append([(start + w, 0, WORD_BYTES) for w in range(length)])
            continue
        pieces: list[tuple[int, int, int]] = []
        for h in range(v["cols"] // LANES):
            start = v["l1"] + row // LANES * v["l1_stride"] + h * (size // 2)
            word, byte = divmod(row % LANES * LANES * size, WORD_BYTES)
            pieces.append((start + word, byte, LANES * size))
        rows.append(pieces)
    return rows


def vdrain_wrong(
    operation: Resolved, unit: Unit, memory: Memory, units: Mapping[int, Unit]
) -> set[str]:
    """Return the causes for which a `VDRAIN` is a fault."""
    cells = (word for row in _cells(operation) for word, _, _ in row)
    causes = {"L1_RANGE"} if unit.core.l1.outside(cells) else set[str]()
    causes |= _sending(operation).wrong(memory, units)
    v = operation.values
    if not causes and v["to"] == "node" and v["buffer"] == "vector" and v["nodes"] >> unit.node & 1:
        read = [word for row in _cells(operation) for word, _, _ in row]
        length = words(v["cols"], SIZES[v["format"]])
        landed = [v["mem"] + row * v["stride"] for row in range(v["rows"])]
        if min(read) < max(landed) + length and min(landed) <= max(read):
            return {"OVERLAP"}
    return causes


def _sending(operation: Resolved) -> Sending:
    v = operation.values
    return Sending(operation, v["rows"], v["cols"], v["row_extent"], v["col_extent"])


def vdrain(operation: Resolved, unit: Unit, memory: Memory, units: Mapping[int, Unit]) -> None:
    """Send a window of L1 to memory or to other units."""
    l1 = unit.core.l1
    rows: list[Row] = []
    for pieces in _cells(operation):
        known = b""
        for number, byte, length in pieces:
            word = l1.peek(number)
            if word is None:
                break
            known += word[byte : byte + length]
        rows.append(known)
    _sending(operation).send(rows, memory, units)
