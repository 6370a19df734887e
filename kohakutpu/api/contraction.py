"""``@``: contract the last axis of both operands, with batch axes on either or both sides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api.array import Array, common_device
from kohakutpu.api.deferred import defer

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

PRECISIONS = ("default", "high")


def matmul(x: Tensor, w: Tensor, *, precision: str = "default") -> Tensor:
    """Contract the last axis of both operands.

    Parameters
    ----------
    x : Tensor
        Shape ``(..., M, K)``, or ``(K,)``.
    w : Tensor
        Shape ``(..., N, K)``, or ``(K,)``. Its leading axes broadcast with those of `x`.
    precision : {"default", "high"}
        ``"high"`` multiplies three times as much and errs below FP16's own rounding.

    Returns
    -------
    Tensor
        Shape ``(..., M, N)``; the axis of an operand that has one axis is left out.

    Raises
    ------
    CallError
        If the shapes do not go together, or `precision` is unknown.
    """
    device = common_device("matmul", (x, w))
    if precision not in PRECISIONS:
        raise CallError(
            f"matmul: precision is {precision!r}",
            loc=caller(),
            fix=f"use one of {', '.join(map(repr, PRECISIONS))}",
        )
    shape = result_shape(x, w)
    depth = x.shape[-1]
    if not math.prod(shape) or not depth:
        result = type(x).empty(device, shape, "fp16")
        if not math.prod(shape):
            return result
        return type(x).upload(device, np.zeros(shape, np.float16), "fp16")
    return defer("matmul", (x, w), shape, precision=precision)


def result_shape(x: Array, w: Array) -> tuple[int, ...]:
    """Return the shape of ``x @ w``.

    Raises
    ------
    CallError
        If there is none.
    """
    if not x.ndim or not w.ndim:
        raise CallError(
            f"matmul: shapes {x.shape} and {w.shape}: an operand without axes has no last one",
            loc=caller(),
            fix="multiply by a number with *",
        )
    if x.shape[-1] != w.shape[-1]:
        hint = "transpose w" if w.ndim > 1 and x.shape[-1] == w.shape[-2] else "make them equal"
        raise CallError(
            f"matmul contracts the last axis of both: {x.shape[-1]} of {x.shape} is not "
            f"{w.shape[-1]} of {w.shape}",
            loc=caller(),
            fix=f"{hint}; a weight is stored as (outputs, inputs)",
        )
    try:
        batch = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except ValueError:
        raise CallError(
            f"matmul: the batch axes {x.shape[:-2]} of {x.shape} and {w.shape[:-2]} of {w.shape} "
            "do not broadcast",
            loc=caller(),
            fix="axes before the last two are compared from the right; each pair must be equal or "
            "contain a 1",
        ) from None
    return (*batch, *x.shape[-2:-1], *w.shape[-2:-1])
