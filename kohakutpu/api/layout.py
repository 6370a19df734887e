"""How the elements of a tensor lie in memory: words from index to index of every axis but the last.

Elements of the last axis follow each other. Pure functions of shapes and strides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu.api.convert import FORMATS
from kohakutpu.config import QUARTER_BYTES, WORD_BYTES

Ints = tuple[int, ...]


def per_word(stored: str) -> int:
    """Return how many elements a word holds."""
    return WORD_BYTES // FORMATS[stored].itemsize


def per_quarter(stored: str) -> int:
    """Return how many elements the unit of addresses holds."""
    return QUARTER_BYTES // FORMATS[stored].itemsize


def row_words(shape: Ints, stored: str) -> int:
    """Return the words of a row."""
    return -(-(shape[-1] if shape else 1) // per_word(stored))


def packed(shape: Ints, stored: str) -> Ints:
    """Return the strides of rows that follow each other."""
    step = row_words(shape, stored)
    strides: list[int] = []
    for extent in reversed(shape[:-1]):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def is_packed(shape: Ints, strides: Ints, stored: str) -> bool:
    """Return whether rows follow each other; an axis of one index may have any stride."""
    pairs = zip(shape, strides, packed(shape, stored), strict=False)
    return all(extent == 1 or step == wanted for extent, step, wanted in pairs)


def regroup(extents: Ints, strides: Ints, wanted: Ints) -> Ints | None:
    """Return strides of `wanted` extents over the same indices in the same order, if there are any.

    Parameters
    ----------
    extents, strides : tuple of int
        The axes there are.
    wanted : tuple of int
        Extents with the same product, which is not 0.
    """
    axes = merged([(n, (step,)) for n, step in zip(extents, strides, strict=True)])
    result: list[int] = []
    left = list(wanted)
    for extent, (step,) in axes:
        taken: list[int] = []
        while math.prod(taken) < extent and left:
            taken.append(left.pop(0))
        if math.prod(taken) != extent:
            return None
        inner = extent
        for each in taken:
            inner //= each
            result.append(step * inner)
    return (*result, *(0 for _ in left))


def merged(axes: Sequence[tuple[int, Ints]]) -> list[tuple[int, Ints]]:
    """Return axes with neighbours made one where every stride allows; those of one index go."""
    result: list[tuple[int, Ints]] = []
    for extent, steps in axes:
        if extent == 1:
            continue
        if result and all(o == extent * i for o, i in zip(result[-1][1], steps, strict=True)):
            result[-1] = (result[-1][0] * extent, steps)
        else:
            result.append((extent, steps))
    return result


def span(shape: Ints, strides: Ints, stored: str) -> tuple[int, int]:
    """Return the first and the end of the bytes of a tensor, counted from its first element."""
    reach = [(n - 1) * step * WORD_BYTES for n, step in zip(shape, strides, strict=False)]
    row = (shape[-1] if shape else 1) * FORMATS[stored].itemsize
    return sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + row


def gather(content: Any, start: int, shape: Ints, strides: Ints, stored: str) -> NDArray[Any]:
    """Return the tensor whose first element is at byte `start` of `content`, as an array."""
    dtype = FORMATS[stored]
    steps = [step * WORD_BYTES for step in strides]
    if shape:
        steps.append(dtype.itemsize)
    return np.array(np.ndarray(shape, dtype, content, start, steps), order="C")
