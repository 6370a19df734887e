"""Whole calls, compiled already, against numpy on the same arrays."""

from typing import Any

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


def numpy_softmax(a: NDArray[Any]) -> NDArray[Any]:
    """Return the softmax of each row as one would write it in numpy."""
    powers = np.exp(a - a.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_1024() -> Figures:
    """Time a row function up to the result in host memory."""
    from kohakutpu import api as ktpu

    a = normal(1024, 1024)
    x = ktpu.tensor(a)
    return compare(lambda: x.softmax().numpy(), lambda: numpy_softmax(a))


def numpy_attention(q: NDArray[Any], k: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return the attention of each head as one would write it in numpy."""
    scores = q @ k.transpose(0, 2, 1) * q.dtype.type(q.shape[-1] ** -0.5)
    return numpy_softmax(scores) @ v


def attention_8x512x64() -> Figures:
    """Time attention from operands on the machine up to the result in host memory."""
    from kohakutpu import api as ktpu

    arrays = list(normal(3, 8, 512, 64))
    tensors = [ktpu.tensor(array) for array in arrays]
    figures = compare(lambda: ktpu.attention(*tensors).numpy(), lambda: numpy_attention(*arrays))
    exact = numpy_attention(*(array.astype(np.float64) for array in arrays))
    for precision in ("default", "high"):
        error = ktpu.attention(*tensors, precision=precision).numpy() - exact
        rms = np.sqrt(np.mean(error**2) / np.mean(exact**2))
        figures[f"relative_rms_error_{precision}"] = float(rms)
    return figures


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
    Benchmark(
        "attention_8x512x64",
        "attention of 8 heads of 512 x 64 against numpy in float32",
        attention_8x512x64,
        {"ratio": 25, "relative_rms_error_default": 1.5e-2, "relative_rms_error_high": 2e-3},
    ),
]
