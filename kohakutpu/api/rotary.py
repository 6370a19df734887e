"""Rotary position embedding of whole rows: halves of a row are views of it."""

from __future__ import annotations

import math

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import fitting, shapes
from kohakutpu.api.array import common_device
from kohakutpu.api.creation import tensor
from kohakutpu.api.dispatch import Backend
from kohakutpu.api.tensor import Tensor
from kohakutpu.config import QUARTER_BYTES
from kohakutpu.kernels.rotary import kernel_for
from kohakutpu.lang import Kernel

BACKEND = Backend()


def rope(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Turn the pairs ``(x[..., i], x[..., i + D / 2])`` of each row, in the form with two halves.

    ``y[..., :h] = x[..., :h] * cos - x[..., h:] * sin`` and ``y[..., h:] = x[..., h:] * cos +
    x[..., :h] * sin``, ``h = D / 2``. With `interleaved` pairs are
    ``(x[..., 2 i], x[..., 2 i + 1])``, turned likewise.

    Parameters
    ----------
    x : Tensor
        Shape ``(..., L, D)``, D even.
    cos, sin : Tensor
        Shape ``(L, D / 2)``, of one format; see `rope_tables`.
    interleaved : bool
        Pairs are neighbours. The device turns rows into columns and back for that, which takes
        longer than the embedding; where `x` is a projection, rows of its weight in another order
        (``w[[*range(0, D, 2), *range(1, D, 2)]]``) give the form with two halves for nothing.

    Returns
    -------
    Tensor
        The shape of `x`. Each product and each sum is rounded to FP32, the result to FP16.

    Raises
    ------
    CallError
        If the shapes or formats do not go together.
    """
    common_device("rope", (x, cos, sin))
    half = x.shape[-1] // 2 if x.ndim > 1 else 0
    if x.ndim < 2 or x.shape[-1] % 2 or not cos.shape == sin.shape == (x.shape[-2], half):
        raise CallError(
            f"rope: x has shape {x.shape}, cos {cos.shape} and sin {sin.shape}",
            loc=caller(),
            fix="x is (..., L, D) with D even, both tables are (L, D / 2)",
        )
    if cos.format != sin.format:
        raise CallError(
            f"rope: cos is {cos.format} and sin is {sin.format}",
            loc=caller(),
            fix="store both tables alike",
        )
    result = Tensor.empty(x.device, x.shape, "fp16")
    if not x.size:
        return result
    kernel = kernel_for(cos.format)
    if interleaved:
        return neighbours(kernel, x, cos, sin)
    x = fitting.filled(x, QUARTER_BYTES)
    tables = (cos.contiguous(), sin.contiguous())
    if half * 2 % QUARTER_BYTES:
        # The second half starts within a quarter: nothing can address it.
        parts = (x[..., :half].contiguous(), x[..., half:].contiguous())
        return shapes.concat(kernel(*parts, *tables), axis=-1)
    sides = [
        [t.strided((*x.shape[:-1], half), t.strides, offset) for offset in (0, half * 2)]
        for t in (x, result)
    ]
    BACKEND.call_into(kernel, (*sides[0], *tables), *sides[1])
    return result


def neighbours(kernel: Kernel, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of neighbours: in columns, every other row is one half of all pairs."""
    *lead, length, width = x.shape
    pairs = (*lead, width // 2, 2, length)
    swapped = (*range(len(lead)), len(lead) + 1, len(lead))
    result = Tensor.empty(x.device, pairs, "fp16")
    columns = x.transpose(swapped).reshape(pairs)
    sides = [
        [t.strided((*pairs[:-2], length), (*t.strides[:-2], t.strides[-2]), n * 32 * t.strides[-1])
         for n in (0, 1)]
        for t in (columns, result)
    ]  # fmt: skip
    BACKEND.call_into(kernel, (*sides[0], cos.T.contiguous(), sin.T.contiguous()), *sides[1])
    return result.reshape(*lead, width, length).transpose(swapped)


def rope_tables(
    length: int, width: int, base: float = 10000.0, start: int = 0, dtype: str = "fp32"
) -> tuple[Tensor, Tensor]:
    """Return the tables for `rope`: cosine and sine of ``position * base**(-2 i / width)``.

    Parameters
    ----------
    length, width : int
        Rows, and elements a row of what is turned; `width` is even.
    base : float
        The longest wave is ``2 pi base`` positions.
    start : int
        The position of the first row.
    dtype : {"fp32", "fp16"}
        How they are stored.

    Returns
    -------
    cos, sin : Tensor
        Shape ``(length, width // 2)``, computed in double precision.

    Raises
    ------
    CallError
        If the numbers describe no rows of an even width.
    """
    if length < 0 or width < 0 or width % 2 or not base > 0 or not math.isfinite(base):
        raise CallError(
            f"rope_tables: length {length}, width {width}, base {base}",
            loc=caller(),
            fix="use a length of at least 0, an even width, a positive base",
        )
    rates = base ** (-2.0 * np.arange(width // 2) / max(width, 1))
    angles = np.arange(start, start + length)[:, None] * rates
    return tensor(np.cos(angles), dtype=dtype), tensor(np.sin(angles), dtype=dtype)
