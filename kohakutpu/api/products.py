"""Computing contractions of tensors, alone or with elementwise work on their tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kohakutpu import kernels
from kohakutpu.api.broadcasting import on_device, scalar_form
from kohakutpu.kernels import fused
from kohakutpu.kernels.fused import Expression

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

NAMED: dict[tuple[Expression, tuple[str, ...]], Any] = {
    (("silu", 0), ()): kernels.linear_silu,
    (("gelu", 0), ()): kernels.linear_gelu,
    (("relu", 0), ()): kernels.linear_relu,
    (("add", 0, 1), ("channel",)): kernels.linear_bias,
    (("add", 0, 1), ("full",)): kernels.linear_residual,
}  # for a weight that a batch shares


def product(x: Tensor, w: Tensor, shape: tuple[int, ...], precision: str) -> Tensor:
    """Return ``x @ w``, which has `shape` and elements."""
    depth = x.shape[-1]
    knobs = knobs_of(precision)
    left, right = (t if t.ndim > 1 else t.view((1, depth)) for t in (x, w))
    if right.ndim == 2 and w.ndim > 1:
        # One weight for all: rows of the batch follow each other in memory already.
        rows = left.view((math.prod(left.shape[:-1]), depth))
        return kernels.matmul(rows, right, **knobs).view(shape)
    if left.ndim == 2 and x.ndim > 1 and w.ndim > 1:
        return kernels.batched_matmul(left, right, **knobs).view(shape)
    if w.ndim == 1 and x.ndim > 1:
        # (..., M, K) with (K,): as (1, K) with (..., M, K), whose rows hold the M results.
        left, right = right, left
    if left.ndim == right.ndim == 2:
        return kernels.matmul(left, right, **knobs).view(shape)
    return kernels.batched_matmul(left, right, **knobs).view(shape)


def knobs_of(precision: str) -> dict[str, Any]:
    """Return what a contraction's kernel is called with."""
    return {} if precision == "default" else {"precision": precision}


def forms_of(
    operands: Sequence[Any], x: tuple[int, ...], w: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[str, ...] | None:
    """Return the forms of the operands beside a product ``x @ w``; None if a tile has none such.

    Parameters
    ----------
    operands : sequence of Tensor, np.float32, or anything with a shape
        What is combined with the product.
    x, w, shape : tuple of int
        Shapes of the factors and of the product.
    """
    if len(x) < 2 or len(w) < 2:
        return None
    forms: list[str] = []
    for operand in operands:
        own: tuple[int, ...] = operand.shape
        if isinstance(operand, np.floating):
            forms.append("number")
        elif math.prod(own) == 1:
            forms.append(scalar_form(operand))
        elif own == shape:
            forms.append("full")
        elif math.prod(own) == own[-1] == shape[-1]:
            forms.append("channel")
        else:
            return None
    return tuple(forms)


def fused_product(
    expression: Expression,
    factors: tuple[Tensor, Tensor],
    operands: Sequence[Any],
    shape: tuple[int, ...],
    precision: str,
) -> Tensor:
    """Return an expression of a product (its operand 0) and other operands, in one kernel."""
    x, w = factors
    forms = forms_of(operands, x.shape, w.shape, shape)
    assert forms is not None, "the caller made sure that the operands have forms"
    shared = w.ndim == 2
    lead = (math.prod(shape[:-1]),) if shared else shape[:-1]
    if shared:
        x = x.view((*lead, x.shape[-1]))
    place = {"full": (*lead, shape[-1]), "channel": shape[-1:]}
    others = [
        on_device(operand, x).view(place.get(form, ()))
        for operand, form in zip(operands, forms, strict=True)
    ]
    kernel = NAMED.get((expression, forms)) if shared else None
    kernel = kernel or fused.contraction_for(expression, forms, shared)
    return kernel(x, w, *others, **knobs_of(precision)).view(shape)
