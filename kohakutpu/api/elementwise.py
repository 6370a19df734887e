"""Elementwise operations with numpy's broadcasting, each on the kernel that fits its shapes.

Operands whose elements correspond one to one, and numbers, are walked in storage order. Everything
else becomes one shape of problem, rows of the last axis: axes before it are merged where all
operands agree on them, and each operand is whole, one row for all (channel), one element a row
(column), or one element.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu import kernels
from kohakutpu.api.array import Array, common_device
from kohakutpu.config import WORD_BYTES
from kohakutpu.kernels import broadcast
from kohakutpu.lang import Kernel

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

Number = bool | int | float | np.integer[Any] | np.floating[Any] | np.bool_
WORD_ELEMENTS = WORD_BYTES // 2
ROW_WORDS = 256  # longer rows are computed in pieces
NUMBERS = (bool, int, float, np.integer, np.floating, np.bool_)


def unary(name: str, x: Tensor) -> Tensor:
    """Return an elementwise function of one tensor, of the same shape."""
    device = common_device(name, (x,))
    if not x.size:
        return type(x).empty(device, x.shape, "fp16")
    return getattr(kernels, name)(x)


def apply(name: str, *operands: Tensor | Number) -> Tensor:
    """Return the operation `name` of tensors and numbers, broadcast as numpy does.

    Raises
    ------
    CallError
        If an operand is neither, no operand is a tensor, or the shapes do not go together.
    """
    first = next((x for x in operands if isinstance(x, Array)), None)
    tensors: list[Tensor] = [] if first is None else [as_operand(x, first) for x in operands]
    device = common_device(name, tensors)
    shape = common_shape(name, [tensor.shape for tensor in tensors])
    if not math.prod(shape):
        return type(tensors[0]).empty(device, shape, "fp16")
    padded = [(1,) * (len(shape) - x.ndim) + x.shape for x in tensors]
    if all(p == shape or x.size == 1 for x, p in zip(tensors, padded, strict=True)):
        # A number has no axes either, but keeps its format where the result has none.
        number = [not x.ndim and x.format == "fp32" for x in tensors]
        whole = [p == shape and not single for p, single in zip(padded, number, strict=True)]
        if not any(whole):
            return same_shapes(name, len(tensors))(*tensors)
        forms = ["part" if fits else scalar_form(x) for x, fits in zip(tensors, whole, strict=True)]
        views = [x.view(shape if fits else ()) for x, fits in zip(tensors, whole, strict=True)]
        if all(whole):
            return same_shapes(name, len(tensors))(*views)
        return broadcast.kernel_for(name, tuple(forms))(*views)
    return by_rows(name, tensors, padded, shape)


def same_shapes(name: str, count: int) -> Kernel:
    """Return the kernel of an operation for `count` operands of one shape."""
    known = getattr(kernels, name, None)
    return broadcast.kernel_for(name, ("part",) * count) if known is None else known


def by_rows(
    name: str, tensors: Sequence[Tensor], padded: Sequence[tuple[int, ...]], shape: tuple[int, ...]
) -> Tensor:
    """Run the row form: leading axes merged, the last of them rows, those before it a batch."""
    groups = merged_axes(padded, shape)
    extents = [math.prod(shape[axis] for axis in group) for group in groups]
    present = [[all(p[axis] == shape[axis] for axis in group) for group in groups] for p in padded]
    pieces, width = split_width(shape[-1])
    if pieces > 1:
        extents.append(pieces)
        for p, has in zip(padded, present, strict=True):
            has.append(p[-1] > 1)
    scalars = [x.size == 1 for x in tensors]
    rows = [has[-1] for has in present]
    wide = [p[-1] == shape[-1] for p in padded]
    if not all(s or r or w for s, r, w in zip(scalars, rows, wide, strict=True)):
        # One element for many rows, another one elsewhere: give every row an instance of its own.
        extents.append(1)
        for has in present:
            has.append(True)
        rows = [True for _ in tensors]
    views: list[Tensor] = []
    forms: list[str] = []
    for x, scalar, row, along, has in zip(tensors, scalars, rows, wide, present, strict=True):
        if scalar:
            forms.append(scalar_form(x))
            views.append(x.view(()))
            continue
        forms.append(("full" if row else "channel") if along else "column")
        lead = [extent if there else 1 for extent, there in zip(extents, has, strict=True)]
        views.append(x.stored_as((*lead[: None if row else -1], width if along else 1)))
    return broadcast.kernel_for(name, tuple(forms))(*views).stored_as(shape)


def split_width(width: int) -> tuple[int, int]:
    """Return pieces and elements of each, so that a row in memory is pieces that fit an L1.

    What fills up the last word of a row is computed with; nobody looks at the result.
    """
    words = -(-width // WORD_ELEMENTS)
    if words <= ROW_WORDS:
        return 1, width
    each = next(n for n in range(ROW_WORDS, 0, -1) if words % n == 0)
    return words // each, each * WORD_ELEMENTS


def merged_axes(padded: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> list[list[int]]:
    """Return runs of neighbouring leading axes that every operand has, or lacks, together."""
    groups: list[list[int]] = []
    last: list[bool] | None = None
    for axis in range(len(shape) - 1):
        if shape[axis] == 1:
            continue
        pattern = [p[axis] == shape[axis] for p in padded]
        if pattern == last:
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last = pattern
    return groups


def scalar_form(x: Array) -> str:
    """Return the form of a single element: it depends on the format it is stored in."""
    return "scalar" if x.format == "fp16" else "number"


def common_shape(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to.

    Raises
    ------
    CallError
        If they do not.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise CallError(
            f"{name}: shapes {listed} do not broadcast to one",
            loc=caller(),
            fix="axes are compared from the last one on; each pair must be equal or contain a 1",
        ) from None


def as_operand(value: Any, like: Array) -> Any:
    """Return a number as an FP32 tensor without axes, on the device of `like`; all else as it is.

    Raises
    ------
    CallError
        If it is a number beyond FP32.
    """
    if isinstance(value, Array) or not isinstance(value, NUMBERS):
        return value
    try:
        wide = float(cast("Any", value))
    except OverflowError:  # an integer beyond double precision
        wide = sys.float_info.max
    with np.errstate(over="ignore"):
        number = np.float32(wide)
    if np.isinf(number) and math.isfinite(wide):
        raise CallError(
            f"the number {wide:g} is beyond FP32, which ends at 3.4028235e38",
            loc=caller(),
            fix="scale the computation",
        )
    return type(like).upload(like.device, np.asarray(number), "fp32")
