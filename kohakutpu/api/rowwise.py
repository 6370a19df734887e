"""Functions along the last axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.vector.geometry import MAX_COLS
from kohakuaccel.errors import CallError, CapacityError
from kohakuaccel.source import caller
from kohakutpu import kernels
from kohakutpu.api.array import common_device
from kohakutpu.api.rearrange import permuted, reshaped
from kohakutpu.api.shapes import Axes, checked_axes
from kohakutpu.kernels import wide

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

OF_NOTHING = {"sum": 0.0, "mean": math.nan}  # what numpy returns for rows without elements


def reduce(name: str, x: Tensor, axis: Axes = -1, keepdims: bool = False) -> Tensor:
    """Return the sum, maximum, minimum or mean along axes, without them or with one index each.

    A result's bits are those of one row that holds its elements in order.

    Raises
    ------
    CallError
        If there is no such axis, or for the maximum or minimum of nothing.
    """
    common_device(name, (x,))
    every = tuple(range(x.ndim))
    if axis is None or (not x.ndim and axis == -1):
        axes = every
    else:
        axes = checked_axes(name, x, axis if isinstance(axis, Sequence) else (axis,))
    rest = tuple(a for a in every if a not in axes)
    shape = tuple(1 if a in axes else x.shape[a] for a in every if keepdims or a in rest)
    if not math.prod(x.shape[a] for a in axes) and name not in OF_NOTHING:
        raise CallError(
            f"{name} of rows without elements, shape {x.shape}",
            loc=caller(),
            fix="leave the call out where there is nothing to compare",
        )
    if not math.prod(shape):
        return type(x).empty(x.device, shape, "fp16")
    if not x.size:
        return type(x).upload(x.device, np.full(shape, OF_NOTHING[name], np.float16), "fp16")
    if not axes:
        return reshaped(by_rows(f"row_{name}", reshaped(x, (x.size, 1))), shape)
    lead = tuple(x.shape[a] for a in rest)
    rows = reshaped(permuted(x, (*rest, *sorted(axes))), (*lead, x.size // math.prod(lead)))
    return reshaped(by_rows(f"row_{name}", rows_of(rows)), shape)


def softmax(x: Tensor) -> Tensor:
    """Return the softmax of each row, of the same shape."""
    if not x.size:
        return type(x).empty(x.device, x.shape, "fp16")
    return by_rows("softmax", flat_rows(x)).view(x.shape)


def rmsnorm(x: Tensor, w: Tensor, eps: float) -> Tensor:
    """Return each row divided by its root mean square and scaled by `w`.

    Raises
    ------
    CallError
        If `w` has not one element a column.
    """
    require_channel("rmsnorm", "w", x, w)
    if not x.size:
        return type(x).empty(x.device, x.shape, "fp16")
    return by_rows("rmsnorm", flat_rows(x), w.view(w.shape or (1,)), eps=eps).view(x.shape)


def layernorm(x: Tensor, w: Tensor, b: Tensor, eps: float) -> Tensor:
    """Return each row less its mean, divided by its deviation, scaled by `w` and moved by `b`.

    Raises
    ------
    CallError
        If `w` or `b` has not one element a column.
    """
    require_channel("layernorm", "w", x, w)
    require_channel("layernorm", "b", x, b)
    if not x.size:
        return type(x).empty(x.device, x.shape, "fp16")
    channels = (w.view(w.shape or (1,)), b.view(b.shape or (1,)))
    return by_rows("layernorm", flat_rows(x), *channels, eps=eps).view(x.shape)


def by_rows(name: str, x: Tensor, *channels: Tensor, **knobs: Any) -> Tensor:
    """Run a kernel of whole rows, or piece by piece if an instruction or an L1 is too small."""
    if x.shape[-1] <= MAX_COLS:
        try:
            return getattr(kernels, name)(x, *channels, **knobs)
        except CapacityError:
            pass
    return getattr(wide, name)(x, *channels, **knobs)


def flat_rows(x: Tensor) -> Tensor:
    """Return `x` with all its rows under one axis."""
    width = x.shape[-1] if x.shape else 1
    return x.view((x.size // width, width))


def rows_of(x: Tensor) -> Tensor:
    """Return `x` with two axes at least."""
    return x if x.ndim > 1 else x.view((1, *(x.shape or (1,))))


def require_channel(what: str, name: str, x: Tensor, channel: Tensor) -> None:
    """Check that `channel` is a tensor with one element for each column of `x`.

    Raises
    ------
    CallError
        If it is not.
    """
    common_device(what, (x, channel))
    if channel.shape != x.shape[-1:]:
        raise CallError(
            f"{what}: {name} has shape {channel.shape}, and rows of shape {x.shape[-1:]} in "
            f"{x.shape} want one element a column",
            loc=caller(),
            fix=f"give {name} the shape {x.shape[-1:]}",
        )
