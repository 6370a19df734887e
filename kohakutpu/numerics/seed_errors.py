"""How far the seed functions are off, over every argument of their reduced range.

The truth is numpy's float64, whose own error of about ``2**-52`` does not show in the figures.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics import seeds

Reals = NDArray[np.float64]

_CHUNK = 1 << 19
_FRACTIONS = 1 << 23
_ONE = 0x3F800000


class Worst(NamedTuple):
    """The largest error, and the argument that has it."""

    error: float
    argument: float


def octave(exponent: int) -> Iterator[NDArray[np.float32]]:
    """Yield every float32 from ``2**exponent`` up to twice that, in chunks, ascending."""
    for start in range(0, _FRACTIONS, _CHUNK):
        codes = np.arange(start, start + _CHUNK, dtype=np.uint32)
        yield (codes + np.uint32(_ONE + (exponent << 23))).view(np.float32)


def _worst(
    arguments: Iterator[NDArray[np.float32]], error: Callable[[NDArray[np.float32]], Reals]
) -> Worst:
    worst = Worst(0.0, 0.0)
    for x in arguments:
        errors = np.abs(error(x))
        at = int(errors.argmax())
        worst = max(worst, Worst(float(errors[at]), float(x[at])))
    return worst


def exp2() -> Worst:
    """Return the worst relative error of `seeds.exp2`.

    Its argument is rounded down to a step of ``2**-23``: each result has to serve everything up to
    the next step, so both ends count.
    """

    def error(x: NDArray[np.float32]) -> Reals:
        fraction = x.astype(np.float64) - 1
        result = seeds.exp2(fraction.astype(np.float32)).astype(np.float64)
        low, high = result / np.exp2(fraction) - 1, result / np.exp2(fraction + 2.0**-23) - 1
        return np.maximum(np.abs(low), np.abs(high))

    worst = _worst(octave(0), error)
    return worst._replace(argument=worst.argument - 1)


def log2_near_one() -> Worst:
    """Return the worst absolute error of `seeds.log2` from 1/2 to 2."""

    def error(x: NDArray[np.float32]) -> Reals:
        return np.subtract(seeds.log2(x, clean=True), np.log2(x.astype(np.float64)))

    return max(_worst(octave(-1), error), _worst(octave(0), error))


def log2_elsewhere() -> Worst:
    """Return the worst relative error of `seeds.log2` below 1/2 and from 2 on.

    It lies in the two octaves next to these: further out the same table errors meet larger
    logarithms.
    """

    def error(x: NDArray[np.float32]) -> Reals:
        return np.divide(seeds.log2(x, clean=True), np.log2(x.astype(np.float64))) - 1

    return max(_worst(octave(-2), error), _worst(octave(1), error))


def recip() -> Worst:
    """Return the worst relative error of `seeds.recip`; all octaves are alike."""

    def error(x: NDArray[np.float32]) -> Reals:
        return np.multiply(seeds.recip(x, clean=True), x.astype(np.float64)) - 1

    return _worst(octave(0), error)


def rsqrt() -> Worst:
    """Return the worst relative error of `seeds.rsqrt`; pairs of octaves are alike."""

    def error(x: NDArray[np.float32]) -> Reals:
        return np.multiply(seeds.rsqrt(x, clean=True), np.sqrt(x.astype(np.float64))) - 1

    return max(_worst(octave(0), error), _worst(octave(1), error))
