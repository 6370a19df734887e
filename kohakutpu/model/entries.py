"""L1A and L1B: entries of 4 rows by 32 K elements in MX form, 4 scales each.

`Entries` is the plain form; `regions.RegionEntries` behaves the same and keeps whole regions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kohakutpu.config import KBLOCK, LANES
from kohakutpu.model.faults import Violation
from kohakutpu.numerics import mx


class Region(mx.Operand):
    """Rows of an operand in MX form; immutable, so receivers and memos share it."""

    def part(self, row: int, rows: int, block: int, nk: int) -> Region:
        """Return `rows` rows from `row` on, `nk` blocks from `block` on."""
        down, across = slice(row, row + rows), slice(block, block + nk)
        result = Region(self.elements[down, across], self.scales[down, across])
        # What a matrix product wants is worked out once, for the whole.
        result.left = self.left[across, down]
        result.right = self.right[across, :, down]
        return result


class Entries:
    """``count`` entries.

    Parameters
    ----------
    name : str
        ``"L1A"`` or ``"L1B"``.
    count : int
        Its size.
    poison : bool
        Reading a lane of an entry that nobody has written is a violation.
    """

    def __init__(self, name: str, count: int, *, poison: bool) -> None:
        self.name = name
        self.count = count
        self.elements: NDArray[np.int8] = np.zeros((count, LANES, KBLOCK), np.int8)
        self.scales: NDArray[np.uint8] = np.zeros((count, LANES), np.uint8)
        self.written: NDArray[np.bool_] | None = (
            np.zeros((count, LANES), np.bool_) if poison else None
        )

    def reset(self) -> None:
        """Forget everything."""
        self.elements.fill(0)
        self.scales.fill(0 if self.written is None else 0xFF)  # 0xFF: NaN
        if self.written is not None:
            self.written.fill(False)

    def check(self, base: int, stride: int, g: int, nk: int) -> None:
        """Check that a region lies in the buffer.

        Raises
        ------
        Violation
            ``L1_RANGE`` if it does not.
        """
        last = base + (g - 1) * stride + nk
        if last > self.count:
            raise Violation(
                "L1_RANGE",
                f"{g} groups of {nk} entries at {base}, stride {stride}, end at {last}, past the "
                f"{self.count} of {self.name}",
                base=base,
                stride=stride,
                g=g,
                nk=nk,
                end=last,
                capacity=self.count,
            )

    def read(self, base: int, stride: int, g: int, nk: int) -> Region:
        """Return a region.

        Raises
        ------
        Violation
            ``UNWRITTEN`` under poison.
        """
        index = _index(base, stride, g, nk)
        if self.written is not None and not self.written[index].all():
            group, block, lane = (int(i[0]) for i in np.nonzero(~self.written[index]))
            entry = int(index[group, block])
            raise Violation(
                "UNWRITTEN",
                f"entry {entry} of {self.name}, lane {lane}, is read as data and nobody has "
                "written it",
                buffer=self.name,
                index=entry,
                lane=lane,
            )
        elements = self.elements[index].transpose(0, 2, 1, 3).reshape(g * LANES, nk, KBLOCK)
        scales = self.scales[index].transpose(0, 2, 1).reshape(g * LANES, nk)
        return Region(elements, scales)

    def write(self, base: int, stride: int, region: Region) -> None:
        """Write a region, group after group; lanes past its last row stay as they are."""
        rows, nk, _ = region.elements.shape
        for row in range(0, rows, LANES):
            lanes = min(LANES, rows - row)
            first = base + row // LANES * stride
            part = slice(row, row + lanes)
            self.elements[first : first + nk, :lanes] = region.elements[part].transpose(1, 0, 2)
            self.scales[first : first + nk, :lanes] = region.scales[part].T
            if self.written is not None:
                self.written[first : first + nk, :lanes] = True


def _index(base: int, stride: int, g: int, nk: int) -> NDArray[np.intp]:
    return (base + np.arange(g) * stride)[:, None] + np.arange(nk)
