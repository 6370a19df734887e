"""Windows: rows of elements in a vector core's L1 or register file, and when two overlap."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Window(NamedTuple):
    """``rows`` rows of ``cols`` elements of ``size`` bytes, ``stride`` granules apart.

    A granule is what the storage is addressed in: a word of L1, a beat of the register file. Every
    row starts on one.
    """

    base: int
    stride: int
    rows: int
    cols: int
    size: int


def span(window: Window, granule: int) -> int:
    """Return the granules that one row takes."""
    return -(-window.cols * window.size // granule)


def end(window: Window, granule: int) -> int:
    """Return the granule past the last one of the window."""
    return window.base + (window.rows - 1) * window.stride + span(window, granule)


@lru_cache(maxsize=4096)
def disjoint(one: Window, other: Window, granule: int) -> bool:
    """Tell whether two windows of one storage share no granule."""
    if end(one, granule) <= other.base or end(other, granule) <= one.base:
        return True
    low = min(one.base, other.base)
    used = np.zeros(max(end(one, granule), end(other, granule)) - low, np.bool_)
    used[granules(one, granule) - low] = True
    return not used[granules(other, granule) - low].any()


def granules(window: Window, granule: int) -> NDArray[np.intp]:
    """Return the granules of each row, ``[rows, span]``."""
    starts = window.base + np.arange(window.rows) * window.stride
    return starts[:, None] + np.arange(span(window, granule))
