"""Host memory of a whole program."""

import numpy as np

from bench.harness import Benchmark, Figures, peak_rss_mib

SIZE = 2048


def memory_matmul_2048() -> Figures:
    """Compare the process's peak with four times the FP32 operands and result, plus 100 MB."""
    from kohakutpu import api as ktpu

    rng = np.random.default_rng(0)
    a = rng.standard_normal((SIZE, SIZE), dtype=np.float32)
    b = rng.standard_normal((SIZE, SIZE), dtype=np.float32)
    y = (ktpu.tensor(a) @ ktpu.tensor(b)).numpy()
    allowed = (4 * (a.nbytes + b.nbytes + y.size * 4) + 100e6) / 2**20
    return {"allowed_mib": allowed, "of_allowed": peak_rss_mib() / allowed}


BENCHMARKS = [
    Benchmark(
        "memory_matmul_2048",
        "peak host memory of matmul 2048x2048x2048",
        memory_matmul_2048,
        {"of_allowed": 1},
    ),
]
