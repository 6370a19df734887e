"""Whole calls, compiled already, against numpy on the same arrays."""

import numpy as np
from numpy.typing import NDArray

from bench.harness import Benchmark, Figures, compare

Array = NDArray[np.float32]


def normal(*shape: int) -> Array:
    """Return standard normal numbers, the same ones every time, that FP16 holds exactly."""
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return values.astype(np.float16).astype(np.float32)


def matmul_1024() -> Figures:
    """Time a product from and to host memory with a weight that is on the machine already.

    The golden machine remembers what it rounded to MXINT8 while memory is unchanged, so an operand
    used again costs less: fair for the weight, not for what a layer is given.
    """
    from kohakutpu import api as ktpu

    a, b = normal(1024, 1024), normal(1024, 1024)[::-1].copy()
    w = ktpu.tensor(b)
    figures = compare(lambda: (ktpu.tensor(a) @ w).numpy(), lambda: a @ b.T)
    error = (ktpu.tensor(a) @ w).numpy() - a @ b.T
    figures["relative_rms_error"] = float(np.sqrt(np.mean(error**2) / np.mean((a @ b.T) ** 2)))
    return figures


def numpy_silu(a: Array) -> Array:
    """Return `a * sigmoid(a)` as one would write it in numpy."""
    return a / (np.float32(1) + np.exp(-a))


def silu_1024() -> Figures:
    """Time an elementwise function up to the result in host memory."""
    from kohakutpu import api as ktpu

    a = normal(1024, 1024)
    x = ktpu.tensor(a)
    return compare(lambda: x.silu().numpy(), lambda: numpy_silu(a))


def numpy_softmax(a: Array) -> Array:
    """Return the softmax of each row as one would write it in numpy."""
    powers = np.exp(a - a.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_1024() -> Figures:
    """Time a row function up to the result in host memory."""
    from kohakutpu import api as ktpu

    a = normal(1024, 1024)
    x = ktpu.tensor(a)
    return compare(lambda: x.softmax().numpy(), lambda: numpy_softmax(a))


BENCHMARKS = [
    Benchmark("matmul_1024", "matmul 1024x1024x1024 against sgemm", matmul_1024, {"ratio": 14}),
    Benchmark(
        "silu_1024", "silu of 1024x1024 against the float32 expression", silu_1024, {"ratio": 12}
    ),
    Benchmark(
        "softmax_1024",
        "softmax of 1024x1024 against the float32 expression",
        softmax_1024,
        {"ratio": 12},
    ),
]
