"""What a value graph means, over whole buffers at once: nothing here knows a block or a window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakuaccel.ir.nodes import Buffer, Value
from kohakuaccel.ir.scalar import evaluate
from kohakutpu.numerics import fp16, fp32, reduction, seeds

Values = NDArray[np.float32]

MINUS_ONE = np.float32(-1)
FUNCTIONS: dict[str, Any] = {
    "add": fp32.add,
    "sub": lambda a, b: fp32.add(a, fp32.mul(b, MINUS_ONE)),
    "mul": fp32.mul,
    "neg": fp32.neg,
    "abs": fp32.absolute,
    "exp2": seeds.exp2,
    "log2": seeds.log2,
    "recip": seeds.recip,
    "rsqrt": seeds.rsqrt,
    "max": fp32.maximum,
    "min": fp32.minimum,
    "lt": fp32.lt,
    "le": fp32.le,
    "eq": fp32.eq,
    "select": lambda a, b, condition: fp32.select(condition, a, b),
}
REDUCTIONS: dict[str, Any] = {
    "row_sum": reduction.row_sum,
    "row_max": reduction.row_max,
    "row_min": reduction.row_min,
}


def widened(array: NDArray[Any]) -> Values:
    """Return FP32 values of an array as memory holds it."""
    if array.dtype == np.float16:
        return fp16.to_fp32(array.view(np.uint16))
    return fp32.flush(array)


def stored(values: Values, like: NDArray[Any]) -> NDArray[Any]:
    """Return values as a buffer of the dtype of ``like`` holds them."""
    values = np.broadcast_to(values, like.shape)
    if like.dtype == np.float16:
        return fp16.from_fp32(np.ascontiguousarray(values)).view(np.float16)
    return fp32.canonical(np.ascontiguousarray(values))


def value_of(
    root: Value,
    arrays: dict[Buffer, NDArray[Any]],
    tiles: dict[Any, NDArray[Any]],
    shape: tuple[int, int],
) -> Values:
    """Return the value of ``root`` over ``shape`` rows and columns (or what broadcasts to it)."""
    known: dict[int, Values] = {}
    pending = [root]
    while pending:
        node = pending[-1]
        missing = [arg for arg in node.args if id(arg) not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        if id(node) not in known:
            with np.errstate(all="ignore"):
                known[id(node)] = _one(
                    node, [known[id(a)] for a in node.args], arrays, tiles, shape
                )
    return known[id(root)]


def _one(
    node: Value,
    args: list[Values],
    arrays: dict[Buffer, NDArray[Any]],
    tiles: dict[Any, NDArray[Any]],
    shape: tuple[int, int],
) -> Values:
    if node.op == "const":
        return np.full((1, 1), np.float32(evaluate(node.number, {})))
    if node.op == "tile":
        return widened(tiles[node.tile])
    if node.op == "load":
        assert node.view is not None
        array = widened(arrays[node.view.buffer])
        return {
            "channel": lambda: array.reshape(1, -1),
            "channel_tile": lambda: array.reshape(1, -1),
            "column": lambda: array.reshape(-1, 1),
            "scalar": lambda: array.reshape(1, 1),
        }.get(node.view.kind, lambda: array.reshape(shape))()
    if node.op in REDUCTIONS:
        full = np.ascontiguousarray(np.broadcast_to(args[0], shape))
        return REDUCTIONS[node.op](full).reshape(-1, 1)
    return np.asarray(FUNCTIONS[node.op](*args), np.float32)
