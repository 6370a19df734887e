"""Computing elementwise expressions of tensors and numbers, broadcast as numpy does.

Operands whose elements correspond one to one, and numbers, are walked in storage order. Everything
else becomes one shape of problem, rows of the last axis: axes before it are merged where all
operands agree on them, and each operand is whole, one row for all (channel), one element a row
(column), or one element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kohakutpu import kernels
from kohakutpu.api.array import Array
from kohakutpu.config import WORD_BYTES
from kohakutpu.kernels import broadcast, fused
from kohakutpu.kernels.fused import Expression
from kohakutpu.lang import Kernel

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

WORD_ELEMENTS = WORD_BYTES // 2
ROW_WORDS = 256  # longer rows are computed in pieces


def compute(
    expression: Expression, operands: Sequence[Tensor | np.float32], shape: tuple[int, ...]
) -> Tensor:
    """Return an expression of operands that broadcast to `shape`, which has elements."""
    like = next(x for x in operands if isinstance(x, Array))
    tensors = [on_device(x, like) for x in operands]
    padded = [(1,) * (len(shape) - x.ndim) + x.shape for x in tensors]
    if all(p == shape or x.size == 1 for x, p in zip(tensors, padded, strict=True)):
        # A number has no axes either, but keeps its format where the result has none.
        number = [not x.ndim and x.format == "fp32" for x in tensors]
        whole = [p == shape and not single for p, single in zip(padded, number, strict=True)]
        if not any(whole):
            return kernel_for(expression, ("part",) * len(tensors))(*tensors)
        forms = ["part" if fits else scalar_form(x) for x, fits in zip(tensors, whole, strict=True)]
        views = [x.view(shape if fits else ()) for x, fits in zip(tensors, whole, strict=True)]
        return kernel_for(expression, tuple(forms))(*views)
    return by_rows(expression, tensors, padded, shape)


def kernel_for(expression: Expression, forms: tuple[str, ...]) -> Kernel:
    """Return the kernel of an expression: the library's, where it is one operation it has."""
    name: str = "" if isinstance(expression, int) else expression[0]
    if expression != (name, *range(len(forms))) or (len(forms) == 1 and forms != ("part",)):
        return fused.elementwise_for(expression, forms)
    if set(forms) == {"part"} and hasattr(kernels, name):
        return getattr(kernels, name)
    return broadcast.kernel_for(name, forms)


def on_device(value: Any, like: Array) -> Any:
    """Return a number as an FP32 tensor without axes; a tensor as it is."""
    if isinstance(value, Array):
        return value
    return type(like).upload(like.device, np.asarray(value, np.float32), "fp32")


def by_rows(
    expression: Expression,
    tensors: Sequence[Tensor],
    padded: Sequence[tuple[int, ...]],
    shape: tuple[int, ...],
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
    return kernel_for(expression, tuple(forms))(*views).stored_as(shape)


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
