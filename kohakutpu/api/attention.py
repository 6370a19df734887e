"""``attention``: which kernel of `kohakutpu.kernels.attention`, and how heads share keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import fitting
from kohakutpu.api.array import common_device
from kohakutpu.api.creation import tensor
from kohakutpu.api.session import Session
from kohakutpu.api.tensor import Tensor
from kohakutpu.config import KBLOCK, LANES, Machine
from kohakutpu.kernels.attention import kernel_for

BLOCK_K = 64  # keys of a step: bits depend on it, so it is the same everywhere
BLOCKS_Q = (128, 64, 32, 16, 8, 4)  # queries of a block: as many as fit
WORD = 16  # elements of FP16
PRECISIONS = {  # of the scores, and of the products with the values
    "fast": ("default", "default"),
    "default": ("default", "left"),
    "high": ("high", "high"),
}


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    keys: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    precision: str = "default",
) -> Tensor:
    """Return ``softmax(q @ k.T * scale + bias) @ v`` for each head; no score goes to memory.

    Parameters
    ----------
    q : Tensor
        Shape ``(..., H, Lq, D)``, or ``(Lq, D)``.
    k, v : Tensor
        Shapes ``(..., G, Lk, D)`` and ``(..., G, Lk, E)``; G divides H, and H / G neighbouring
        heads share keys and values. Axes before that broadcast.
    causal : bool
        Whether the last query sees all keys, the one before it all but the last, and so on.
    keys : Tensor, optional
        Shape ``(..., H, Lk)``, axes before the last broadcast: a key is hidden where this is 0.
    bias : Tensor, optional
        Shape ``(..., H, Lq, Lk)``, broadcast but for the last two axes: added to the scaled scores;
        -Inf hides.
    scale : float, optional
        A positive number; ``D**-0.5`` if left out.
    precision : {"default", "high", "fast"}
        ``"high"`` adds the residuals of all operands; ``"default"`` that of the probabilities
        alone, ``"fast"`` none.

    Returns
    -------
    Tensor
        Shape ``(..., H, Lq, E)``, in memory ``(..., Lq, H, E)``, so that a projection of all heads
        takes it without a copy. A query that sees no key becomes 0. NaN in a key that is hidden
        has no effect, NaN in its value has: 0 times NaN is NaN, and rounding to blocks spreads it
        over 32 keys of that column. Where the values are wider than a cluster holds, columns are
        taken in pieces, each with scores of its own.

    Raises
    ------
    CallError
        If the shapes do not go together, or `scale` or `precision` is none.
    """
    given = [x for x in (q, k, v, keys, bias) if x is not None]
    device = common_device("attention", given)
    shape = result_shape(q, k, v)
    if precision not in PRECISIONS:
        raise CallError(
            f"attention: precision is {precision!r}",
            loc=caller(),
            fix=f"use one of {', '.join(map(repr, PRECISIONS))}",
        )
    if scale is not None and not 0 < scale < math.inf:
        raise CallError(
            f"attention: scale is {scale!r}", loc=caller(), fix="use a positive finite number"
        )
    (queries, width), (count, _) = q.shape[-2:], v.shape[-2:]
    for name, mask, tail in (("keys", keys, (count,)), ("bias", bias, (queries, count))):
        if mask is not None:
            check_mask(name, mask, shape[:-2], tail)
    if not math.prod(shape):
        return Tensor.empty(device, shape, "fp16")
    if not count:
        return Tensor.upload(device, np.zeros(shape, np.float16), "fp16")
    groups = k.shape[-3] if k.ndim > 2 else 1
    operands = [fitting.filled(grouped(x, groups, 2)) for x in (q, k, v)]
    for mask, own in ((keys, 1), (bias, 2)):
        if mask is not None:
            operands.append(grouped(mask.contiguous(), groups, own))
    scores, values = PRECISIONS[precision]
    knobs: dict[str, Any] = {
        "block_k": BLOCK_K,
        "scale": width**-0.5 if scale is None else float(scale),
        "scores": scores,
        "values": values,
    }
    result, split = side_by_side(device, shape, groups)
    for first, some in pieces(shape[-1], device.machine):
        used = [*operands]
        used[2] = columns(operands[2], first, some)
        tries = [
            (kernel_for(keys is not None, bias is not None, positions), given, knobs | chosen)
            for positions, given, chosen in masked(used, queries, count, causal, keys is not None)
        ]
        fitting.run(tries, columns(split, first, some))
    return result


def pieces(width: int, machine: Machine) -> list[tuple[int, int]]:
    """Return in which pieces, first column and how many, a unit takes the columns of the values.

    Each computes the scores again; bits do not depend on it. A block of values has to fit L1, and
    the products of a block of queries the accumulator, beside their scores.
    """
    entries = LANES * machine.l1_entries * KBLOCK // BLOCK_K
    tiles = LANES * (machine.acc_subtiles - BLOCKS_Q[-1] * BLOCK_K // LANES**2)
    most = max(min(entries, tiles) // WORD * WORD, WORD)
    each = -(-width // -(-width // most) // WORD) * WORD  # about equal, each from a whole word on
    return [(first, min(each, width - first)) for first in range(0, width, each)]


def columns(x: Tensor, first: int, some: int) -> Tensor:
    """Return columns of a tensor; `first` is the first element of a word."""
    return x.strided((*x.shape[:-1], some), x.strides, first * x.dtype.itemsize)


def side_by_side(device: Session, shape: tuple[int, ...], groups: int) -> tuple[Tensor, Tensor]:
    """Return a result of which a query's heads follow each other, and its heads in groups."""
    *lead, heads, queries, width = (1, *shape) if len(shape) == 2 else shape
    memory = Tensor.empty(device, (*lead, queries, heads, width), "fp16")
    *steps, line, head = memory.strides
    result = memory.strided((*lead, heads, queries, width), (*steps, head, line))
    split = grouped(result, groups, 2) if len(shape) > 2 else memory.view(shape)
    return result.strided(shape, result.strides[-(len(shape) - 1) :]), split


def masked(
    operands: list[Tensor], queries: int, count: int, causal: bool, hidden: bool
) -> Iterator[tuple[bool, list[Tensor], dict[str, Any]]]:
    """Yield ways to cut queries into blocks, best first, and to hide keys from them.

    Each is whether positions are operands, all operands, and knobs. `hidden` tells that some keys
    are hidden from all queries.
    """
    offset = count - queries
    if not causal or queries == 1:  # a single query sees all keys
        yield from ((False, operands, {"block_q": n}) for n in blocks(queries))
        return
    # Blocks of keys that no query of a block sees are left out, where blocks are aligned.
    triangle = {"block_q": BLOCK_K, "causal": True}
    if offset == 0 and not hidden:
        yield False, operands, triangle
    last = tensor(np.arange(queries) + offset, dtype="fp32")
    operands = [*operands, last, tensor(np.arange(count), dtype="fp32")]
    if offset >= 0 and offset % BLOCK_K == 0:
        yield True, operands, triangle | {"offset": offset}
    yield from ((True, operands, {"block_q": n}) for n in blocks(queries))


def blocks(queries: int) -> Iterator[int]:
    """Yield numbers of queries for a block, none of which leaves much of it empty."""
    return (block for block in BLOCKS_Q if block < queries + BLOCKS_Q[-1])


def grouped(x: Tensor, groups: int, own: int) -> Tensor:
    """Return a tensor whose heads are split into groups: its last `own` axes stay.

    Heads ``H`` become ``(groups, H / groups)``, `groups` of them ``(groups, 1)``, one ``(1, 1)``.
    """
    lead, tail = x.shape[: x.ndim - own], x.shape[x.ndim - own :]
    if not lead:
        return x
    heads = lead[-1]
    split = (1, 1) if heads == 1 else (groups, heads // groups)
    steps = x.strides[: len(lead) - 1]
    step = x.strides[len(lead) - 1]
    pair = (step * split[1], step)
    return x.strided((*lead[:-1], *split, *tail), (*steps, *pair, *x.strides[len(lead) :]))


def result_shape(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    """Return the shape of the result.

    Raises
    ------
    CallError
        If the operands do not go together.
    """
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.ndim == k.ndim == v.ndim:
        raise CallError(
            f"attention: {shapes}",
            loc=caller(),
            fix="give all of them as many axes: (..., heads, rows, width)",
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise CallError(
            f"attention: {shapes}",
            loc=caller(),
            fix="q and k end in one width, k and v have as many rows",
        )
    heads, groups = (x.shape[-3] if x.ndim > 2 else 1 for x in (q, k))
    own = v.shape[-3] if v.ndim > 2 else 1
    if own != groups or not groups or heads % groups:
        raise CallError(
            f"attention: {shapes}: {heads} heads of queries, {groups} of keys, {own} of values",
            loc=caller(),
            fix="k and v have equally many heads, and q a multiple of those",
        )
    try:
        batch = np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    except ValueError:
        raise CallError(
            f"attention: {shapes}: the axes before the heads do not broadcast",
            loc=caller(),
            fix="each must be equal, or 1",
        ) from None
    return (*batch, *q.shape[-3:-2], q.shape[-2], v.shape[-1])


def check_mask(name: str, mask: Tensor, lead: tuple[int, ...], tail: tuple[int, ...]) -> None:
    """Check that `mask` broadcasts to the heads, and not beyond them.

    Raises
    ------
    CallError
        If it does not.
    """
    own = mask.shape[: mask.ndim - len(tail)]
    fits = mask.shape[mask.ndim - len(tail) :] == tail and mask.ndim >= len(tail)
    pairs = zip(reversed(own), reversed(lead), strict=False)
    if not fits or len(own) > len(lead) or any(a not in (1, b) for a, b in pairs):
        stay = "axis" if len(tail) == 1 else "two axes"
        raise CallError(
            f"attention: {name} has shape {mask.shape}; it broadcasts to {(*lead, *tail)}, all but "
            f"the last {stay}",
            loc=caller(),
            fix="give axes that are to be broadcast the extent 1",
        )
