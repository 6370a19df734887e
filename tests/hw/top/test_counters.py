"""What the hardware counts, against what is known of the program."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kohakuaccel.image import Image, UnitProgram
from kohakuaccel.runtime.device import Report
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import isa
from kohakutpu.config import KBLOCK, LANES, preset
from kohakutpu.devices.rtl import RtlDevice
from kohakutpu.isa import Address, Post, Wait
from tests.devices.jobs import Shapes, job, runtime

pytestmark = pytest.mark.cocotb

TINY = preset("tiny")
C, V = TINY.of_kind("C")[0].id, TINY.of_kind("V")[0].id
EDGES = 800
"""Cycles, at most, before an engine's first instruction and after its last: both ends of a run."""


@pytest.fixture(scope="module")
def device() -> Iterator[Runtime]:
    made = RtlDevice(TINY)
    yield runtime(made)
    made.close()


def up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def idle(report: Report, node: int, engine: str) -> int:
    (unit,) = (unit for unit in report.units if unit.node == node)
    counted = unit.engines[engine]
    left = report.cycles - counted.busy - counted.stalled
    assert left >= 0
    return left


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 32, 4), (37, 70, 21), (64, 64, 64), (3, 700, 9)])
def test_multiply_accumulates_of_the_padded_problem(
    device: Runtime, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    report = job(TINY, "matmul", ((m, k), (n, k))).run(device)[1]
    assert report.macs == up(m, LANES) * up(k, KBLOCK) * up(n, LANES)
    assert report.cycles >= report.macs / TINY.macs_per_cycle


@pytest.mark.parametrize(
    ("name", "shapes", "node", "engine"),
    [
        ("matmul", ((128, 256), (64, 256)), C, "GEMM"),
        ("matmul", ((128, 256), (64, 256)), C, "FILL"),
        ("softmax", ((128, 128),), V, "EXEC"),
        ("add", ((128, 128), (128, 128)), V, "VDRAIN"),
    ],
)
def test_busy_and_stalled_account_for_the_run(
    device: Runtime, name: str, shapes: Shapes, node: int, engine: str
) -> None:
    report = job(TINY, name, shapes).run(device)[1]
    assert idle(report, node, engine) <= EDGES < report.cycles / 2


def launch(device: Runtime, programs: dict[int, Sequence[Any]]) -> Report:
    units = tuple(
        UnitProgram(node, "C" if node == C else "V", b"".join(map(isa.encode, program)))
        for node, program in programs.items()
    )
    return device.launch(Image(TINY.hash, units), ())


def test_who_waits_is_stalled_and_nobody_else(device: Runtime) -> None:
    times = 1000  # of a loop whose body takes some 14 cycles
    report = launch(
        device,
        {
            C: [isa.SYNC(1, waits=(Wait(3),)), isa.HALT()],
            V: [
                isa.LOOP(Address(0, times)),
                isa.ADDA(1, 1, 1, 0),
                isa.END(),
                isa.SYNC(0, posts=(Post(C, 3),)),
                isa.HALT(),
            ],
        },
    )
    cluster, core = report.units
    waited = cluster.engines["GEMM"]
    assert report.cycles - EDGES <= waited.stalled <= report.cycles
    assert waited.busy <= 10
    others = [cluster.engines["FILL"], cluster.engines["DRAIN"], *core.engines.values()]
    assert all(engine.stalled == 0 and engine.busy <= 10 for engine in others)
    assert report.cycles >= 10 * times
    assert core.instructions == 1 + 2 * times + 2
