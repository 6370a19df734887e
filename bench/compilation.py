"""The compiler's own cost: processor time of a first call, length of a program."""

import time

import numpy as np

from bench.harness import Benchmark, Figures

# Operand shapes of every kernel of the library, at the size the target names.
WEIGHT = SQUARE = (1024, 1024)
CHANNEL = (1024,)
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "matmul": (SQUARE, WEIGHT),
    "batched_matmul": ((4, 1024, 1024), WEIGHT),
    "linear_silu": (SQUARE, WEIGHT),
    "linear_gelu": (SQUARE, WEIGHT),
    "linear_relu": (SQUARE, WEIGHT),
    "linear": (SQUARE, WEIGHT),
    "linear_bias": (SQUARE, WEIGHT, CHANNEL),
    "linear_residual": (SQUARE, WEIGHT, SQUARE),
    "linear_bias_residual": (SQUARE, WEIGHT, CHANNEL, SQUARE),
    "swiglu": (SQUARE, WEIGHT, WEIGHT),
    "geglu": (SQUARE, WEIGHT, WEIGHT),
    "softmax": (SQUARE,),
    "rmsnorm": (SQUARE, CHANNEL),
    "layernorm": (SQUARE, CHANNEL, CHANNEL),
    "mlp": (SQUARE, WEIGHT, WEIGHT),
    "gated_mlp": (SQUARE, WEIGHT, WEIGHT, WEIGHT),
    "attention": ((1024, 64), (1024, 64), (1024, 64)),
    "group_norm": ((32, 32, 1024), (32, 32), (32, 32)),
    "rope": (SQUARE, SQUARE, SQUARE, SQUARE),
    "where": (SQUARE, SQUARE, SQUARE),
    **{name: (SQUARE, SQUARE) for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    **{name: (SQUARE,) for name in ("silu", "gelu", "relu", "neg", "abs", "exp2", "log2")},
    **{name: (SQUARE,) for name in ("recip", "rsqrt")},
    **{name: (SQUARE,) for name in ("row_sum", "row_max", "row_min", "row_mean")},
}
FIRST_CALL_SECONDS = 0.15


def compile_library() -> Figures:
    """Compile without running; this process has compiled none of them before."""
    from kohakutpu import api as ktpu
    from kohakutpu import kernels

    figures: Figures = {}
    for name, shapes in SHAPES.items():
        operands = [ktpu.tensor(np.ones(shape, np.float32)) for shape in shapes]
        kernel = getattr(kernels, name)
        start = time.process_time()
        kernel.plan(*operands)
        figures[f"{name}_seconds"] = time.process_time() - start
    return figures


def program_length() -> Figures:
    """Count the longest program's instructions; loops should make them nearly the same."""
    from kohakutpu import api as ktpu
    from kohakutpu import kernels

    words: dict[int, int] = {}
    for size in (256, 2048):
        operand = ktpu.tensor(np.ones((size, size), np.float32))
        words[size] = max(kernels.matmul.plan(operand, operand).programs.values())
    return {
        "instructions_256": words[256],
        "instructions_2048": words[2048],
        "ratio": words[2048] / words[256],
    }


BENCHMARKS = [
    Benchmark(
        "compile",
        "processor time to compile each library kernel for the first time, 1024-sized shapes",
        compile_library,
        {f"{name}_seconds": FIRST_CALL_SECONDS for name in SHAPES},
    ),
    Benchmark(
        "program_length",
        "instructions of a unit for matmul 2048^3 over those for matmul 256^3",
        program_length,
        {"ratio": 2},
    ),
]
