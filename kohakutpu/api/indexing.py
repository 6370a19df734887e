"""``x[...]``: integers, slices, None and an ellipsis, as in numpy."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import layout, rearrange
from kohakutpu.api.convert import FORMATS
from kohakutpu.config import WORD_BYTES

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor


def select(x: Tensor, key: Any) -> Tensor:
    """Return the elements that `key` names.

    Raises
    ------
    CallError
        If it is no such key, has more indices than there are axes, or one is out of range.
    """
    entries = expanded(cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,), x)
    axis = 0
    kept: list[bool] = []  # of the axes there are: those an integer selects from go
    added: list[int] = []  # where a new axis goes, counted in axes that are kept
    for entry in entries:
        if entry is None:
            added.append(sum(kept))
            continue
        wanted = bounds(entry, axis, x.shape)
        kept.append(isinstance(entry, slice))
        if wanted is not None and not kept[-1] and axis == x.ndim - 1:
            x = rearrange.picked(x, wanted[0])
            kept.pop()
        elif wanted is not None:
            x = sliced(x, axis, wanted)
        axis += 1
    x = without(x, kept)
    for number, place in enumerate(added):
        x = with_axis(x, place + number)
    return x


def expanded(key: tuple[Any, ...], x: Tensor) -> list[Any]:
    """Return one entry an axis, and the Nones between them.

    Raises
    ------
    CallError
        If there are too many.
    """
    dots = [place for place, entry in enumerate(key) if entry is Ellipsis]
    if len(dots) > 1:
        raise CallError(
            "an index has several `...`", loc=caller(), fix="leave one, and write `:` for others"
        )
    given = sum(entry is not None and entry is not Ellipsis for entry in key)
    if given > x.ndim:
        raise CallError(
            f"{given} indices for a tensor with {x.ndim} axes, shape {x.shape}",
            loc=caller(),
            fix=f"use {x.ndim} at most",
        )
    place = dots[0] if dots else len(key)
    rest = [slice(None)] * (x.ndim - given)
    return [*key[:place], *rest, *key[place + 1 :]]


def bounds(entry: Any, axis: int, shape: tuple[int, ...]) -> range | None:
    """Return the indices that an entry selects along an axis; None if it selects all of them.

    Raises
    ------
    CallError
        If it is neither an integer nor a slice, or out of range.
    """
    extent = shape[axis]
    if isinstance(entry, slice):
        try:
            wanted = range(*entry.indices(extent))
        except (TypeError, ValueError) as error:
            raise CallError(
                f"axis {axis} of a tensor of shape {shape}: {error}",
                loc=caller(),
                fix="use integers in a slice, and a step that is not 0",
            ) from None
        return None if wanted == range(extent) else wanted
    try:
        number = None if type(entry) in (bool, np.bool_) else index(entry)
    except TypeError:
        number = None
    if number is None:
        raise CallError(
            f"a tensor cannot be indexed by {type(entry).__name__}",
            loc=caller(),
            fix="use integers, slices, None and `...`; where() selects by a condition",
        )
    if not -extent <= number < extent:
        raise CallError(
            f"index {number} is out of range for axis {axis} of a tensor of shape {shape}",
            loc=caller(),
            fix=f"use an index from {-extent} to {extent - 1}" if extent else "the axis is empty",
        )
    number %= extent
    return range(number, number + 1)


def sliced(x: Tensor, axis: int, wanted: range) -> Tensor:
    """Return the elements of `wanted` indices along an axis."""
    shape = (*x.shape[:axis], len(wanted), *x.shape[axis + 1 :])
    if not len(wanted) or not x.size:
        return type(x).empty(x.device, shape, x.format)
    if axis < x.ndim - 1:
        step = x.strides[axis]
        strides = (*x.strides[:axis], step * wanted.step, *x.strides[axis + 1 :])
        return x.strided(shape, strides, wanted[0] * step * WORD_BYTES)
    size, quarter = FORMATS[x.format].itemsize, layout.per_quarter(x.format)
    if wanted[0] % quarter == 0 and (wanted.step == 1 or len(wanted) == 1):
        return x.strided(shape, x.strides, wanted[0] * size)
    low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1
    start = low // quarter * quarter
    near = x.strided((*x.shape[:-1], high - start), x.strides, start * size)
    column = rearrange.column_of(near)
    first = wanted[0] - start
    picked = range(first, first + len(wanted) * wanted.step, wanted.step)
    return rearrange.row_of(sliced(column, axis, picked))


def without(x: Tensor, kept: list[bool]) -> Tensor:
    """Return `x` without the axes that are not kept, of which each has one index."""
    if all(kept):
        return x
    if not x.size:
        shape = [n for n, keep in zip(x.shape, kept, strict=True) if keep]
        return type(x).empty(x.device, shape, x.format)
    if not kept[-1]:
        # Rows hold one element: another axis becomes the last one.
        lead = without(x, [*kept[:-1], True])
        return rearrange.row_of(lead)
    pairs = [(n, s) for n, s, keep in zip(x.shape, (*x.strides, 0), kept, strict=True) if keep]
    return x.strided([n for n, _ in pairs], [s for _, s in pairs[:-1]])


def with_axis(x: Tensor, place: int) -> Tensor:
    """Return `x` with another axis of one index."""
    shape = (*x.shape[:place], 1, *x.shape[place:])
    if not x.size:
        return type(x).empty(x.device, shape, x.format)
    if place == x.ndim:
        return rearrange.column_of(x)
    return x.strided(shape, (*x.strides[:place], 0, *x.strides[place:]))
