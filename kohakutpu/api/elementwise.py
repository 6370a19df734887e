"""Elementwise operations with numpy's broadcasting: checked here, computed when they are wanted."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api.array import Array, common_device
from kohakutpu.api.deferred import defer

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

Number = bool | int | float | np.integer[Any] | np.floating[Any] | np.bool_
NUMBERS = (bool, int, float, np.integer, np.floating, np.bool_)


def unary(name: str, x: Tensor) -> Tensor:
    """Return an elementwise function of one tensor, of the same shape."""
    device = common_device(name, (x,))
    if not x.size:
        return type(x).empty(device, x.shape, "fp16")
    return defer(name, (x,), x.shape)


def apply(name: str, *operands: Tensor | Number) -> Tensor:
    """Return the operation `name` of tensors and numbers, broadcast as numpy does.

    Raises
    ------
    CallError
        If an operand is neither, no operand is a tensor, or the shapes do not go together.
    """
    checked: list[Any] = [as_operand(operand) for operand in operands]
    tensors: list[Any] = [x for x in checked if not isinstance(x, np.floating)]
    device = common_device(name, tensors)
    shape = common_shape(name, [tensor.shape for tensor in tensors])
    if not math.prod(shape):
        like: Tensor = tensors[0]
        return type(like).empty(device, shape, "fp16")
    return defer(name, checked, shape)


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


def as_operand(value: Any) -> Any:
    """Return a number as FP32; all else as it is.

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
    return number
