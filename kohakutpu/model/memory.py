"""The memory of the golden machine: one array, page stamps, and what was ever written.

A *stamp* is drawn from a counter at every write and kept for each page: what was derived from
some pages is still right while the largest stamp among them is unchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu.config import QUARTER_BYTES, QUARTERS_PER_WORD, WORD_BYTES
from kohakutpu.model.faults import Violation

PAGE_SHIFT = 16  # 64 KiB: a stamp costs little, and a tile of an operand touches few
POISON = 0xFF  # every byte: NaN as FP16 and as FP32


class Memory:
    """``words`` words of memory.

    Parameters
    ----------
    words : int
        Words of 32 bytes.
    poison : bool
        Remember which quarters were written; reading another one as data is a violation.
    """

    def __init__(self, words: int, poison: bool = False) -> None:
        self.nbytes = words * WORD_BYTES
        # Zero pages come from the operating system when they are touched, not here.
        self.data: NDArray[np.uint8] = np.zeros(self.nbytes, np.uint8)
        self._stamps = np.zeros((self.nbytes >> PAGE_SHIFT) + 1, np.int64)
        self._clock = 0
        self.written: NDArray[np.bool_] | None = None
        if poison:
            self.written = np.zeros(self.nbytes // QUARTER_BYTES, np.bool_)
            self._touched = np.zeros(len(self._stamps), np.bool_)

    # ------------------------------------------------------------------ host

    def write(self, address: int, data: bytes | bytearray | NDArray[Any]) -> None:
        """Write bytes, or the bytes of an array in C order, at byte `address`.

        Raises
        ------
        ValueError
            If it does not fit the memory.
        """
        source = (
            np.frombuffer(data, np.uint8)
            if isinstance(data, (bytes, bytearray))
            else np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        )
        self._host_range(address, source.size)
        if source.size:
            self.changed(address, address + source.size)
            self.data[address : address + source.size] = source

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a copy of `nbytes` bytes at byte `address`.

        Raises
        ------
        ValueError
            If they are not all in the memory.
        """
        self._host_range(address, nbytes)
        return self.data[address : address + nbytes].copy()

    def view(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a read-only view of `nbytes` bytes at byte `address`, valid until the next run.

        Raises
        ------
        ValueError
            If they are not all in the memory.
        """
        self._host_range(address, nbytes)
        result = self.data[address : address + nbytes]
        result.flags.writeable = False
        return result

    def poison(self, address: int, nbytes: int) -> None:
        """Make quarters unwritten again, as a fresh allocation is; NaN patterns fill them.

        Without the option ``poison`` of the machine it only writes the patterns.

        Raises
        ------
        ValueError
            If the range leaves the memory or does not consist of whole quarters.
        """
        self._host_range(address, nbytes)
        if address % QUARTER_BYTES or nbytes % QUARTER_BYTES:
            raise ValueError(f"{nbytes} bytes at {address} are not whole quarters of 8 bytes")
        if nbytes:
            self.changed(address, address + nbytes)
            self.data[address : address + nbytes] = POISON
            if self.written is not None:
                first = address // QUARTER_BYTES
                self.written[first : first + nbytes // QUARTER_BYTES] = False

    def _host_range(self, address: int, nbytes: int) -> None:
        if address < 0 or nbytes < 0 or address + nbytes > self.nbytes:
            raise ValueError(
                f"{nbytes} bytes at {address} do not lie in the memory of {self.nbytes} bytes"
            )

    # ---------------------------------------------------------------- device

    def stamp(self, first: int, end: int) -> int:
        """Return the largest stamp among the pages of bytes `first` to `end`."""
        return int(self._stamps[first >> PAGE_SHIFT : (end - 1 >> PAGE_SHIFT) + 1].max())

    def changed(self, first: int, end: int) -> None:
        """Note a write to bytes `first` to `end`: stamps, and first use under poison."""
        low, high = first >> PAGE_SHIFT, (end - 1 >> PAGE_SHIFT) + 1
        self._clock += 1
        self._stamps[low:high] = self._clock
        if self.written is not None:
            for page in range(low, high):
                if not self._touched[page]:
                    self._touched[page] = True
                    self.data[page << PAGE_SHIFT : (page + 1) << PAGE_SHIFT] = POISON
            self.written[first // QUARTER_BYTES : -(-end // QUARTER_BYTES)] = True

    def load(self, quarter: int, rows: int, stride: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a view of rows that are read as data.

        Parameters
        ----------
        quarter : int
            Where the first row starts.
        rows, stride, nbytes : int
            Rows, words from one to the next, bytes of each; not 0.

        Returns
        -------
        ndarray of uint8
            ``[rows, nbytes]``, valid until the next write.

        Raises
        ------
        Violation
            ``MEMORY`` past the end of memory, ``UNWRITTEN`` under poison.
        """
        view = self._rows(quarter, rows, stride, nbytes)
        if self.written is not None:
            for row in range(rows):
                first = quarter + row * stride * QUARTERS_PER_WORD
                have = self.written[first : first - (-nbytes // QUARTER_BYTES)]
                if not have.all():
                    bad = first + int(np.argmin(have))
                    raise Violation(
                        "UNWRITTEN",
                        f"quarter {bad} of memory (byte {bad * QUARTER_BYTES}) is read as data, "
                        f"row {row} of the window at quarter {quarter}, and nobody has written it",
                        buffer="memory",
                        index=bad,
                        row=row,
                    )
        return view

    def store(self, quarter: int, stride: int, data: NDArray[Any]) -> None:
        """Write rows of whole quarters.

        Parameters
        ----------
        quarter, stride : int
            Where the first row starts; words from one to the next.
        data : ndarray
            ``[rows, elements]``, a multiple of 8 bytes a row, neither 0.

        Raises
        ------
        Violation
            ``MEMORY`` past the end of memory.
        """
        rows, nbytes = data.shape[0], data.shape[1] * data.itemsize
        view = self._rows(quarter, rows, stride, nbytes).view(data.dtype)
        self.note(quarter, rows, stride, nbytes)
        if stride * WORD_BYTES < nbytes and rows > 1:  # rows overlap: the last one written stays
            for row in range(rows):
                view[row] = data[row]
        else:
            view[:] = data

    def note(self, quarter: int, rows: int, stride: int, nbytes: int) -> None:
        """Note that rows of whole quarters are written; their data comes after this."""
        start = quarter * QUARTER_BYTES
        last = start + (rows - 1) * stride * WORD_BYTES + nbytes
        if self.written is None:
            self.changed(start, last)
            return
        before = self.written[quarter : last // QUARTER_BYTES].copy()
        self.changed(start, last)
        self.written[quarter : last // QUARTER_BYTES] = before
        for row in range(rows):
            first = quarter + row * stride * QUARTERS_PER_WORD
            self.written[first : first + nbytes // QUARTER_BYTES] = True

    def flush(self) -> None:
        """Do stores that wait; here none does."""

    def _rows(self, quarter: int, rows: int, stride: int, nbytes: int) -> NDArray[np.uint8]:
        start = quarter * QUARTER_BYTES
        if start + (rows - 1) * stride * WORD_BYTES + nbytes > self.nbytes:
            raise Violation(
                "MEMORY",
                f"{rows} rows of {nbytes} bytes from quarter {quarter}, {stride} words apart, end "
                f"past the memory of {self.nbytes // WORD_BYTES} words",
                quarter=quarter,
                rows=rows,
                stride=stride,
                nbytes=nbytes,
                words=self.nbytes // WORD_BYTES,
            )
        return np.ndarray(
            (rows, nbytes), np.uint8, buffer=self.data, offset=start,
            strides=(stride * WORD_BYTES, 1),
        )  # fmt: skip
