"""Programs on the simulated hardware: cycles, where they go, how fast it simulates."""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from bench.harness import Benchmark, Figures

PROGRAMS: dict[str, tuple[str, Sequence[tuple[int, int]]]] = {
    "matmul_256": ("matmul", ((256, 256), (256, 256))),
    "matmul_256x1024x256": ("matmul", ((256, 1024), (256, 1024))),
    "matmul_512": ("matmul", ((512, 512), (512, 512))),
    "linear_silu_256": ("linear_silu", ((256, 256), (256, 256))),
    "softmax_1024": ("softmax", ((1024, 1024),)),
}
MACHINES = ("small", "duo")
ENGINES = ("FILL", "GEMM", "DRAIN", "VFILL", "EXEC", "VDRAIN")


def title(machine: str, kernel: str, shapes: Sequence[tuple[int, int]]) -> str:
    """Return what a benchmark runs, for people."""
    return f"{kernel} {' '.join('x'.join(map(str, shape)) for shape in shapes)} on {machine} RTL"


def simulate(machine: str, kernel: str, shapes: Sequence[tuple[int, int]]) -> Figures:
    """Run a kernel of the library; simulator and program are made before, if they must be.

    Utilisation is multiply-accumulates over the peak of all clusters in these cycles; how busy or
    stalled an engine is, is the mean over the units that have it.
    """
    from kohakutpu import api as ktpu
    from kohakutpu import kernels

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]

    def run() -> None:
        getattr(kernels, kernel)(*(ktpu.tensor(array) for array in arrays))

    with ktpu.device("golden", machine=machine):
        run()  # compiles
    with ktpu.device("rtl", machine=machine) as session:
        started, worked = time.perf_counter(), time.process_time()
        run()
        seconds, cpu = time.perf_counter() - started, time.process_time() - worked
        stats = ktpu.stats()
        units = len(session.machine.of_kind("C"))
        peak = units * session.machine.macs_per_cycle
        session.close()
    figures = {
        "cycles": float(stats.cycles),
        "utilisation": stats.macs / (stats.cycles * peak),
        "words_read": float(stats.memory_read),
        "words_written": float(stats.memory_written),
        "seconds_per_million_cycles": 1e6 * seconds / stats.cycles,
        "processor_seconds_per_million_cycles": 1e6 * cpu / stats.cycles,
    }
    for name in ENGINES:
        engine = stats.engines.get(name)
        if engine is not None:
            figures[f"{name.lower()}_busy"] = engine.busy / (stats.cycles * units)
            figures[f"{name.lower()}_stalled"] = engine.stalled / (stats.cycles * units)
    return figures


BENCHMARKS = [
    Benchmark(
        f"rtl_{machine}_{name}",
        title(machine, kernel, shapes),
        partial(simulate, machine, kernel, shapes),
        {"processor_seconds_per_million_cycles": 10},  # 100 k cycles/s
    )
    for machine in MACHINES
    for name, (kernel, shapes) in PROGRAMS.items()
]
