"""The seed functions ``exp2 log2 recip rsqrt`` on whole arrays.

They are what the tables say and nothing else: a range reduction, a segment's quadratic evaluated
exactly, one rounding to FP32. The quadratic runs in float64, where every step is exact because
``P`` has at most 53 bits, and the cast to float32 is the rounding. ``log2`` adds its integer part,
up to 7 bits more, before the cast; a test goes through every ``P`` and finds none that the
float64 sum would make round twice.

Arguments that the tables do not cover (zeros, infinities, NaN, results out of range) are rare: two
reductions find whether a block holds any, and only then they are mended.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics import fp32, seed_tables
from kohakutpu.numerics.quadratic import OFFSET_BITS, SEGMENTS, Quadratic

Array = NDArray[np.float32]

BLOCK = 8192  # elements at a time; the intermediate arrays stay in cache

_SMALLEST = 2.0**-126
_LARGEST_RECIPROCAL = 2.0**126

# 0-d arrays: a Python number would be converted on every call.
_STEPS = np.array(2.0**23, np.float32)
_OFFSET = np.array((1 << OFFSET_BITS) - 1, np.int32)
_OFFSET_PLACES = np.array(OFFSET_BITS, np.int32)
_INDEX = np.array(SEGMENTS - 1, np.int32)
_SIGN_AND_EXPONENT = np.array(-0x00800000, np.int32)
_FRACTION_PLACES = np.array(23, np.int32)
_ONE_PLACE = np.array(1, np.int32)
_BIAS = np.array(127 << 23, np.int32)


class _Coefficients:
    """A table as float64 arrays that count in the unit of ``P``."""

    def __init__(self, table: Quadratic) -> None:
        rows = np.array(table.rows, np.float64)
        self.c0 = rows[:, 0] * 2.0**table.c0_shift
        # C1 and C2 as a pair: one gather of a pair costs what one of a number does.
        self.c1_c2 = rows[:, 1] * 2.0**table.c1_shift + 1j * rows[:, 2]
        # Added to the bits of P as a float32, this takes its unit away again.
        self.unit = np.array(table.unit << 23, np.int32)


_EXP2 = _Coefficients(seed_tables.EXP2)
_LOG2 = _Coefficients(seed_tables.LOG2)
_RECIP = _Coefficients(seed_tables.RECIP)
_RSQRT = _Coefficients(seed_tables.RSQRT)
_RECIP_BIAS = np.array((127 - seed_tables.RECIP.unit) << 23, np.int32)
_LOG2_UNIT = np.array(2.0**seed_tables.LOG2.unit)
_LOG2_BIAS = np.array(127 * 2.0**seed_tables.LOG2.unit)
_LOG2_SCALE = np.array(2.0**-seed_tables.LOG2.unit, np.float32)


@dataclass(frozen=True)
class _Scratch:
    """Arrays for the intermediate values of a block."""

    x: Array
    code: NDArray[np.int32]
    field: NDArray[np.int32]
    index: NDArray[np.intp]
    t: NDArray[np.float64]
    p: NDArray[np.float64]
    c0: NDArray[np.float64]
    c1_c2: NDArray[np.complex128]

    def head(self, size: int) -> "_Scratch":
        """Return the same arrays, cut to a last block that is not whole."""
        return _Scratch(
            self.x[:size], self.code[:size], self.field[:size], self.index[:size],
            self.t[:size], self.p[:size], self.c0[:size], self.c1_c2[:size],
        )  # fmt: skip


class _PerThread(threading.local):
    """A set of them for each thread."""

    def __init__(self) -> None:
        self.whole = _Scratch(
            x=np.empty(BLOCK, np.float32),
            code=np.empty(BLOCK, np.int32),
            field=np.empty(BLOCK, np.int32),
            index=np.empty(BLOCK, np.intp),
            t=np.empty(BLOCK, np.float64),
            p=np.empty(BLOCK, np.float64),
            c0=np.empty(BLOCK, np.float64),
            c1_c2=np.empty(BLOCK, np.complex128),
        )


_per_thread = _PerThread()
Block = Callable[[Array, Array, _Scratch], None]


def exp2(x: fp32.Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return ``2**x``: +0 below -126, +Inf from 128 on.

    Parameters
    ----------
    x : ndarray of float32 or float32
        Any shape; a subnormal reads as the zero of its sign.
    out : ndarray of float32, optional
        Where to put the result, of the same shape; may be `x`.
    clean : bool
        `x` holds no subnormal.

    Returns
    -------
    ndarray of float32
        `out`, or a fresh array.

    Raises
    ------
    TypeError
        If `x` is not float32.
    """
    return _apply(_exp2, x, out, clean)


def log2(x: fp32.Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return the logarithm to base 2: -Inf of both zeros, NaN below them.

    Parameters are as in `exp2`.
    """
    return _apply(_log2, x, out, clean)


def recip(x: fp32.Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return ``1 / x``, with the sign of `x` on zeros and infinities too.

    Parameters are as in `exp2`.
    """
    return _apply(_recip, x, out, clean)


def rsqrt(x: fp32.Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return ``1 / sqrt(x)``: an infinity of the sign of a zero, NaN below zero.

    Parameters are as in `exp2`.
    """
    return _apply(_rsqrt, x, out, clean)


def _apply(block: Block, x: fp32.Operand, out: Array | None, clean: bool) -> Array:
    x = np.asarray(x) if clean else fp32.flush(x)
    result = out if out is not None and out.flags.c_contiguous else np.empty(x.shape, np.float32)
    source, target, whole = x.reshape(-1), result.reshape(-1), _per_thread.whole
    for start in range(0, source.size, BLOCK):
        part = source[start : start + BLOCK]
        scratch = whole if part.size == BLOCK else whole.head(part.size)
        block(part, target[start : start + BLOCK], scratch)
    if out is not None and out is not result:
        np.copyto(out, result)
        return out
    return result


def _exp2(x: Array, out: Array, s: _Scratch) -> None:
    if np.minimum.reduce(x) >= -126 and np.maximum.reduce(x) < 128:
        _exp2_inside(x, out, s)
        return
    below, above, nan = x < -126, x >= 128, np.isnan(x)
    _exp2_inside(np.where(below | above | nan, np.float32(0), x), out, s)
    out[below], out[above], out[nan] = 0, np.inf, np.nan


def _exp2_inside(x: Array, out: Array, s: _Scratch) -> None:
    np.multiply(x, _STEPS, s.x)
    np.floor(s.x, s.x)
    np.copyto(s.code, s.x, casting="unsafe")
    _polynomial(_EXP2, s)
    np.copyto(out, s.p, casting="unsafe")
    np.bitwise_and(s.code, _SIGN_AND_EXPONENT, s.field)
    np.subtract(s.field, _EXP2.unit, s.field)
    bits = out.view(np.int32)
    np.add(bits, s.field, bits)


def _log2(x: Array, out: Array, s: _Scratch) -> None:
    if np.minimum.reduce(x) >= _SMALLEST and np.maximum.reduce(x) < np.inf:
        _log2_inside(x, out, s)
        return
    zero, infinite, nan = x == 0, x == np.inf, np.isnan(x) | (x < 0)
    _log2_inside(np.where(zero | infinite | nan, np.float32(1), x), out, s)
    out[zero], out[infinite], out[nan] = -np.inf, np.inf, np.nan


def _log2_inside(x: Array, out: Array, s: _Scratch) -> None:
    np.copyto(s.code, x.view(np.int32))
    _polynomial(_LOG2, s)
    np.right_shift(s.code, _FRACTION_PLACES, s.field)
    np.copyto(s.t, s.field)
    np.multiply(s.t, _LOG2_UNIT, s.t)
    np.subtract(s.t, _LOG2_BIAS, s.t)
    np.add(s.p, s.t, s.p)
    np.copyto(out, s.p, casting="unsafe")
    np.multiply(out, _LOG2_SCALE, out)


def _recip(x: Array, out: Array, s: _Scratch) -> None:
    least, most = np.minimum.reduce(x), np.maximum.reduce(x)
    if not (least >= _SMALLEST and most <= _LARGEST_RECIPROCAL):
        magnitude = np.abs(x)
        least, most = np.minimum.reduce(magnitude), np.maximum.reduce(magnitude)
        if not (least >= _SMALLEST and most <= _LARGEST_RECIPROCAL):
            zero, large, nan = magnitude == 0, magnitude > _LARGEST_RECIPROCAL, np.isnan(x)
            signs = np.copysign(np.float32(1), x)
            _recip_inside(np.where(zero | large | nan, signs, x), out, s)
            out[zero] *= np.float32(np.inf)
            out[large] *= np.float32(0)
            out[nan] = np.nan
            return
    _recip_inside(x, out, s)


def _recip_inside(x: Array, out: Array, s: _Scratch) -> None:
    np.copyto(s.code, x.view(np.int32))
    _polynomial(_RECIP, s)
    np.copyto(out, s.p, casting="unsafe")
    np.bitwise_and(s.code, _SIGN_AND_EXPONENT, s.field)
    np.subtract(_RECIP_BIAS, s.field, s.field)
    bits = out.view(np.int32)
    np.add(bits, s.field, bits)


def _rsqrt(x: Array, out: Array, s: _Scratch) -> None:
    if np.minimum.reduce(x) >= _SMALLEST and np.maximum.reduce(x) < np.inf:
        _rsqrt_inside(x, out, s)
        return
    zero, infinite, nan = x == 0, x == np.inf, np.isnan(x) | (x < 0)
    signs = np.copysign(np.float32(1), x)
    _rsqrt_inside(np.where(zero | infinite | nan, np.float32(1), x), out, s)
    out[zero] = signs[zero] * np.float32(np.inf)
    out[infinite], out[nan] = 0, np.nan


def _rsqrt_inside(x: Array, out: Array, s: _Scratch) -> None:
    bits = x.view(np.int32)
    np.right_shift(bits, _ONE_PLACE, s.code)
    _polynomial(_RSQRT, s)
    np.subtract(bits, _BIAS, s.code)
    np.right_shift(s.code, _ONE_PLACE, s.code)
    np.bitwise_and(s.code, _SIGN_AND_EXPONENT, s.field)
    np.add(s.field, _RSQRT.unit, s.field)
    np.copyto(out, s.p, casting="unsafe")
    bits = out.view(np.int32)
    np.subtract(bits, s.field, bits)


def _polynomial(table: _Coefficients, s: _Scratch) -> None:
    """Evaluate ``s.p = P`` for ``s.code``: 7 bits of segment above 16 of offset."""
    np.bitwise_and(s.code, _OFFSET, s.field)
    np.copyto(s.t, s.field)
    np.right_shift(s.code, _OFFSET_PLACES, s.field)
    np.bitwise_and(s.field, _INDEX, s.field)
    np.copyto(s.index, s.field)
    # `clip` is the one mode that needs no bounds check; every index is in range.
    table.c1_c2.take(s.index, None, s.c1_c2, "clip")
    table.c0.take(s.index, None, s.c0, "clip")
    np.multiply(s.t, s.c1_c2.imag, s.p)
    np.add(s.p, s.c1_c2.real, s.p)
    np.multiply(s.p, s.t, s.p)
    np.add(s.p, s.c0, s.p)
