"""The simulated hardware as a device: what the golden machine says, to the byte."""

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from hw.sim import toolchain
from hw.sim.machine import allocate
from kohakuaccel.errors import CallError
from kohakuaccel.image import Image, UnitProgram
from kohakuaccel.runtime.device import DeviceFault
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import api as ktpu
from kohakutpu import devices, isa
from kohakutpu.config import WORD_BYTES, preset
from kohakutpu.devices import rtl
from kohakutpu.devices.expected import instructions
from tests.devices.jobs import Shapes, golden, job, runtime

TINY = preset("tiny")
CLUSTER, CORE = TINY.of_kind("C")[0].id, TINY.of_kind("V")[0].id

# What the whole library computes is compared in tests/hw/top; these go through the device.
CASES: list[tuple[str, Shapes]] = [
    ("add", ((9, 33), (9, 33))),
    ("matmul", ((37, 70), (21, 70))),
    ("softmax", ((2, 3, 16),)),
    ("linear_silu", ((13, 65), (10, 65))),
]

VFILL = "stride=0 l1_stride=1 rows=1 row_extent=1 cols=16 col_extent=16 format=fp16"
FOREVER = "loop 16777215\nloop 16777215\nend\nend\nhalt\n"


@pytest.fixture(scope="module")
def made() -> Iterator[rtl.RtlDevice]:
    device = rtl.RtlDevice(TINY, watchdog=5000)
    yield device
    device.close()


@pytest.fixture(scope="module")
def device(made: rtl.RtlDevice) -> Runtime:
    return runtime(made)


@pytest.fixture(scope="module")
def reference() -> Runtime:
    return golden(TINY)


def program(node: int, kind: str, text: str) -> Image:
    words = b"".join(isa.encode(instruction) for instruction in isa.assemble(text, kind))
    return Image(TINY.hash, (UnitProgram(node, kind, words),))


@pytest.mark.cocotb
@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_library(device: Runtime, reference: Runtime, name: str, shapes: Shapes) -> None:
    work = job(TINY, name, shapes)
    wanted, told = work.run(reference)
    found, report = work.run(device)
    assert found == wanted
    assert [unit.instructions for unit in report.units] == [u.instructions for u in told.units]
    assert report.macs == told.macs
    assert report.macs <= report.cycles * sum(TINY.macs_per_cycle for _ in TINY.of_kind("C"))
    for unit in report.units:
        for engine in unit.engines.values():
            assert engine.busy + engine.stalled <= report.cycles
    assert report.memory_written == told.memory_written


@pytest.mark.cocotb
def test_progress_is_known_during_a_run(
    made: rtl.RtlDevice, device: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    class Progress:
        def __init__(self, expected: Callable[[], int]) -> None:
            self.expected = expected()

        def update(self, cycles: int, done: int) -> None:
            seen.append((done, self.expected))

        def close(self) -> None:
            pass

    monkeypatch.setattr(rtl, "RunProgress", Progress)
    report = job(TINY, "softmax", ((64, 256),)).run(device)[1]
    assert seen[-1] == (report.instructions, report.instructions)
    assert all(done <= expected for done, expected in seen)


@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_instructions_are_known_before_a_run(reference: Runtime, name: str, shapes: Shapes) -> None:
    work = job(TINY, name, shapes)
    taken = work.run(reference)[1].instructions
    assert sum(instructions(unit.words, unit.kind) for unit in work.image.units) == taken


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("halt\n", 1),
        ("loop 3\nloop 5\nend\nadda a1 a1 1\nend\nhalt\n", 1 + 3 * (1 + 5 + 1 + 1) + 1),
        ("seta a1 2\nloop a1+3\nend\nhalt\n", 0),  # depends on a register
        ("end\n", 0),
    ],
)
def test_instructions_by_hand(text: str, count: int) -> None:
    (unit,) = program(CORE, "V", text).units
    assert instructions(unit.words, unit.kind) == count


@pytest.mark.cocotb
@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_ten_runs_are_one(device: Runtime, name: str, shapes: Shapes) -> None:
    work = job(TINY, name, shapes)
    first = work.run(device)
    assert first[1].cycles > 0
    for _ in range(9):
        assert work.run(device) == first


@pytest.mark.cocotb
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_memory_that_stalls_changes_no_bit(reference: Runtime, seed: int) -> None:
    made = rtl.RtlDevice(TINY, stalls=seed, latency=4 * seed)
    cycles = []
    for name, shapes in CASES:
        work = job(TINY, name, shapes)
        found, report = work.run(runtime(made))
        assert found == work.run(reference)[0]
        cycles.append(report.cycles)
    made.close()
    assert len(set(cycles)) > 1


@pytest.mark.cocotb
@pytest.mark.parametrize(
    ("node", "kind", "text", "cause"),
    [
        (CLUSTER, "C", "seta a1 1\nend\nhalt\n", "LOOP_DEPTH"),
        (CORE, "V", f"vfill l1=2048 mem=0 {VFILL}\nhalt\n", "L1_RANGE"),
        (CORE, "V", "seta a1 1\nsync 2 ; wait s1>=1\nhalt\n", "WATCHDOG"),
    ],
)
def test_faults(
    device: Runtime, reference: Runtime, node: int, kind: str, text: str, cause: str
) -> None:
    wrong = program(node, kind, text)
    faults = []
    for machine in (reference, device):
        with pytest.raises(DeviceFault) as caught:
            machine.launch(wrong, ())
        faults.append((caught.value.unit, caught.value.pc, caught.value.cause))
    assert faults[0] == faults[1]
    assert faults[0][2] == cause
    assert f"{cause} in " in str(devices.explain(wrong, caught.value))
    work = job(TINY, *CASES[1])
    assert work.run(device)[0] == work.run(reference)[0]


@pytest.mark.cocotb
def test_memory_that_fails() -> None:
    made = rtl.RtlDevice(TINY, errors=(100, 101))
    runtime(made).launch(program(CORE, "V", f"vfill l1=0 mem=396 {VFILL}\nhalt\n"), ())
    with pytest.raises(DeviceFault, match="MEMORY at unit 1, instruction 0: an error response"):
        runtime(made).launch(program(CORE, "V", f"vfill l1=0 mem=400 {VFILL}\nhalt\n"), ())
    made.close()


@pytest.mark.cocotb
@pytest.mark.slow
def test_no_assertion_fails(reference: Runtime) -> None:
    for seed in (0, 1):
        made = rtl.RtlDevice(TINY, checked=True, stalls=seed)
        for name, shapes in CASES:
            work = job(TINY, name, shapes)
            assert work.run(runtime(made))[0] == work.run(reference)[0]
        made.close()


@pytest.mark.cocotb
def test_a_run_without_end_is_stopped_and_the_device_goes_on(reference: Runtime) -> None:
    made = rtl.RtlDevice(TINY, limit=20_000)
    with pytest.raises(DeviceFault, match="stopped after 20,000 cycles") as caught:
        runtime(made).launch(program(CLUSTER, "C", FOREVER), ())
    assert int(caught.value.numbers["cycles"]) >= 19_000
    explained = devices.explain(program(CLUSTER, "C", FOREVER), caught.value)
    assert "the limit" in str(explained)
    work = job(TINY, *CASES[0])
    assert work.run(runtime(made))[0] == work.run(reference)[0]
    made.close()


@pytest.mark.cocotb
def test_an_interrupt_leaves_nothing_behind(device: Runtime, reference: Runtime) -> None:
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    # Workers of pytest-xdist ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            device.launch(program(CORE, "V", FOREVER), ())
    finally:
        signal.signal(signal.SIGINT, before)
    work = job(TINY, *CASES[1])
    assert work.run(device)[0] == work.run(reference)[0]


@pytest.mark.cocotb
def test_selected_by_name() -> None:
    with ktpu.device("rtl", machine="tiny") as session:
        x = ktpu.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert (x + x).numpy().tolist() == [[2, 4], [6, 8]]
        assert ktpu.stats().cycles > 0
        session.close()


def test_options_from_the_environment() -> None:
    assert rtl.options({}) == {}
    found = rtl.options(
        {
            "KTPU_STALLS": "3",
            "KTPU_WAVES": "a.vcd",
            "KTPU_WAVES_SCOPE": "top.top",
            "KTPU_WAVES_CYCLES": "10:20",
        }
    )
    assert found == {
        "stalls": 3, "waves": "a.vcd", "waves_scope": "top.top", "waves_from": 10, "waves_to": 20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("KTPU_STALLS", "x", "KTPU_STALLS is a whole number, not 'x'"),
        ("KTPU_WAVES_CYCLES", "10", "KTPU_WAVES_CYCLES is FIRST:END, not '10'"),
        ("KTPU_WAVES_CYCLES", ":10", "KTPU_WAVES_CYCLES is FIRST:END, not ':10'"),
    ],
)
def test_wrong_variables(variable: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rtl.options({variable: value})


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(toolchain.REQUIRED, "kohaku-no-such-tool", ((1,), (2,)))
    toolchain.find.cache_clear()
    try:
        with pytest.raises(CallError, match=r"(?s)kohaku-no-such-tool.*\nfix: .*kohakutpu\[rtl\]"):
            devices.create("rtl", TINY, {})
    finally:
        toolchain.find.cache_clear()


def test_memory_costs_what_is_touched() -> None:
    memory = allocate(1 << 32)  # 128 GiB
    assert memory.size == WORD_BYTES << 32
    memory[-1] = 7
    assert (memory[-1], memory[0]) == (7, 0)
