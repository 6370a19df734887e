"""The vector core's arithmetic in numpy, one rounding an operation: what results equal to the bit.

Values are float32 arrays and round as numpy rounds them; only the four seed functions come from
`kohakutpu.numerics`, where they are held against their scalar reference.
"""

from typing import Any

import numpy as np

from kohakutpu.numerics import reduction, seeds

Array = np.ndarray[Any, Any]
LOG2_E = 1.4426950408889634
GELU_LINEAR = -2.0 * (2.0 / np.pi) ** 0.5 * LOG2_E
GELU_CUBIC = 0.044715 * GELU_LINEAR


def number(value: float) -> np.float32:
    return np.float32(value)


def wide(x: Array) -> Array:
    return x.astype(np.float32)


def half(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def rows(function: Any, x: Array) -> Array:
    """Apply a row reduction to the last axis, which stays with one element."""
    flat = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    return function(flat).reshape(*x.shape[:-1], 1)


def row_sum(x: Array) -> Array:
    return rows(reduction.row_sum, x)


def row_max(x: Array) -> Array:
    return rows(reduction.row_max, x)


def exp2(x: Array) -> Array:
    return seeds.exp2(np.ascontiguousarray(x, np.float32))


def recip(x: Array) -> Array:
    return seeds.recip(np.ascontiguousarray(x, np.float32))


def rsqrt(x: Array) -> Array:
    return seeds.rsqrt(np.ascontiguousarray(x, np.float32))


def sigmoid(x: Array) -> Array:
    return recip(exp2(x * number(-LOG2_E)) + number(1))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    inner = x * x * number(GELU_CUBIC) + number(GELU_LINEAR)
    return x * recip(exp2(x * inner) + number(1))


def relu(x: Array) -> Array:
    return np.maximum(x, number(0))


def tanh(x: Array) -> Array:
    return recip(exp2(x * number(2 * LOG2_E)) + number(1)) * number(-2) + number(1)


ACTIVATIONS: dict[str, Any] = {
    "none": lambda x: x,
    "silu": silu,
    "gelu": gelu,
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}


def attention(
    q: Array,
    k: Array,
    v: Array,
    matmul: Any,
    block: int,
    scale: float,
    visible: Array | None = None,
    bias: Array | None = None,
    table: Array | None = None,
) -> Array:
    """Flash attention of one head, block of keys after block of keys.

    `matmul` is ``a @ b.T`` as FP16; `visible`, booleans ``[queries, keys]``, says who sees what;
    `bias` is FP16, `table` is rounded to FP32.
    """
    top = np.full((len(q), 1), number(-1e30))
    total = np.zeros((len(q), 1), np.float32)
    out = np.zeros((len(q), v.shape[1]), np.float32)
    for first in range(0, len(k), block):
        those = slice(first, first + block)
        scores = wide(matmul(q, k[those])) * number(scale)
        if bias is not None:
            scores = scores + wide(bias[:, those]) * number(LOG2_E)
        if table is not None:
            scores = scores + (table[:, those] * LOG2_E).astype(np.float32)
        if visible is not None:
            scores = np.where(visible[:, those], scores, number(-np.inf))
        new = np.maximum(top, row_max(scores))
        power, shrink = exp2(scores - new), exp2(top - new)
        total = total * shrink + row_sum(power)
        out = out * shrink + wide(matmul(half(power), np.ascontiguousarray(v[those].T)))
        top = new
    return half(out * recip(np.maximum(total, number(1))))
