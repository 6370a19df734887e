"""What a benchmark is, how two things are timed against each other, and on what machine."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import threadpoolctl  # pyright: ignore[reportMissingTypeStubs]

Figures = dict[str, float]


@dataclass(frozen=True)
class Benchmark:
    """A named measurement and the limits its figures are meant to keep.

    Parameters
    ----------
    name
        What the command line and the JSON call it.
    title
        One line for people: what is measured, against what.
    measure
        Takes the measurement; a figure whose name ends in `seconds` or `mib` has that unit.
    bounds
        Figure name -> the largest value that meets the target. Shown, never asserted: a shared
        machine decides too much of a time.
    """

    name: str
    title: str
    measure: Callable[[], Figures]
    bounds: Mapping[str, float]


def compare(
    ours: Callable[[], object],
    reference: Callable[[], object],
    repeats: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> Figures:
    """Time two functions in turns and compare the best of each.

    Both run once untimed (compiling, touching memory); then they alternate, so that whatever else
    the machine does meets both alike.

    Parameters
    ----------
    ours, reference
        What is measured, and what it is measured against.
    repeats
        Timed calls of each.
    clock
        Seconds since any fixed moment.

    Returns
    -------
    dict
        `seconds`, `reference_seconds` (minimum over the repeats) and `ratio`, their quotient.
    """
    ours()
    reference()
    seconds = {ours: float("inf"), reference: float("inf")}
    for _ in range(repeats):
        for function in (ours, reference):
            start = clock()
            function()
            seconds[function] = min(seconds[function], clock() - start)
    return {
        "seconds": seconds[ours],
        "reference_seconds": seconds[reference],
        "ratio": seconds[ours] / seconds[reference],
    }


def peak_rss_mib() -> float:
    """Return the largest resident size this process ever had, in MiB.

    Read from the kernel's high-water mark of this address space (Linux). `getrusage` would not do:
    its figure survives `exec`, so a child begins with its parent's.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM line: the peak memory needs Linux")


def machine_shape() -> dict[str, object]:
    """Describe what the figures depend on: processor, numpy, BLAS and what steers it."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    pools = cast("list[dict[str, Any]]", threadpoolctl.threadpool_info())  # pyright: ignore[reportUnknownMemberType]
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": [
            f"{pool['internal_api']} {pool['version']}, {pool.get('architecture', 'unknown')} "
            f"kernels, {pool['num_threads']} threads"
            for pool in pools
            if pool["user_api"] == "blas"
        ],
        # Set on some machines to avoid wrong kernels of old libraries; it slows a current one.
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "not set"),
    }
