"""Programs on the simulated hardware: cycles, what the multipliers did, how fast it simulates."""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from bench.harness import Benchmark, Figures

PROGRAMS: dict[str, tuple[str, Sequence[tuple[int, int]]]] = {
    "matmul_256": ("matmul", ((256, 256), (256, 256))),
    "matmul_256x1024x256": ("matmul", ((256, 1024), (256, 1024))),
    "linear_silu_256": ("linear_silu", ((256, 256), (256, 256))),
    "softmax_1024": ("softmax", ((1024, 1024),)),
}
MACHINES = ("small", "duo")


def simulate(machine: str, kernel: str, shapes: Sequence[tuple[int, int]]) -> Figures:
    """Run a kernel of the library once; the simulator is built before, if it must be.

    Utilisation is multiply-accumulates over the peak of all clusters in these cycles; how busy an
    engine is, is the mean over the units that have it.
    """
    from kohakutpu import api as ktpu
    from kohakutpu import kernels

    rng = np.random.default_rng(0)
    with ktpu.device("rtl", machine=machine) as session:
        operands = [ktpu.tensor(rng.standard_normal(shape, np.float32)) for shape in shapes]
        started, worked = time.perf_counter(), time.process_time()
        getattr(kernels, kernel)(*operands)
        seconds, cpu = time.perf_counter() - started, time.process_time() - worked
        stats = ktpu.stats()
        units = len(session.machine.of_kind("C"))
        peak = units * session.machine.macs_per_cycle
        figures = {
            "cycles": float(stats.cycles),
            "utilisation": stats.macs / (stats.cycles * peak),
            "seconds_per_million_cycles": 1e6 * seconds / stats.cycles,
            "processor_seconds_per_million_cycles": 1e6 * cpu / stats.cycles,
        }
        for name, engine in stats.engines.items():
            figures[f"{name.lower()}_busy"] = engine.busy / (stats.cycles * units)
        session.close()
    return figures


BENCHMARKS = [
    Benchmark(
        f"rtl_{machine}_{name}",
        f"{kernel} {' '.join('x'.join(map(str, shape)) for shape in shapes)} on {machine} RTL",
        partial(simulate, machine, kernel, shapes),
        {"processor_seconds_per_million_cycles": 10},  # 100 k cycles/s
    )
    for machine in MACHINES
    for name, (kernel, shapes) in PROGRAMS.items()
]
