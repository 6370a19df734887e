"""Row reductions of FP32 in one defined order, a function of the element's index alone.

Elements 0 to 15 of a row are group 0, the next 16 group 1, and so on. A group is summed as a tree
of adjacent pairs, ``((0+1)+(2+3)) + ((4+5)+(6+7)) + ...``. Group ``q`` goes to partial accumulator
``q mod 8``, in ascending ``q``; the first group to arrive starts it. The eight partials are then
summed as a tree of adjacent pairs. Whatever is missing counts as the identity: -0 for a sum, since
``x + -0 = x`` for every x, -Inf for a maximum, +Inf for a minimum.

16 lanes do a group in space and 4 lanes do it in time; the eight partials hide the latency of an
adder. Each addition follows `fp32`: rounded once, subnormals flushed. The order does not show in a
maximum or a minimum.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics import fp32

GROUP = 16
ACCUMULATORS = 8

Array = NDArray[np.float32]

_NOTHING = np.float32(-0.0)


def row_sum(x: Array, *, clean: bool = False) -> Array:
    """Return the sum of each row.

    Parameters
    ----------
    x : ndarray of float32
        ``[rows, cols]``, at least one column.
    clean : bool
        `x` holds no subnormal.

    Returns
    -------
    ndarray of float32
        ``[rows]``.

    Raises
    ------
    TypeError
        If `x` is not float32.
    ValueError
        If `x` is not ``[rows, cols]``, or has no columns.
    """
    x = _rows(x, clean)
    rows, cols = x.shape
    missing = -cols % GROUP
    if missing:
        whole = np.full((rows, cols + missing), _NOTHING)
        whole[:, :cols] = x
        x = whole
    with np.errstate(all="ignore"):
        return _sum(x, np.add if _no_subnormal_sums(x) else _flushing_add)


def _no_subnormal_sums(x: Array) -> bool:
    # A sum of numbers without sign is no smaller than its terms.
    return np.minimum.reduce(x, axis=None, initial=np.inf) >= 0 or fp32.no_smaller(x, -103)


def _flushing_add(a: Array, b: Array) -> Array:
    return fp32.add(a, b, clean=True)


def _sum(x: Array, add: Callable[[Array, Array], Array]) -> Array:
    rows = len(x)
    pairs = x.reshape(-1)
    for _ in range(4):  # groups follow one another, so pairs of a level never straddle two
        pairs = add(pairs[0::2], pairs[1::2])
    groups = pairs.reshape(rows, x.shape[1] // GROUP).T.copy()
    partials = groups[:ACCUMULATORS]
    for q in range(ACCUMULATORS, len(groups), ACCUMULATORS):
        arriving = groups[q : q + ACCUMULATORS]
        partials[: len(arriving)] = add(partials[: len(arriving)], arriving)
    if len(partials) < ACCUMULATORS:
        idle = np.full((ACCUMULATORS - len(partials), rows), _NOTHING)
        partials = np.concatenate((partials, idle))
    for _ in range(3):
        partials = add(partials[0::2], partials[1::2])
    return partials[0]


def row_max(x: Array, *, clean: bool = False) -> Array:
    """Return the largest element of each row; NaN wins, and +0 is larger than -0.

    Parameters are as in `row_sum`.
    """
    x = _rows(x, clean)
    result = np.maximum.reduce(x, axis=1)
    _settle_zeros(x, result, np.uint32(0), np.float32(0.0), np.float32(-0.0))
    return result


def row_min(x: Array, *, clean: bool = False) -> Array:
    """Return the smallest element of each row; NaN wins, and -0 is smaller than +0.

    Parameters are as in `row_sum`.
    """
    x = _rows(x, clean)
    result = np.minimum.reduce(x, axis=1)
    _settle_zeros(x, result, np.uint32(0x80000000), np.float32(-0.0), np.float32(0.0))
    return result


def _settle_zeros(
    x: Array, result: Array, code: np.uint32, present: np.float32, absent: np.float32
) -> None:
    """Give a zero result the sign due to it: numpy leaves open which of two zeros it returns."""
    zero = np.flatnonzero(result == 0)
    if zero.size:
        holds = np.any(x[zero].view(np.uint32) == code, axis=1)
        result[zero] = np.where(holds, present, absent)


def _rows(x: Array, clean: bool) -> Array:
    if x.dtype != np.float32:
        raise TypeError(f"x must be float32, not {x.dtype}")
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"x must be [rows, cols] with at least one column, not {list(x.shape)}")
    return np.ascontiguousarray(x if clean else fp32.flush(x))
