"""Functions of an FP16 number as tables of all 65,536 codes.

An EXEC whose only operand that varies is one FP16 window computes a function of a 16 bit code.
Over many elements it is cheaper to work the function out once for every code, with the very code
that computes elements, and to look elements up. A `Tabulated` value is not even looked up: it is
a table and the codes, and another function of it is another table for the same codes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from kohakutpu.model import arithmetic
from kohakutpu.numerics import fp16, fp32

CODES = 1 << 16
IDENTITY = 0  # the number of the table that holds each code's own value
KEPT = 64  # tables of 256 KiB (FP32) to 384 KiB (and FP16)
# How many elements a function is computed for one by one before it gets a table: as many as the
# table has, so that at most twice the least work is done.
PATIENCE = CODES

# f, unary, and for each operand the number of its table, or the complement of an immediate.
Key = tuple[str | int | None, ...]


class Table:
    """A function of an FP16 code.

    Attributes
    ----------
    number : int
        Tells tables apart.
    fp32 : ndarray of float32
        Its value for each code.
    """

    __slots__ = ("_fp16", "fp32", "number", "rounded")

    def __init__(
        self, number: int, fp32: NDArray[np.float32], fp16: NDArray[np.uint16] | None = None
    ) -> None:
        self.number = number
        self.fp32 = fp32
        self._fp16 = fp16
        self.rounded: Table | None = None

    @property
    def fp16(self) -> NDArray[np.uint16]:
        """Its value for each code, rounded to FP16."""
        if self._fp16 is None:
            self._fp16 = fp16.from_fp32(self.fp32)
        return self._fp16

    def look_up(self, codes: NDArray[np.uint16]) -> NDArray[np.float32]:
        """Return the values of an array of codes."""
        if self.number == IDENTITY:
            return fp16.to_fp32(codes)
        return self.fp32.take(codes, mode="clip")


@final
class Tabulated:
    """FP32 values that are a function of FP16 codes, looked up only when somebody needs them.

    Attributes
    ----------
    table : Table
        The function.
    codes : ndarray of uint16
        What it is applied to, ``[rows, cols]``; nobody may change it.
    """

    __slots__ = ("_values", "codes", "table")

    def __init__(self, table: Table, codes: NDArray[np.uint16]) -> None:
        self.table = table
        self.codes = codes
        self._values: NDArray[np.float32] | None = None

    @property
    def values(self) -> NDArray[np.float32]:
        """The values, ``[rows, cols]``."""
        if self._values is None:
            self._values = self.table.look_up(self.codes)
        return self._values

    def halves(self) -> NDArray[np.uint16]:
        """Return the values rounded to FP16, as codes."""
        if self.table.number == IDENTITY:
            return self.codes
        return self.table.fp16.take(self.codes, mode="clip")


class Tables:
    """The tables of a machine, the most recently used ones kept."""

    def __init__(self) -> None:
        codes = np.arange(CODES, dtype=np.uint16)
        # As FP16 it keeps the payload of NaNs, with which nobody has computed.
        self.identity = Table(IDENTITY, fp16.to_fp32(codes), codes)
        self._count = IDENTITY + 1
        # Once EXEC has copied it, somebody has.
        self.identity.rounded = self._make(self.identity.fp32)
        self._tables: OrderedDict[Key, Table] = OrderedDict()
        self._seen: OrderedDict[Key, int] = OrderedDict()

    def apply(self, f: str, unary: str, operands: Sequence[Any]) -> Tabulated | None:
        """Return ``unary(f(a, b, c))`` as a table, None if that does not pay yet.

        Parameters
        ----------
        f, unary : str
            As in EXEC.
        operands : sequence
            Three: None, an FP32 scalar, or `Tabulated` values of the same codes.
        """
        codes = next(operand.codes for operand in operands if type(operand) is Tabulated)
        keys: list[int | None] = []
        for operand in operands:
            if operand is None:
                keys.append(None)
            elif type(operand) is Tabulated:
                keys.append(operand.table.number)
            else:
                keys.append(~int(operand.view(np.uint32)))
        if keys[1] is None and keys[2] is None and f == "mac" and unary == "none":
            return operands[0]  # what a table holds is in canonical form
        key: Key = (f, unary, *keys)
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
            return Tabulated(table, codes)
        seen = self._seen.pop(key, 0) + codes.size
        if seen < PATIENCE:
            self._seen[key] = seen
            if len(self._seen) > 16 * KEPT:
                self._seen.popitem(last=False)
            return None
        inputs = [o.table.fp32 if type(o) is Tabulated else o for o in operands]
        table = self._make(arithmetic.combine(f, unary, inputs, clean=True))
        self._tables[key] = table
        if len(self._tables) > KEPT:
            self._tables.popitem(last=False)
        return Tabulated(table, codes)

    def rounded(self, table: Table) -> Table:
        """Return `table` rounded to FP16 and read back."""
        if table.rounded is None:
            table.rounded = self._make(fp16.to_fp32(table.fp16), table.fp16)
        return table.rounded

    def _make(self, values: NDArray[np.float32], half: NDArray[np.uint16] | None = None) -> Table:
        table = Table(self._count, fp32.canonical(values), half)
        self._count += 1
        return table
