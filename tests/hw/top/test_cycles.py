"""What programs cost on the hardware, and how near the estimates are.

A change of compiler or hardware that costs or saves cycles changes a number here, on purpose.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pytest

from compiler.pipeline import ArgSpec, compile_kernel
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import kernels
from kohakutpu.config import Machine, preset
from kohakutpu.devices.golden import GoldenDevice
from kohakutpu.devices.rtl import RtlDevice
from kohakutpu.lang import Kernel
from tests.devices.jobs import Job, Shapes, runtime

pytestmark = pytest.mark.cocotb

NEAR = 0.1
"""How far plan and golden machine may be off, of the cycles of the hardware."""


class Case(NamedTuple):
    """A program on a machine, its cycles, and the part of a peak that it must reach at least."""

    machine: str
    kernel: Kernel
    shapes: Shapes
    knobs: dict[str, object]
    cycles: int
    least: float


def attention() -> Kernel:
    return import_module("kohakutpu.kernels.attention").kernel_for()


BLOCKS = {"scale": "auto", "block_q": 128, "block_k": 64}
TINY_BLOCKS = {"scale": "auto", "block_q": 32, "block_k": 32}
CASES: dict[str, Callable[[], Case]] = {
    "matmul": lambda: Case("small", kernels.matmul, ((256, 256),) * 2, {}, 34816, 0.9),
    "deep matmul": lambda: Case("small", kernels.matmul, ((256, 1024),) * 2, {}, 134656, 0.94),
    "linear_silu": lambda: Case(
        "small", kernels.linear_silu, ((256, 256),) * 2, {}, 36143, 0.9 / 1.08
    ),
    "attention": lambda: Case("small", attention(), ((512, 64),) * 3, BLOCKS, 99607, 0.5),
    "softmax": lambda: Case("small", kernels.softmax, ((1024, 1024),), {}, 216627, 0.6),
    "matmul on tiny": lambda: Case("tiny", kernels.matmul, ((64, 96), (48, 96)), {}, 4891, 0.45),
    "attention on tiny": lambda: Case(
        "tiny", attention(), ((64, 32), *((96, 32),) * 2), TINY_BLOCKS, 12133, 0.25
    ),
    "matmul on duo": lambda: Case("duo", kernels.matmul, ((256, 256),) * 2, {}, 19824, 0.8),
    "deep matmul on duo": lambda: Case("duo", kernels.matmul, ((256, 1024),) * 2, {}, 69872, 0.9),
    "large matmul on duo": lambda: Case("duo", kernels.matmul, ((512, 512),) * 2, {}, 135632, 0.85),
    "linear_silu on duo": lambda: Case(
        "duo", kernels.linear_silu, ((256, 256),) * 2, {}, 20495, 0.7
    ),
}


@pytest.fixture(scope="module")
def rtl() -> Iterator[Callable[[Machine], Runtime]]:
    devices: dict[str, RtlDevice] = {}

    def made(machine: Machine) -> Runtime:
        if machine.name not in devices:
            devices[machine.name] = RtlDevice(machine)
        return runtime(devices[machine.name])

    yield made
    for device in devices.values():
        device.close()


@pytest.mark.parametrize("name", CASES)
def test_cycles(rtl: Callable[[Machine], Runtime], name: str) -> None:
    case = CASES[name]()
    machine = preset(case.machine)
    compiled = compile_kernel(case.kernel, [ArgSpec(s) for s in case.shapes], case.knobs, machine)
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(shape).astype(np.float16) for shape in case.shapes]
    job = Job(compiled.image, tuple(operand.tobytes() for operand in operands))
    want, estimated = job.run(runtime(GoldenDevice(machine)))
    found, report = job.run(rtl(machine))
    assert found == want
    assert report.cycles == case.cycles
    assert report.cycles * (1 - NEAR) <= compiled.plan.cycles <= report.cycles * (1 + NEAR)
    assert report.cycles * (1 - NEAR) <= estimated.cycles <= report.cycles * (1 + NEAR)
    # What several clusters receive is counted by the one that asked, in both.
    counted = [(r.memory_read, r.memory_written, r.noc) for r in (report, estimated)]
    assert counted[0] == counted[1]
    # Of multiply-accumulates; where there are none, of words over a port that moves one a cycle.
    clusters = len(machine.of_kind("C"))
    peak = report.macs / (clusters * machine.macs_per_cycle)
    peak = peak or report.memory_read + report.memory_written
    assert peak / report.cycles >= case.least
