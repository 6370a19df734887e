"""FP16 rows to MX blocks and back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu.numerics import fp16
from kohakutpu.numerics.mx.block import BLOCK, ELEMENT_BIAS, NAN_SCALE, WEIGHT, Elements, Scales

_CHUNK = 16384  # elements at a time, so that the intermediate arrays stay in cache

_FP16_MAGNITUDE = np.array(0x7FFF, np.uint16)
_FP32_MAGNITUDE = np.array(0x7FFFFFFF, np.uint32)


def _scale_of_magnitude() -> Scales:
    """Return the scale of a block by the FP16 code of its largest magnitude."""
    values = np.arange(fp16.INFINITY, dtype=np.uint16).view(np.float16).astype(np.float64)
    scales = np.full(0x8000, NAN_SCALE, np.uint8)
    scales[: fp16.INFINITY] = np.frexp(values)[1] + 126
    scales[0] = 0
    return scales


def _powers(first: int, last: int) -> NDArray[np.float32]:
    """Return ``2**(133 - s)`` by ``s``, and 0 outside of ``first <= s <= last``."""
    gains = np.zeros(256, np.float32)
    gains[first : last + 1] = np.ldexp(1.0, ELEMENT_BIAS - np.arange(first, last + 1))
    return gains


_SCALE = _scale_of_magnitude()
# What brings a block of a scale to elements. FP16 needs the scales 103 to 142, what a leading term
# leaves exponent fields from 94 on; zeros and NaN (0 and 255) give zeros.
_GAIN = _powers(64, 191)


def quantise(
    codes: NDArray[np.uint16] | NDArray[np.float16], residual: bool = False
) -> tuple[Elements, Scales]:
    """Quantise rows of FP16.

    Parameters
    ----------
    codes : ndarray of uint16 or float16
        FP16, ``[rows, K]``; a last block that is not whole is completed with zeros.
    residual : bool
        Return the residual term instead of the leading one.

    Returns
    -------
    elements : ndarray of int8
        ``[rows, ceil(K / 32), 32]``.
    scales : ndarray of uint8
        ``[rows, ceil(K / 32)]``.

    Raises
    ------
    TypeError
        If `codes` is not FP16.
    ValueError
        If `codes` is not ``[rows, K]``.
    """
    if codes.dtype.itemsize != 2:
        raise TypeError(f"FP16 codes must be uint16 or float16, not {codes.dtype}")
    if codes.ndim != 2:
        raise ValueError(f"codes must be [rows, K], not {list(codes.shape)}")
    rows, k = codes.shape
    blocks = -(-k // BLOCK)
    if k == blocks * BLOCK:
        flat = np.ascontiguousarray(codes).view(np.uint16).reshape(-1)
    else:
        whole = np.zeros((rows, blocks * BLOCK), np.uint16)
        whole[:, :k] = codes.view(np.uint16)
        flat = whole.reshape(-1)
    elements = np.empty(flat.size, np.int8)
    scales = np.empty(rows * blocks, np.uint8)
    for start in range(0, flat.size, _CHUNK):
        chunk, of_blocks = slice(start, start + _CHUNK), slice(start // BLOCK, None)
        count = len(flat[chunk]) // BLOCK
        scales[of_blocks][:count] = _quantise(flat[chunk], elements[chunk], residual)
    return elements.reshape(rows, blocks, BLOCK), scales.reshape(rows, blocks)


def _quantise(codes: NDArray[np.uint16], elements: Elements, residual: bool) -> Scales:
    """Put the elements of whole blocks where told and return their scales."""
    scales = _SCALE.take(_block_max(np.bitwise_and(codes, _FP16_MAGNITUDE)))
    nan = np.flatnonzero(scales == NAN_SCALE)
    if nan.size:
        codes = codes.copy()
        codes.reshape(-1, BLOCK)[nan] = 0
    x = fp16.to_fp32(codes).reshape(-1, BLOCK)
    rounded = _to_elements(x, scales)
    if residual:
        # Exact: x has 11 bits, and what is left is below half a step of the leading term.
        np.subtract(x, rounded, x)
        field = _block_max(x.reshape(-1).view(np.uint32) & _FP32_MAGNITUDE) >> 23
        left = np.where(field == 0, 0, scales + field.astype(np.int32) - ELEMENT_BIAS)
        rounded = _to_elements(x, field)
        scales = left.astype(np.uint8)
        scales[nan] = NAN_SCALE
    np.copyto(elements, rounded.reshape(-1), casting="unsafe")
    return scales


def _to_elements(x: NDArray[np.float32], scales: NDArray[Any]) -> NDArray[np.float32]:
    """Scale blocks in place, so that a step of an element is 1, and return them rounded."""
    np.multiply(x, _GAIN.take(scales)[:, None], x)
    rounded = np.rint(x)
    return np.clip(rounded, -127, 127, out=rounded)


def _block_max(flat: NDArray[Any]) -> NDArray[Any]:
    """Return the maximum of each 32 elements; sliding over all of them is what numpy does fast."""
    for distance in (16, 8, 4, 2, 1):
        flat = np.maximum(flat[:-distance], flat[distance:])
    return flat[::BLOCK]


def dequantise(elements: Elements, scales: Scales) -> NDArray[np.float32]:
    """Return what quantised rows are worth.

    Parameters
    ----------
    elements : ndarray of int8
        ``[rows, blocks, 32]``.
    scales : ndarray of uint8
        ``[rows, blocks]``.

    Returns
    -------
    ndarray of float32
        ``[rows, 32 * blocks]``, exact; NaN where the scale is 0xFF.
    """
    weights = np.where(scales == NAN_SCALE, np.float32(np.nan), WEIGHT[scales])
    with np.errstate(over="ignore"):  # -128 under the largest scale is -2**128
        values = np.multiply(elements.astype(np.float32), weights[..., None])
    return values.reshape(len(elements), -1)
