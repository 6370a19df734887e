"""FP16 and FP32, back and forth, on whole arrays.

FP16 is held as its 16 bit codes. numpy's own casts give the same values (tests compare them) at
about a quarter of the speed, for they go element by element.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 16384  # elements at a time, so that the intermediate arrays stay in cache

INFINITY = 0x7C00
NAN = 0x7E00
FP32_NAN = 0x7FC00000

# 0-d arrays: a Python number would be converted on every call.
_MAGNITUDE = np.array(0x7FFF, np.uint16)
_PLACES = np.array(13, np.int32)  # FP32 has 13 more places of fraction
_SIGN_AND_FP16 = np.array(0x8FFFE000, np.uint32).view(np.int32)
_REBIAS = np.array(2.0**112, np.float32)  # the exponent biases differ by 112
_UNBIAS = np.array(2.0**-112, np.float32)
_EXPONENT = np.array(0x7F800000, np.uint32)
_TO_PLACES = np.array(1.5 * 2.0**13, np.float32)
_SMALLEST_NORMAL = np.full(BLOCK, 2.0**-14, np.float32)
_FP32_MAGNITUDE = np.array(0x7FFFFFFF, np.uint32)
_DROPPED_PLACES = np.array(13, np.uint32)
_SIGN_DOWN = np.array(16, np.uint32)
_SIGN = np.array(0x8000, np.uint32)
_OVERFLOW = 65520.0  # from here on FP32 rounds to an infinity


def to_fp32(codes: NDArray[Any], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Widen FP16 to FP32; exact, and every NaN becomes 0x7FC00000.

    Parameters
    ----------
    codes : ndarray of uint16 or float16
        FP16, any shape and strides.
    out : ndarray of float32, optional
        Where to put the result, of the same shape; must not overlap `codes`.

    Returns
    -------
    ndarray of float32
        `out`, or a fresh array.

    Raises
    ------
    TypeError
        If `codes` holds anything but 16 bit codes.
    """
    if codes.dtype.itemsize != 2:
        raise TypeError(f"FP16 codes must be uint16 or float16, not {codes.dtype}")
    if out is None:
        out = np.empty(codes.shape, np.float32)
    if codes.size > BLOCK and codes.flags.c_contiguous and out.flags.c_contiguous:
        source, target = codes.reshape(-1), out.reshape(-1)
        for start in range(0, source.size, BLOCK):
            _widen(source[start : start + BLOCK], target[start : start + BLOCK])
    elif codes.size:
        _widen(codes, out)
    return out


def _widen(codes: NDArray[Any], out: NDArray[np.float32]) -> None:
    # Sign extension puts the sign where FP32 has it, above three copies that the mask removes.
    # Multiplying by a power of two then moves the exponent and normalises subnormals, exactly.
    bits = out.view(np.int32)
    np.copyto(bits, codes.view(np.int16))
    np.left_shift(bits, _PLACES, bits)
    np.bitwise_and(bits, _SIGN_AND_FP16, bits)
    np.multiply(out, _REBIAS, out)
    magnitude = np.bitwise_and(codes.view(np.uint16), _MAGNITUDE)
    if np.maximum.reduce(magnitude, axis=None) >= INFINITY:
        out[magnitude == INFINITY] *= np.float32(np.inf)
        bits[magnitude > INFINITY] = FP32_NAN


def from_fp32(x: NDArray[np.float32], out: NDArray[np.uint16] | None = None) -> NDArray[np.uint16]:
    """Round FP32 to FP16: nearest, ties to even, subnormals kept, every NaN is 0x7E00.

    Parameters
    ----------
    x : ndarray of float32
        Any shape and strides.
    out : ndarray of uint16, optional
        Where to put the codes, of the same shape; must not overlap `x`.

    Returns
    -------
    ndarray of uint16
        `out`, or a fresh array. ``.view(np.float16)`` shows it as numbers.

    Raises
    ------
    TypeError
        If `x` is not float32.
    """
    if x.dtype != np.float32:
        raise TypeError(f"FP32 must be float32, not {x.dtype}")
    if out is None:
        out = np.empty(x.shape, np.uint16)
    if x.flags.c_contiguous and out.flags.c_contiguous:
        source, target = x.reshape(-1), out.reshape(-1)
        for start in range(0, source.size, BLOCK):
            _narrow(source[start : start + BLOCK], target[start : start + BLOCK])
    else:
        out[...] = from_fp32(np.ascontiguousarray(x))
    return out


def _narrow(x: NDArray[np.float32], out: NDArray[np.uint16]) -> None:
    bits = x.view(np.uint32)
    rounded = np.bitwise_and(bits, _FP32_MAGNITUDE)
    value = rounded.view(np.float32)
    if not np.maximum.reduce(value) < _OVERFLOW:  # a NaN is not below it either
        _narrow_any(x, out)
        return
    # Adding 1.5 * 2**13 of x's own power of two leaves FP32 just FP16's places to round to;
    # below FP16's normal range the place stays that of its subnormals.
    spare = np.bitwise_and(bits, _EXPONENT)
    anchor = spare.view(np.float32)
    np.maximum(anchor, _SMALLEST_NORMAL[: x.size], out=anchor)
    np.multiply(anchor, _TO_PLACES, anchor)
    np.add(value, anchor, value)
    np.subtract(value, anchor, value)
    np.multiply(value, _UNBIAS, value)
    np.right_shift(rounded, _DROPPED_PLACES, rounded)
    np.right_shift(bits, _SIGN_DOWN, spare)
    np.bitwise_and(spare, _SIGN, spare)
    np.bitwise_or(rounded, spare, rounded)
    np.copyto(out, rounded, casting="unsafe")


def _narrow_any(x: NDArray[np.float32], out: NDArray[np.uint16]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(out.view(np.float16), x, casting="same_kind")
    out[np.isnan(x)] = NAN
