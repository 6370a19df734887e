"""Changing shapes: reshape, transpose, concat; arguments are checked here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, cast

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import rearrange
from kohakutpu.api.array import Array, common_device
from kohakutpu.api.convert import FORMATS

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

Axes = int | Sequence[int] | None


def reshape(x: Tensor, wanted: tuple[Any, ...]) -> Tensor:
    """Return the elements in order under another shape; one extent may be -1.

    Raises
    ------
    CallError
        If the shape does not hold as many elements, or is none.
    """
    if len(wanted) == 1 and isinstance(wanted[0], Sequence):
        wanted = tuple(cast("Sequence[Any]", wanted[0]))
    try:
        shape = [index(extent) for extent in wanted]
    except TypeError:
        shape = [-2]
    if any(extent < -1 for extent in shape) or shape.count(-1) > 1:
        raise CallError(
            f"reshape takes integers that are not negative, and one -1 at most, not {wanted!r}",
            loc=caller(),
            fix="write it as in x.reshape(3, -1)",
        )
    if -1 in shape:
        others = math.prod(extent for extent in shape if extent != -1)
        if others and x.size % others == 0:
            shape[shape.index(-1)] = x.size // others
    if math.prod(shape) != x.size or -1 in shape:
        raise CallError(
            f"reshape: a tensor of shape {x.shape} has {x.size} elements, which do not fill "
            f"{tuple(wanted)}",
            loc=caller(),
            fix="give extents whose product is the number of elements",
        )
    return rearrange.reshaped(x, tuple(shape))


def transpose(x: Tensor, axes: tuple[Any, ...]) -> Tensor:
    """Return `x` with its axes in another order, by default the reverse.

    Raises
    ------
    CallError
        If `axes` does not name each axis once.
    """
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence)):
        axes = () if axes[0] is None else tuple(cast("Sequence[Any]", axes[0]))
    order = checked_axes("transpose", x, axes) if axes else tuple(reversed(range(x.ndim)))
    if len(order) != x.ndim:
        raise CallError(
            f"transpose names {len(order)} axes of a tensor with {x.ndim}, shape {x.shape}",
            loc=caller(),
            fix="name every axis once",
        )
    if not x.size:
        return type(x).empty(x.device, [x.shape[axis] for axis in order], x.format)
    return rearrange.permuted(x, order)


def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors one after the other along an axis.

    Parameters
    ----------
    tensors : sequence of Tensor
        One at least, of one format, equal in every other axis.
    axis : int
        An axis there is.

    Raises
    ------
    CallError
        If they do not go together.
    """
    if isinstance(tensors, Array):
        raise CallError(
            "concat takes a sequence of tensors, not one tensor",
            loc=caller(),
            fix="write concat([a, b])",
        )
    parts = list(tensors)
    device = common_device("concat", parts)
    first = parts[0]
    (place,) = checked_axes("concat", first, (axis,))
    rest = [(*x.shape[:place], 0, *x.shape[place + 1 :]) for x in parts]
    for other, lengths in zip(parts, rest, strict=True):
        if other.ndim != first.ndim or lengths != rest[0]:
            raise CallError(
                f"concat: shapes {first.shape} and {other.shape} differ in more than axis {place}",
                loc=caller(),
                fix="make all other axes equal",
            )
        if other.format != first.format:
            raise CallError(
                f"concat: elements of {FORMATS[first.format]} and of {FORMATS[other.format]}",
                loc=caller(),
                fix="make all tensors with one dtype",
            )
    shape = (*first.shape[:place], sum(x.shape[place] for x in parts), *first.shape[place + 1 :])
    if not math.prod(shape):
        return type(first).empty(device, shape, first.format)
    parts = [x for x in parts if x.size]
    return parts[0] if len(parts) == 1 else rearrange.joined(parts, place, shape)


def checked_axes(what: str, x: Tensor, axes: Sequence[Any]) -> tuple[int, ...]:
    """Return axes counted from the first one.

    Raises
    ------
    CallError
        If one is no axis of `x`, or named twice.
    """
    result: list[int] = []
    for axis in axes:
        try:
            number = None if isinstance(axis, bool) else index(axis)
        except TypeError:
            number = None
        if number is None or not -x.ndim <= number < x.ndim:
            last = f"axes {-x.ndim} to {x.ndim - 1}" if x.ndim else "no axes"
            raise CallError(
                f"{what}: {axis!r} is no axis of a tensor of shape {x.shape}",
                loc=caller(),
                fix=f"it has {last}",
            )
        result.append(number % x.ndim)
    if len(set(result)) != len(result):
        raise CallError(
            f"{what}: axes {tuple(axes)} of a tensor of shape {x.shape} name one axis twice",
            loc=caller(),
            fix="name each once",
        )
    return tuple(result)
