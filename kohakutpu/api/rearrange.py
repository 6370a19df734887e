"""Copies that change where elements lie: everything moves on the device.

Rows at whole quarters (4 elements of FP16) move as they are. A transposition takes elements out of
rows one column at a time. What else moves single elements makes columns of rows first, a word for
each element, reorders those, and makes rows of them again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kohakutpu.api import layout
from kohakutpu.api.convert import FORMATS
from kohakutpu.api.dispatch import MAX_STRIDE, Backend
from kohakutpu.config import QUARTER_BYTES, WORD_BYTES
from kohakutpu.kernels import rearrange, transpose

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

BACKEND = Backend()
QUARTERS = WORD_BYTES // QUARTER_BYTES


def contiguous(x: Tensor) -> Tensor:
    """Return the same elements with rows one after the other: `x` itself, or a copy."""
    if x.is_contiguous:
        return x
    result = type(x).empty(x.device, x.shape, x.format)
    copy_into(x, result)
    return result


def copy_into(source: Tensor, target: Tensor) -> None:
    """Copy rows of one shape: each starts on a quarter, and the target's quarters are filled up."""
    if not source.size:
        return
    lead = source.shape[:-1]
    pairs = zip(source.strides, target.strides, strict=True)
    axes = layout.merged([(n, steps) for n, steps in zip(lead, pairs, strict=True)])
    rows = [i for i, (_, steps) in enumerate(axes) if all(0 <= s <= MAX_STRIDE for s in steps)]
    if rows:  # the longest axis is an instruction's rows
        axes.append(axes.pop(max(rows, key=lambda i: axes[i][0])))
    else:
        axes.append((1, (0, 0)))
    shape = (*(n for n, _ in axes), source.shape[-1] if source.shape else 1)
    view = source.strided(shape, [steps[0] for _, steps in axes])
    place = target.strided(shape, [steps[1] for _, steps in axes])
    BACKEND.call_into(rearrange.kernel_for("copy", source.format), (view,), place)


def column_of(x: Tensor) -> Tensor:
    """Return the elements as rows of one: shape ``(*x.shape, 1)``."""
    if not x.shape or x.shape[-1] == 1:
        return x.strided((*x.shape, 1), (*x.strides, 0)[: x.ndim])
    result = type(x).empty(x.device, (*x.shape, 1), x.format)
    if x.size:
        kernel = rearrange.kernel_for("to_column", x.format)
        BACKEND.call_into(kernel, (x,), result)
    return result


def row_of(x: Tensor) -> Tensor:
    """Return rows of one element as rows of the axis before: shape ``x.shape[:-1]``."""
    shape = x.shape[:-1]
    if not shape or shape[-1] == 1:
        return x.strided(shape, x.strides[:-1])
    if not 0 <= x.strides[-1] <= MAX_STRIDE:
        x = contiguous(x)
    result = type(x).empty(x.device, shape, x.format)
    if x.size:
        BACKEND.call_into(rearrange.kernel_for("to_row", x.format), (x,), result)
    return result


def pick_into(x: Tensor, index: int, target: Tensor) -> None:
    """Write ``x[..., index]``, one element of each row, to `target` of shape ``x.shape[:-1]``."""
    quarter = layout.per_quarter(x.format)
    start = index // quarter * quarter
    width = min(quarter, x.shape[-1] - start)
    lead = x.shape[:-1] or (1,)
    offset = start * FORMATS[x.format].itemsize
    near = x.strided((*lead, width), x.strides or (0,), offset)
    if not 0 <= near.strides[-1] <= MAX_STRIDE:
        near = contiguous(near)
    mask = type(x).upload(x.device, np.eye(width, dtype=np.float16)[index - start], "fp16")
    place = target.strided(lead, target.strides)
    BACKEND.call_into(rearrange.kernel_for("pick", x.format), (near, mask), place)


def picked(x: Tensor, index: int) -> Tensor:
    """Return ``x[..., index]``: one element of each row."""
    result = type(x).empty(x.device, x.shape[:-1], x.format)
    if x.size:
        pick_into(x, index, result)
    return result


def permuted(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return `x` with its axes in another order; no copy is made where the last one stays."""
    last = x.ndim - 1
    if axes == tuple(range(x.ndim)):
        return x
    if axes[-1] != last and x.shape[-1] > 1:
        return turned(x, axes)
    if axes[-1] != last:
        return row_of(permuted(column_of(x), (*axes, last + 1)))
    steps = x.strides
    return x.strided([x.shape[a] for a in axes], [steps[a] for a in axes[:-1]])


def turned(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return a copy of `x` with its axes in another order, in which the last one is another.

    A pass takes the same quarter of every word: each of its columns goes to rows of the result.
    """
    if not 0 <= x.strides[axes[-1]] <= MAX_STRIDE:
        x = contiguous(x)
    last, down = x.ndim - 1, axes[-1]
    result = type(x).empty(x.device, [x.shape[a] for a in axes], x.format)
    if not x.size:
        return result
    place = axes.index(last)  # of the columns in the result
    across = result.strides[place]
    batch = [a for a in axes[:-1] if a != last]
    shape = [x.shape[a] for a in batch]
    sources = [x.strides[a] for a in batch]
    targets = [result.strides[n] for n, a in enumerate(axes[:-1]) if a != last]
    word, quarter = layout.per_word(x.format), layout.per_quarter(x.format)
    columns = x.shape[-1]
    for start in range(0, min(word, columns), quarter):
        whole = max(0, (columns - start - quarter) // word + 1)
        for width, words, first in (
            (quarter, whole, start),
            (min(columns - start - whole * word, quarter), 1, start + whole * word),
        ):
            if words < 1 or width < 1:
                continue
            view = x.strided(
                (*shape, words, x.shape[down], width),
                (*sources, 1, x.strides[down]),
                first * FORMATS[x.format].itemsize,
            )
            rows = [
                result.strided(
                    (*shape, words, x.shape[down]),
                    (*targets, word * across),
                    (first + column) * across * WORD_BYTES,
                )
                for column in range(width)
            ]
            BACKEND.call_into(transpose.kernel_for(width, x.format), (view,), *rows)
    return result


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the elements, in order, under another shape of as many."""
    if shape == x.shape:
        return x
    if not x.size:
        return type(x).empty(x.device, shape, x.format)
    width, wanted = (s[-1] if s else 1 for s in (x.shape, shape))
    if width == wanted:
        return with_lead(x, shape)
    word, quarter = layout.per_word(x.format), layout.per_quarter(x.format)
    if width % word == 0 and wanted % word == 0:
        words = x.strided((*x.shape[:-1], width // word, word), (*x.strides, 1))
        split = with_lead(words, (*shape[:-1], wanted // word, word))
        if wanted > word and split.strides[-1] != 1:
            split = contiguous(split)
        return split.strided(shape, split.strides[:-1])
    if width % quarter == 0 and wanted % quarter == 0:
        return requartered(x, shape)
    column = contiguous(column_of(x))
    return row_of(with_lead(column, (*shape, 1)))


def with_lead(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return `x` under a shape with the same last axis: a view, of a copy if there is no other."""
    lead = x.shape[:-1]
    strides = layout.regroup(lead, x.strides, shape[:-1])
    if strides is None:
        x = contiguous(x)
        strides = layout.packed(shape, x.format)
    return x.strided(shape, strides)


def requartered(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Reshape rows of whole quarters to others: through one row, in which nothing is padding."""
    word = layout.per_word(x.format)
    dense = x.strided((x.size,), ()) if x.ndim < 2 and x.is_contiguous else None
    if dense is None:
        rows = with_lead(x, (x.size // x.shape[-1], x.shape[-1]))
        dense = type(x).empty(x.device, (x.size,), x.format)
        for part, inside in interleaved(rows, dense):
            copy_into(part, inside)
    if len(shape) < 2:
        return dense.strided(shape, ())
    if shape[-1] % word == 0:
        return dense.strided(shape, layout.packed(shape, x.format))
    result = type(x).empty(x.device, shape, x.format)
    rows = with_lead(result, (x.size // shape[-1], shape[-1]))
    for part, inside in interleaved(rows, dense):
        copy_into(inside, part)
    return result


def interleaved(rows: Tensor, dense: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of every `n`-th row and where those are in `dense`, whole words apart."""
    count, width = rows.shape
    quarters = width // layout.per_quarter(rows.format)
    period = QUARTERS // math.gcd(QUARTERS, quarters)
    pairs: list[tuple[Tensor, Tensor]] = []
    for first in range(min(period, count)):
        shape = (-(-(count - first) // period), width)
        step = rows.strides[0]
        part = rows.strided(shape, (step * period,), first * step * WORD_BYTES)
        apart = quarters * period // QUARTERS
        inside = dense.strided(shape, (apart,), first * quarters * QUARTER_BYTES)
        pairs.append((part, inside))
    return pairs


def joined(parts: list[Tensor], axis: int, shape: tuple[int, ...]) -> Tensor:
    """Return tensors one after the other along an axis."""
    first = parts[0]
    quarter = layout.per_quarter(first.format)
    if axis == len(shape) - 1 and any(part.shape[-1] % quarter for part in parts[:-1]):
        columns = joined([column_of(part) for part in parts], axis, (*shape, 1))
        return row_of(columns)
    result = type(first).empty(first.device, shape, first.format)
    place = 0
    for part in parts:
        if axis == len(shape) - 1:
            offset = place * result.dtype.itemsize
        else:
            offset = place * result.strides[axis] * WORD_BYTES
        copy_into(part, result.strided(part.shape, result.strides, offset))
        place += part.shape[axis]
    return result
