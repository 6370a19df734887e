"""What a FILL brings from memory: rows through the quantiser, or packed entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kohakutpu.config import KBLOCK, LANES, QUARTER_BYTES, WORD_BYTES
from kohakutpu.model.entries import Region
from kohakutpu.model.memory import Memory
from kohakutpu.numerics import mx


class Pattern(NamedTuple):
    """The fields of a FILL that say what it reads."""

    mode: str
    transpose: bool
    stride: int
    g: int
    nk: int


class Loader:
    """Load regions, working out each anew."""

    def load(self, memory: Memory, pattern: Pattern, mem: int, rows: int, k: int) -> Region:
        """Return the region at quarter `mem`.

        Parameters
        ----------
        memory : Memory
            Where it lies.
        pattern : Pattern
            How it lies there.
        mem, rows, k : int
            First quarter, a whole word; true rows and K elements.

        Raises
        ------
        Violation
            ``MEMORY``, ``UNWRITTEN``.
        """
        if pattern.mode == "packed":
            return _packed(memory, pattern.g, pattern.nk, mem)
        codes = _codes(memory, pattern, mem, rows, k)
        return Region(*mx.quantise(codes, pattern.mode == "residual"))

    def reset(self) -> None:
        """Forget what earlier runs left."""


def extent(pattern: Pattern, mem: int, rows: int, k: int) -> tuple[int, int]:
    """Return the bytes, first and past the last, that `Loader.load` looks at."""
    first = mem * QUARTER_BYTES
    if pattern.mode == "packed":
        return first, first + mx.region_words(pattern.g * pattern.nk) * WORD_BYTES
    if rows == 0 or k == 0:
        return first, first
    lines, elements = (k, rows) if pattern.transpose else (rows, k)
    return first, first + (lines - 1) * pattern.stride * WORD_BYTES + 2 * elements


def _codes(
    memory: Memory, pattern: Pattern, mem: int, rows: int, k: int
) -> NDArray[np.uint16]:  # fmt: skip
    """Return ``[4 * g, 32 * nk]`` FP16 codes, zero at and past the extents."""
    shape = (pattern.g * LANES, pattern.nk * KBLOCK)
    if rows == 0 or k == 0:
        return np.zeros(shape, np.uint16)
    if pattern.transpose:
        found = memory.load(mem, k, pattern.stride, 2 * rows).view("<u2").T
    else:
        found = memory.load(mem, rows, pattern.stride, 2 * k).view("<u2")
    if found.shape == shape:
        return np.ascontiguousarray(found)
    codes = np.zeros(shape, np.uint16)
    codes[:rows, :k] = found
    return codes


def _packed(memory: Memory, g: int, nk: int, mem: int) -> Region:
    words = mx.region_words(g * nk)
    data = memory.load(mem, 1, 0, words * WORD_BYTES).reshape(words, WORD_BYTES)
    return Region(*mx.unpack_region(data.copy(), g, nk))
