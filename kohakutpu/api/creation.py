"""Making tensors from what is in host memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api.convert import as_array, format_of, to_format
from kohakutpu.api.session import current
from kohakutpu.api.tensor import Tensor

Shape = int | np.integer[Any] | Sequence[int]


def tensor(array_like: Any, dtype: DTypeLike | str | None = None) -> Tensor:
    """Put values on the selected device.

    Elements are stored as FP16, rounded to nearest even. A finite value that would become Inf,
    magnitude 65520 and more, is refused: scale the data, or name the format. Named by `dtype`, a
    format takes every value, those beyond its range as Inf. Rounding itself, and the loss of what
    is smaller than FP16's subnormals, is never refused. Booleans become 0 and 1; NaN and Inf stay.

    Parameters
    ----------
    array_like : array_like
        Numbers, nested lists, numpy arrays of any rank and strides, a `Tensor`, or anything with
        ``__array__`` or ``__dlpack__``: bool, integers, floating point (bfloat16 too).
    dtype : optional
        ``"fp16"`` or ``numpy.float16``; ``"fp32"`` or ``numpy.float32`` for kernels that declare
        an operand so.

    Returns
    -------
    Tensor
        Of the same shape. A `Tensor` that is on the selected device already is returned as it is.

    Raises
    ------
    CallError
        If the elements are not real numbers or one is out of range, or `dtype` is another format.
    OutOfMemory
        If the device has no room.
    """
    session = current()
    stored = "fp16" if dtype is None else format_of(dtype)
    if isinstance(array_like, Tensor):
        if array_like.device is session and (dtype is None or array_like.format == stored):
            return array_like
        if dtype is None:
            stored = array_like.format
    values = to_format(as_array(array_like), stored, explicit=dtype is not None)
    return Tensor.upload(session, values, stored)


def zeros(shape: Shape, dtype: DTypeLike | str | None = None) -> Tensor:
    """Return a tensor of zeros on the selected device.

    Raises
    ------
    CallError
        If `shape` is none, or `dtype` is no format of the memory.
    """
    return full(shape, 0, dtype)


def full(shape: Shape, value: float, dtype: DTypeLike | str | None = None) -> Tensor:
    """Return a tensor whose elements are all `value` on the selected device.

    Raises
    ------
    CallError
        If `shape` is none, `value` is no real number or out of range, or `dtype` is no format of
        the memory.
    """
    extents = checked_shape(shape)
    stored = "fp16" if dtype is None else format_of(dtype)
    scalar = as_array(value)
    if scalar.ndim:
        raise CallError(
            f"full() repeats one number, not an array of shape {scalar.shape}",
            loc=caller(),
            fix="use tensor(numpy.broadcast_to(value, shape))",
        )
    filled = to_format(scalar, stored, explicit=dtype is not None)
    return Tensor.upload(current(), np.broadcast_to(filled, extents), stored)


def checked_shape(shape: Shape) -> tuple[int, ...]:
    """Return a shape as a tuple of integers.

    Raises
    ------
    CallError
        If it is none.
    """
    extents = shape if isinstance(shape, Sequence) else (shape,)
    try:
        result = tuple(int(extent.__index__()) for extent in extents)
    except (AttributeError, TypeError):
        result = (-1,)
    if any(extent < 0 for extent in result):
        raise CallError(
            f"a shape is an integer or a sequence of integers that are not negative, not {shape!r}",
            loc=caller(),
            fix="write it as in (4, 3)",
        )
    if math.prod(extent or 1 for extent in result) > sys.maxsize:
        raise CallError(
            f"a tensor of shape {result} has more elements than any memory",
            loc=caller(),
            fix="use a smaller one",
        )
    return result
