"""FP32 as the machine computes it, on whole arrays.

IEEE binary32, round to nearest even, except:

* a subnormal input reads as the zero of its sign;
* a result that IEEE makes subnormal becomes the zero of its sign. What IEEE rounds up to the
  smallest normal number stays;
* every NaN result is 0x7FC00000. This one is lazy: a NaN stays a NaN through every function here,
  but its payload is only settled by `canonical`, which whoever shows bits has to call.

``clean=True`` promises that no operand holds a subnormal, which saves looking. It holds for every
result of this module, of `seeds`, of `reduction` and of `fp16.to_fp32`.

Operands are float32 arrays that broadcast as in numpy, or ``np.float32`` constants, which are
cheaper: a constant often proves that no result can be subnormal. `out` may be an operand.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Operand = Array | np.float32

_ONE_PLACE = np.array(1, np.uint32)
_ONE = np.array(1, np.uint32)
_SIGN = np.uint32(0x80000000)
_NAN = np.uint32(0x7FC00000)
_ZERO = np.float32(0)
_SMALLEST_NORMAL = 0x00800000 << 1  # one place to the left, the sign shifted out
# Next to a term this large no sum is subnormal, and no subnormal changes it: either the other
# term is smaller, or both are multiples of 2**-124.
_SWAMPING = np.float32(2.0**-100)
_TINY = np.float32(2.0**-126)
_UNIT = np.float32(1)


def _subnormal(x: Array) -> NDArray[np.bool_] | None:
    """Return where `x` is subnormal, None if nowhere."""
    if x.size == 0:
        return None
    magnitude = np.asarray(np.left_shift(x.view(np.uint32), _ONE_PLACE))
    smallest = np.minimum.reduce(magnitude, axis=None)
    if smallest == 0:  # a zero hides what lies just above it: let zeros wrap to the top
        np.subtract(magnitude, _ONE, out=magnitude)
        if np.minimum.reduce(magnitude, axis=None) < _SMALLEST_NORMAL - 1:
            return magnitude < _SMALLEST_NORMAL - 1
    elif smallest < _SMALLEST_NORMAL:
        return magnitude < _SMALLEST_NORMAL
    return None


def no_smaller(x: Array, exponent: int) -> bool:
    """Return whether every element is zero, NaN, or at least ``2**exponent`` in magnitude.

    Sums of such numbers, however many, are multiples of ``2**(exponent - 23)``: from an exponent
    of -103 on none of them is subnormal.

    Parameters
    ----------
    x : ndarray of float32
        Any shape.
    exponent : int
        -126 to 127.

    Returns
    -------
    bool
        Whether it holds.
    """
    if x.size == 0:
        return True
    magnitude = np.asarray(np.left_shift(x.view(np.uint32), _ONE_PLACE))
    np.subtract(magnitude, _ONE, out=magnitude)  # zeros wrap to the top
    return bool(np.minimum.reduce(magnitude, axis=None) >= ((exponent + 127) << 24) - 1)


def flush(x: Operand, out: Array | None = None) -> Array:
    """Turn subnormals into the zeros of their signs.

    Parameters
    ----------
    x : ndarray of float32 or float32
        Any shape.
    out : ndarray of float32, optional
        Where to put the result; may be `x`.

    Returns
    -------
    ndarray of float32
        `out`; without it `x` itself when there is nothing to turn.

    Raises
    ------
    TypeError
        If `x` is not float32.
    """
    if x.dtype != np.float32:
        raise TypeError(f"FP32 operands must be float32, not {x.dtype}")
    return _replace(x, _subnormal(np.asarray(x)), None, out)


def canonical(x: Operand, out: Array | None = None) -> Array:
    """Turn every NaN into 0x7FC00000.

    Parameters
    ----------
    x : ndarray of float32 or float32
        Any shape.
    out : ndarray of float32, optional
        Where to put the result; may be `x`.

    Returns
    -------
    ndarray of float32
        `out`; without it `x` itself when there is nothing to turn.
    """
    where = np.isnan(np.asarray(x))
    return _replace(x, where if where.any() else None, _NAN, out)


def _replace(
    x: Operand, where: NDArray[np.bool_] | None, code: np.uint32 | None, out: Array | None
) -> Array:
    """Put `code`, or without it the zero of the sign, where `where` says."""
    x = np.asarray(x)
    if out is None:
        if where is None:
            return x
        out = x.copy()
    elif out is not x:
        np.copyto(out, x)
    if where is not None:
        bits = out.view(np.uint32)
        bits[where] = bits[where] & _SIGN if code is None else code
    return out


def _checked(*operands: Operand, clean: bool) -> tuple[Operand, ...]:
    return operands if clean else tuple(flush(x) for x in operands)


def _constant(x: Operand, least: np.float32) -> bool:
    """Return whether `x` is one number of at least that magnitude."""
    return x.ndim == 0 and bool(abs(x) >= least)


def _flushed(result: Any) -> Array:
    result = np.asarray(result)
    where = _subnormal(result)
    return result if where is None else _replace(result, where, None, result)


@np.errstate(all="ignore")
def mul(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return ``a * b``.

    Parameters
    ----------
    a, b : ndarray of float32 or float32
        Operands.
    out : ndarray of float32, optional
        Where to put the result.
    clean : bool
        No operand holds a subnormal.

    Returns
    -------
    ndarray of float32
        `out`, or a fresh array.

    Raises
    ------
    TypeError
        If an operand is not float32.
    """
    a, b = _checked(a, b, clean=clean)
    result = np.multiply(a, b, out=out)
    if _constant(a, _UNIT) or _constant(b, _UNIT):
        return np.asarray(result)
    return _flushed(result)


@np.errstate(all="ignore")
def add(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return ``a + b``; parameters are as in `mul`."""
    a, b = _checked(a, b, clean=clean)
    result = np.add(a, b, out=out)
    if _constant(a, _SWAMPING) or _constant(b, _SWAMPING):
        return np.asarray(result)
    return _flushed(result)


@np.errstate(all="ignore")
def muladd(
    a: Operand, b: Operand, c: Operand, out: Array | None = None, *, clean: bool = False
) -> Array:
    """Return ``a * b + c``, rounded after the multiply and again after the add.

    Parameters are as in `mul`.
    """
    a, b, c = _checked(a, b, c, clean=clean)
    if not _constant(c, _SWAMPING):
        return add(mul(a, b, clean=True), c, out, clean=True)
    product = np.asarray(np.multiply(a, b))
    return np.add(product, c, out=product if out is None else out)


def maximum(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return the larger of `a` and `b`; NaN wins, and +0 is larger than -0.

    Parameters are as in `mul`.
    """
    return _extreme(np.maximum, np.bitwise_and, a, b, out, clean)


def minimum(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return the smaller of `a` and `b`; NaN wins, and -0 is smaller than +0.

    Parameters are as in `mul`.
    """
    return _extreme(np.minimum, np.bitwise_or, a, b, out, clean)


@np.errstate(all="ignore")
def _extreme(
    choose: np.ufunc, sign: np.ufunc, a: Operand, b: Operand, out: Array | None, clean: bool
) -> Array:
    a, b = _checked(a, b, clean=clean)
    # Into a fresh array: the operands are needed again, because numpy leaves open which of two
    # zeros it returns.
    result = np.asarray(choose(a, b))
    if sign is np.bitwise_and and (_plus_zero(a) or _plus_zero(b)):
        np.add(result, _ZERO, out=result)  # -0 becomes +0, all else stays
    elif not (_constant(a, _TINY) or _constant(b, _TINY)) and np.equal(result, _ZERO).any():
        zeros = np.equal(a, _ZERO) & np.equal(b, _ZERO)
        bits = result.view(np.uint32)
        sign(a.view(np.uint32), b.view(np.uint32), out=bits, where=zeros)
    if out is None:
        return result
    np.copyto(out, result)
    return out


def _plus_zero(x: Operand) -> bool:
    return x.ndim == 0 and x.view(np.uint32) == 0


def lt(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return 1.0 where ``a < b``, else 0.0; false with a NaN.

    Parameters are as in `mul`.
    """
    return _compare(np.less, a, b, out, clean)


def le(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return 1.0 where ``a <= b``, else 0.0; false with a NaN.

    Parameters are as in `mul`.
    """
    return _compare(np.less_equal, a, b, out, clean)


def eq(a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return 1.0 where ``a == b``, else 0.0; false with a NaN, and the zeros are equal.

    Parameters are as in `mul`.
    """
    return _compare(np.equal, a, b, out, clean)


def _compare(relation: np.ufunc, a: Operand, b: Operand, out: Array | None, clean: bool) -> Array:
    a, b = _checked(a, b, clean=clean)
    holds = np.asarray(relation(a, b))
    if out is None:
        return holds.astype(np.float32)
    np.copyto(out, holds)
    return out


def select(
    condition: Operand, a: Operand, b: Operand, out: Array | None = None, *, clean: bool = False
) -> Array:
    """Return `a` where `condition` is anything but a zero (a NaN included), else `b`.

    Parameters
    ----------
    condition, a, b : ndarray of float32 or float32
        Operands; a subnormal condition is a zero.
    out : ndarray of float32, optional
        Where to put the result.
    clean : bool
        No operand holds a subnormal.

    Returns
    -------
    ndarray of float32
        `out`, or a fresh array.
    """
    condition, a, b = _checked(condition, a, b, clean=clean)
    result = np.where(np.not_equal(condition, _ZERO), a, b)
    if out is None:
        return result
    np.copyto(out, result)
    return out


def neg(a: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return `a` with its sign turned; parameters are as in `mul`."""
    (a,) = _checked(a, clean=clean)
    return np.asarray(np.negative(a, out=out))


def absolute(a: Operand, out: Array | None = None, *, clean: bool = False) -> Array:
    """Return `a` with its sign cleared; parameters are as in `mul`."""
    (a,) = _checked(a, clean=clean)
    return np.asarray(np.absolute(a, out=out))
