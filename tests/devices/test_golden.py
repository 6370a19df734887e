import os

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakuaccel.image import DebugEntry, Image, OperandInfo, Relocation, UnitProgram
from kohakuaccel.runtime.device import DeviceFault, Program
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import devices, isa
from kohakutpu.config import preset
from kohakutpu.devices import golden

pytestmark = pytest.mark.golden
SMALL = preset("small")
CORE = SMALL.of_kind("V")[0].id

# Double 16 FP16 elements: a1 is the input's address, a2 the output's.
WINDOW = "l1_stride=1 rows=1 row_extent=1 cols=16 col_extent=16 format=fp16"
DOUBLE = f"""\
seta a1 0
seta a2 0
vfill mem=a1 stride=1 l1=0 {WINDOW} ; post n{CORE}:s0
sync 1 ; wait s0>=1
exec rows=1 cols=16 f=mac a=l1h[0]/1 b=2.0 dst=l1h[1]/1 ; post n{CORE}:s1
sync 2 ; wait s1>=1
vdrain l1=1 {WINDOW} order=row to=memory mem=a2 stride=1
halt
"""
EXEC = 4


def image(text: str = DOUBLE) -> Image:
    words = b"".join(isa.encode(instruction) for instruction in isa.assemble(text, "V"))
    return Image(
        SMALL.hash,
        (UnitProgram(CORE, "V", words),),
        operands=(OperandInfo("x", "in", 32), OperandInfo("y", "out", 32)),
        relocations=(Relocation(0, 0, 0), Relocation(0, 1, 1)),
        debug=(DebugEntry(0, EXEC, __file__, 1, "double", "y[e] <<= x[e] * 2"),),
    )


def run(device: golden.GoldenDevice, program: Image) -> tuple[Runtime, np.ndarray]:
    runtime = Runtime(device, isa.patch)
    x, y = runtime.allocate(32, "x"), runtime.allocate(32, "y")
    runtime.write(x.address, np.arange(16, dtype=np.float16).tobytes())
    device.renew(y.address, 1, 32, 32)
    runtime.launch(program, (x.address, y.address))
    return runtime, np.frombuffer(runtime.read(y.address, 32), np.float16)


@pytest.mark.parametrize("options", [{}, {"poison": True}, {"seed": 5}])
def test_a_program_by_hand(options: dict[str, bool]) -> None:
    runtime, y = run(golden.GoldenDevice(SMALL, **options), image())
    assert y.tolist() == list(range(0, 32, 2))
    totals = runtime.totals
    assert totals.dispatches == 1
    assert totals.instructions == 8
    assert (totals.cycles > 0) == ("seed" not in options)
    assert totals.memory_read == 1 + 8  # the row, and the instructions
    assert totals.memory_written == 1
    assert list(totals.engines) == ["VFILL", "EXEC", "VDRAIN"]


def test_a_fault_becomes_the_line_and_the_device_goes_on() -> None:
    device = golden.GoldenDevice(SMALL)
    wrong = image(DOUBLE.replace("a=l1h[0]/1", "a=l1h[8192]/1"))
    with pytest.raises(DeviceFault) as caught:
        run(device, wrong)
    fault = caught.value
    assert (fault.unit, fault.pc, fault.cause) == (CORE, EXEC, "L1_RANGE")
    explained = devices.explain(wrong, fault)
    assert isinstance(explained, devices.MachineFault)
    assert (explained.unit, explained.pc, explained.cause) == (CORE, EXEC, "L1_RANGE")
    text = str(explained)
    assert text.startswith(f"{__file__}:1: L1_RANGE in vector core {CORE}, instruction {EXEC}: ")
    assert "\n    import os\n" in text
    assert "exec rows=1 cols=16 f=mac a=l1h[8192]/1 b=2.0 dst=l1h[1]/1" in text
    assert "y[e] <<= x[e] * 2" in text
    assert "8192" in str(explained.numbers)
    _, y = run(device, image())
    assert y[3] == 6


def test_a_fault_without_a_line() -> None:
    program = Image(SMALL.hash, (UnitProgram(CORE, "V", b"\xff" * 32),))
    text = str(devices.explain(program, DeviceFault(CORE, 0, "ILLEGAL", "no opcode 255")))
    assert f"ILLEGAL in vector core {CORE}, instruction 0: no opcode 255" in text
    assert "no instruction: ffff" in text
    text = str(devices.explain(program, DeviceFault(CORE, 1, "LOOP_DEPTH", "no HALT")))
    assert "past the end of the program" in text


def test_poison_finds_what_nobody_wrote() -> None:
    device = golden.GoldenDevice(SMALL, poison=True)
    device.write(64, bytes(64))
    device.renew(64, 2, 18, 32)  # 9 elements a row: 3 of 4 quarters are data
    written = device._machine.memory.written
    assert written is not None
    assert written[8:16].tolist() == [False, False, False, True] * 2
    assert bytes(device.read(64, 64)) == b"\xff" * 64
    quiet = golden.GoldenDevice(SMALL)
    quiet.write(64, bytes(64))
    quiet.renew(64, 2, 18, 32)
    assert bytes(quiet.read(64, 64)) == bytes(64)
    assert (device.padding, quiet.padding) == (0xFF, 0)


def test_memory_survives_a_reset_and_reads_are_no_copies() -> None:
    device = golden.GoldenDevice(SMALL)
    assert device.memory_bytes == SMALL.dram_words * 32
    device.write(32, b"abcd")
    view = device.read(32, 4)
    device.reset()
    assert bytes(view) == b"abcd"
    device.write(33, b"!")
    assert bytes(view) == b"a!cd"


def test_an_empty_table_is_refused() -> None:
    device = golden.GoldenDevice(SMALL)
    with pytest.raises(ValueError, match="unit table"):
        device.run()
    device.load([Program(99, "V", 0, 1)])
    with pytest.raises(ValueError, match="node 99"):
        device.run()


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KTPU_POISON", raising=False)
    monkeypatch.delenv("KTPU_SEED", raising=False)
    assert list(devices.KINDS) == ["golden", "rtl", "board"]
    assert devices.check_options("golden", {"poison": True}) == {"poison": True}
    made = devices.create("golden", SMALL, {"seed": 3})
    assert (made.name, made.machine_hash) == ("golden", SMALL.hash)
    monkeypatch.setenv("KTPU_POISON", "1")
    monkeypatch.setenv("KTPU_SEED", "12")
    assert devices.check_options("golden", {}) == {"poison": True, "seed": 12}
    assert devices.check_options("golden", {"seed": 1}) == {"poison": True, "seed": 1}


@pytest.mark.parametrize(
    ("name", "options", "environment", "message"),
    [
        ("toaster", {}, {}, "no device is called 'toaster'; there are golden, rtl, board"),
        ("golden", {"speed": 1}, {}, "no option 'speed'; there are poison, seed"),
        ("golden", {"poison": 1}, {}, "the option poison of the device golden is 1"),
        ("golden", {"seed": True}, {}, "the option seed of the device golden is True"),
        ("golden", {}, {"KTPU_POISON": "yes"}, "KTPU_POISON is 0 or 1, not 'yes'"),
        ("golden", {}, {"KTPU_SEED": "-1"}, "KTPU_SEED is a whole number, not '-1'"),
    ],
)
def test_wrong_names_and_options(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, int],
    environment: dict[str, str],
    message: str,
) -> None:
    for variable in ("KTPU_POISON", "KTPU_SEED"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setitem(os.environ, variable, value)
    with pytest.raises(CallError, match=message):
        devices.check_options(name, options)
