"""``conv2d``: which rows of an image the kernel of `kohakutpu.kernels.convolution` contracts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, cast

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import fitting
from kohakutpu.api.array import common_device
from kohakutpu.api.rearrange import contiguous, copy_into
from kohakutpu.api.tensor import Tensor
from kohakutpu.config import WORD_BYTES
from kohakutpu.kernels.convolution import kernel_for

PER_WORD = WORD_BYTES // 2  # elements of FP16

Pair = int | Sequence[int]


def conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    activation: str = "none",
    precision: str = "default",
) -> Tensor:
    """Convolve images, channels last, with filters: ``(..., H, W, C)`` to ``(..., H', W', O)``.

    As in other libraries it is a cross-correlation: filters are not turned. No element of an image
    is copied, unless it needs padding, or has a number of channels that is no multiple of 16 under
    filters wider than 1: then a copy with zeros around is made on the device.

    Parameters
    ----------
    x : Tensor
        Shape ``(..., H, W, C)``.
    w : Tensor
        Shape ``(O, kh, kw, C)``.
    bias : Tensor, optional
        Shape ``(O,)``, added before the activation.
    stride : int or pair of int
        Rows and columns from output to output.
    padding : int or pair of int
        Rows and columns of zeros on each side.
    activation : str
        One of `kohakutpu.kernels.linear.ACTIVATIONS`.
    precision : {"default", "high"}
        As for `matmul`.

    Returns
    -------
    Tensor
        Shape ``(..., (H + 2 * padding - kh) // stride + 1, ..., O)``. Products are rounded as those
        of a `matmul` along ``(kw, C)``, C rounded up to 16 if ``kw > 1``, for each of the ``kh``
        rows of the filter in turn, all into one sum.

    Raises
    ------
    CallError
        If the shapes do not go together, or a filter is larger than the image with its padding.
    """
    down, along = pair("stride", stride, 1)
    above, left = pair("padding", padding, 0)
    check_shapes(x, w, bias)
    (height, width, channels), (outputs, kh, kw) = x.shape[-3:], w.shape[:-1]
    rows = (height + 2 * above - kh) // down + 1
    columns = (width + 2 * left - kw) // along + 1
    if rows < 1 or columns < 1:
        raise CallError(
            f"conv2d: filters of {kh} x {kw} do not fit images of {height} x {width} with padding "
            f"{above} x {left}",
            loc=caller(),
            fix="use larger images, more padding or smaller filters",
        )
    shape = (*x.shape[:-3], rows, columns, outputs)
    if not math.prod(shape):
        return Tensor.empty(x.device, shape, "fp16")
    count = math.prod(x.shape[:-3])
    images = x.view((count, height, width, channels))
    if above or left or (kw > 1 and channels % PER_WORD):
        channels = -(-channels // PER_WORD) * PER_WORD if kw > 1 else channels
        images = padded(images, above, left, channels)
        w = padded(w, 0, 0, channels) if channels != w.shape[-1] else w
    images, w = contiguous(images), contiguous(w)
    pixel = -(-channels // PER_WORD)  # words
    if kh == kw == down == along == 1:
        taps = [images.view((count * rows * columns, channels))]
    else:
        image, line, _ = images.strides
        taps = [
            images.strided(
                (count, rows, columns, kw * channels),
                (image, down * line, along * pixel),
                row * line * WORD_BYTES,
            )
            for row in range(kh)
        ]
    filters = [
        w.strided((outputs, kw * channels), (kh * kw * pixel,), row * kw * pixel * WORD_BYTES)
        for row in range(kh)
    ]
    operands = [*taps, *filters, *(() if bias is None else (bias.contiguous(),))]
    kernel = kernel_for(kh, bias is not None)
    knobs: dict[str, Any] = {"activation": activation, "precision": precision}
    return fitting.launch(kernel, operands, knobs).view(shape)


def padded(x: Tensor, above: int, left: int, channels: int) -> Tensor:
    """Return images ``(N, H, W, C)`` with zeros around them and after their channels."""
    count, height, width, own = x.shape
    shape = (count, height + 2 * above, width + 2 * left, channels)
    result = Tensor.empty(x.device, shape, "fp16")
    zero = Tensor.upload(x.device, np.zeros(channels, np.float16), "fp16")
    copy_into(zero.strided(shape, (0, 0, 0)), result)
    image, line, pixel = result.strides
    offset = (above * line + left * pixel) * WORD_BYTES
    copy_into(x, result.strided((count, height, width, own), (image, line, pixel), offset))
    return result


def pair(name: str, value: Pair, least: int) -> tuple[int, int]:
    """Return a number as two, or two as they are.

    Raises
    ------
    CallError
        If they are not one or two integers of at least `least`.
    """
    given = cast("Sequence[Any]", value if isinstance(value, Sequence) else (value, value))
    try:
        numbers = [index(number) for number in given]
    except TypeError:
        numbers = []
    if len(numbers) != 2 or min(numbers) < least:
        raise CallError(
            f"conv2d: {name} is {value!r}",
            loc=caller(),
            fix=f"use a whole number of at least {least}, or a pair of them",
        )
    return numbers[0], numbers[1]


def check_shapes(x: Tensor, w: Tensor, bias: Tensor | None) -> None:
    """Check that images, filters and bias go together.

    Raises
    ------
    CallError
        If they do not.
    """
    given = (x, w) if bias is None else (x, w, bias)
    common_device("conv2d", given)
    formats = [tensor.format for tensor in given]
    if set(formats) != {"fp16"}:
        raise CallError(
            f"conv2d takes tensors of FP16, not {' and '.join(formats)}",
            loc=caller(),
            fix='make them with ktpu.tensor(array, dtype="fp16")',
        )
    if x.ndim < 3 or w.ndim != 4 or not math.prod(w.shape[1:]):
        raise CallError(
            f"conv2d takes images (..., H, W, C) and filters (O, kh, kw, C), not {x.shape} and "
            f"{w.shape}",
            loc=caller(),
            fix="put channels last, as in x.transpose(0, 2, 3, 1) for (N, C, H, W)",
        )
    if x.shape[-1] != w.shape[-1]:
        raise CallError(
            f"conv2d: images of shape {x.shape} have {x.shape[-1]} channels, filters of shape "
            f"{w.shape} have {w.shape[-1]}",
            loc=caller(),
            fix="give both the same last axis",
        )
    if bias is not None and bias.shape != w.shape[:1]:
        raise CallError(
            f"conv2d: bias has shape {bias.shape}, and {w.shape[0]} outputs want {w.shape[:1]}",
            loc=caller(),
            fix="give it one element an output",
        )
