"""The compiler's own cost: processor time of a first call, length of a program."""

import time

import numpy as np

from bench.harness import Benchmark, Figures

# Operand shapes of every kernel of the library, at the size the target names.
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "matmul": ((1024, 1024), (1024, 1024)),
    "batched_matmul": ((4, 1024, 1024), (1024, 1024)),
    "linear_silu": ((1024, 1024), (1024, 1024)),
    "linear_gelu": ((1024, 1024), (1024, 1024)),
    "linear_relu": ((1024, 1024), (1024, 1024)),
    "linear_bias": ((1024, 1024), (1024, 1024), (1024,)),
    "add": ((1024, 1024), (1024, 1024)),
    "sub": ((1024, 1024), (1024, 1024)),
    "mul": ((1024, 1024), (1024, 1024)),
    "div": ((1024, 1024), (1024, 1024)),
    "silu": ((1024, 1024),),
    "gelu": ((1024, 1024),),
    "relu": ((1024, 1024),),
    "softmax": ((1024, 1024),),
    "rmsnorm": ((1024, 1024), (1024,)),
    "layernorm": ((1024, 1024), (1024,), (1024,)),
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
    """Count instruction words; loops and address registers should make them nearly the same."""
    from kohakutpu import api as ktpu
    from kohakutpu import kernels

    words: dict[int, int] = {}
    for size in (256, 2048):
        operand = ktpu.tensor(np.ones((size, size), np.float32))
        words[size] = kernels.matmul.plan(operand, operand).instructions
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
        "instructions of matmul 2048^3 over those of matmul 256^3",
        program_length,
        {"ratio": 2},
    ),
]
