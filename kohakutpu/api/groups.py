"""Group normalisation of tensors with channels before or behind positions."""

from __future__ import annotations

import math
from operator import index

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api.array import common_device
from kohakutpu.api.rowwise import by_rows
from kohakutpu.api.tensor import Tensor


def group_norm(
    x: Tensor,
    groups: int,
    w: Tensor,
    b: Tensor,
    eps: float = 1e-5,
    *,
    channels_last: bool = False,
) -> Tensor:
    """Normalise each group of channels over all of its elements, then scale and move each channel.

    Parameters
    ----------
    x : Tensor
        Shape ``(N, C, ...)``: channels, then positions on any number of axes; or the channels last,
        ``(N, ..., C)``.
    groups : int
        Into how many groups of neighbours the C channels fall; it divides C.
    w, b : Tensor
        Shape ``(C,)``.
    eps : float
        Added to the variance.
    channels_last : bool
        Where the channels are. The device then turns rows into columns and back.

    Returns
    -------
    Tensor
        The shape of `x`.

    Raises
    ------
    CallError
        If the shapes do not go together, or a channel has too many elements for an instruction.
    """
    common_device("group_norm", (x, w, b))
    channels = x.shape[-1 if channels_last else 1] if x.ndim > 1 else 0
    if not channels or not w.shape == b.shape == (channels,):
        raise CallError(
            f"group_norm: x has shape {x.shape}, w {w.shape} and b {b.shape}",
            loc=caller(),
            fix="x is (N, C, ...), with channels_last=True (N, ..., C); w and b have one element "
            "a channel",
        )
    try:
        count = index(groups)
    except TypeError:
        count = 0
    if count < 1 or channels % count:
        raise CallError(
            f"group_norm: {channels} channels do not fall into {groups!r} groups",
            loc=caller(),
            fix=f"use a divisor of {channels}",
        )
    if not x.size:
        return Tensor.empty(x.device, x.shape, "fp16")
    if channels_last and x.ndim > 2:
        last = x.ndim - 1
        turned = x.transpose((0, last, *range(1, last)))
        return group_norm(turned, groups, w, b, eps).transpose((0, *range(2, x.ndim), 1))
    size = channels // count
    rows = x.reshape(x.shape[0], count, size, math.prod(x.shape[2:]))
    scale, move = (t.reshape(count, size) for t in (w, b))
    return by_rows("group_norm", rows, scale, move, eps=eps).reshape(x.shape)
