"""Rows that leave a unit: to memory, to a vector L1, or through a quantiser to L1A and L1B."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kohakutpu.config import KBLOCK, LANES, QUARTER_BYTES, QUARTERS_PER_WORD, WORD_BYTES
from kohakutpu.conformance.reference.faults import Undefined
from kohakutpu.conformance.reference.storage import Block, Memory
from kohakutpu.conformance.reference.values import Resolved, clamp, members
from kohakutpu.numerics.scalar import mx

if TYPE_CHECKING:
    from kohakutpu.conformance.reference.unit import Cluster, Core, Unit

SIZES = {"fp16": 2, "fp32": 4}
Row = bytes | None
"""The bytes of a row as far as they are known; None if none of it is."""


def words(elements: int, size: int) -> int:
    """Return the words that a row of elements takes."""
    return -(-elements * size // WORD_BYTES)


@lru_cache(maxsize=1 << 16)
def quantise(codes: tuple[int, ...], residual: bool) -> Block:
    """Return a block of FP16 codes in MX form, short ones completed with zeros."""
    elements, scale = mx.quantise_block([*codes, *[0] * (KBLOCK - len(codes))], residual)
    return tuple(elements), scale


def mask(row: Row, kept: int, size: int, elements: int) -> Row:
    """Return whole words of a row of `elements`, those from `kept` on as zeros."""
    length = words(elements, size) * WORD_BYTES
    if kept <= 0:
        return bytes(length)
    if row is None or len(row) < kept * size:
        return None
    data = row[: kept * size]
    return data + bytes(length - len(data))


class Sending:
    """What `DRAIN` and `VDRAIN` do with rows, once they have them.

    Parameters
    ----------
    operation : Resolved
        The instruction, with `mem`, `stride`, `to`, `nodes`, `buffer`, `residual`, `format`.
    rows, cols : int
        Size of the window, in elements.
    row_extent, col_extent : int
        Extents, not yet clamped.
    """

    def __init__(
        self, operation: Resolved, rows: int, cols: int, row_extent: int, col_extent: int
    ) -> None:
        self.values = operation.values
        self.size = SIZES[self.values["format"]]
        self.rows, self.cols = rows, cols
        self.true_rows = clamp(row_extent, rows)
        self.true_cols = clamp(col_extent, cols)

    def _quarters(self) -> list[tuple[int, int]]:
        """Return row and quarter in it of everything that goes to memory."""
        count = -(-self.true_cols * self.size // QUARTER_BYTES)
        return [(row, quarter) for row in range(self.true_rows) for quarter in range(count)]

    def _place(self, row: int, quarter: int) -> int:
        """Return the byte address of a quarter in memory."""
        start = self.values["mem"] + QUARTERS_PER_WORD * row * self.values["stride"]
        return (start + quarter) * QUARTER_BYTES

    def _receivers(self, units: Mapping[int, Unit]) -> list[Unit]:
        return [units[node] for node in members(self.values["nodes"])]

    def wrong(self, memory: Memory, units: Mapping[int, Unit]) -> set[str]:
        """Return the causes for which rows cannot be sent in row order."""
        if self.values["to"] == "memory":
            holds = all(memory.holds(self._place(*q), QUARTER_BYTES) for q in self._quarters())
            return set() if holds else {"MEMORY"}
        if self.values["buffer"] == "vector":
            length = words(self.cols, self.size)
            places = (self.word(row, w) for row in range(self.rows) for w in range(length))
            outside = [core.l1.outside(places) for core in self._cores(units)][:1]
        else:
            length = words(self.cols, self.size)
            places = (self.entry(row, w) for row in range(self.rows) for w in range(length))
            outside = [c.l1[self._side()].outside(places) for c in self._clusters(units)][:1]
        return {"L1_RANGE"} if any(outside) else set()

    def _cores(self, units: Mapping[int, Unit]) -> list[Core]:
        return [units[node].core for node in members(self.values["nodes"])]

    def _clusters(self, units: Mapping[int, Unit]) -> list[Cluster]:
        return [units[node].cluster for node in members(self.values["nodes"])]

    def _side(self) -> str:
        return {"l1a": "A", "l1b": "B"}[self.values["buffer"]]

    def word(self, row: int, word: int) -> int:
        """Return where a word of a row lands in a vector L1."""
        return self.values["mem"] + row * self.values["stride"] + word

    def entry(self, row: int, word: int) -> int:
        """Return the entry of L1A or L1B in which a word of a row lands."""
        return self.values["mem"] + row // LANES * self.values["stride"] + word // 2

    def send(self, rows: Sequence[Row], memory: Memory, units: Mapping[int, Unit]) -> None:
        """Send rows in row order.

        Raises
        ------
        Undefined
            If a part that nobody wrote would go where it shows.
        """
        if self.values["to"] == "memory":
            self._send_to_memory(rows, memory)
            return
        masked = [
            mask(row, self.true_cols if number < self.true_rows else 0, self.size, self.cols)
            for number, row in enumerate(rows)
        ]
        if self.values["buffer"] == "vector":
            for core in self._cores(units):
                for number, row in enumerate(masked):
                    for w in range(words(self.cols, self.size)):
                        cell = None if row is None else row[w * WORD_BYTES : (w + 1) * WORD_BYTES]
                        core.l1.write(self.word(number, w), cell)
            return
        for cluster in self._clusters(units):
            for number, row in enumerate(masked):
                self._send_blocks(number, row, cluster)

    def _send_to_memory(self, rows: Sequence[Row], memory: Memory) -> None:
        for number, quarter in self._quarters():
            data = (rows[number] or b"")[quarter * QUARTER_BYTES : (quarter + 1) * QUARTER_BYTES]
            if len(data) < QUARTER_BYTES:
                raise Undefined(f"row {number} goes to memory and is not known")
            memory.write_quarter(self._place(number, quarter), data)

    def _send_blocks(self, number: int, row: Row, cluster: Cluster) -> None:
        if row is None:
            raise Undefined(f"row {number} goes through a quantiser and is not known")
        codes = struct.unpack(f"<{len(row) // 2}H", row)
        for first in range(0, len(codes), KBLOCK):
            block = quantise(codes[first : first + KBLOCK], self.values["residual"])
            entry = self.entry(number, first // (KBLOCK // 2))
            cluster.write_lane(self._side(), entry, number % LANES, block)
