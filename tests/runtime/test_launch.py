"""Launches on a pretend device whose one instruction adds constants to an input."""

import gc
import struct
import weakref
from collections.abc import Sequence

import pytest

from kohakuaccel.errors import CallError
from kohakuaccel.image import Image, OperandInfo, UnitProgram
from kohakuaccel.runtime.arena import OutOfMemory
from kohakuaccel.runtime.device import (
    Bytes,
    DeviceFault,
    EngineReport,
    Program,
    Report,
    UnitReport,
)
from kohakuaccel.runtime.launch import RESIDENT_IMAGES, Runtime

WORD = struct.Struct("<4Q")  # addresses of in, out, temp, data


class Adder:
    """32 bytes: ``temp = in; out = temp + data``, each address read from the program word."""

    name = "adder"
    machine_hash = "adder"
    granule = 32
    padding = 0

    def __init__(self, memory_bytes: int = 4096) -> None:
        self.memory_bytes = self.memory_end = memory_bytes
        self.memory = bytearray(memory_bytes)
        self.programs: list[Program] = []
        self.log: list[tuple[str, int]] = []
        self.fail: BaseException | None = None

    def write(self, address: int, data: Bytes) -> None:
        self.log.append(("write", address))
        self.memory[address : address + len(data)] = data

    def read(self, address: int, nbytes: int) -> Bytes:
        return memoryview(self.memory)[address : address + nbytes]

    def renew(self, address: int, rows: int, row_bytes: int, stride: int) -> None:
        self.log.append(("renew", address))

    def load(self, programs: Sequence[Program]) -> None:
        self.programs = list(programs)

    def run(self) -> Report:
        for program in self.programs:
            assert program.count == 1
            source, out, temp, data = WORD.unpack_from(self.memory, program.address)
            self.memory[temp : temp + 32] = self.memory[source : source + 32]
            if self.fail is not None:
                raise self.fail
            for i in range(32):
                self.memory[out + i] = (self.memory[temp + i] + self.memory[data + i]) % 256
        units = tuple(
            UnitReport(p.node, p.kind, 2, {"ALU": EngineReport(5, 1)}) for p in self.programs
        )
        return Report(10, units, macs=32, memory_read=2, memory_written=1, noc=3)

    def reset(self) -> None:
        self.log.append(("reset", 0))

    def close(self) -> None:
        self.log.append(("close", 0))


def patch(image: Image, bases: Sequence[int]) -> list[bytes]:
    return [WORD.pack(*bases) for _ in image.units]


def adder(constant: int, machine: str = "adder", temp: int = 32) -> Image:
    kinds = ("in", "out", "temp", "data")
    return Image(
        machine,
        (UnitProgram(1, "C", WORD.pack(0, 0, 0, 0)),),
        bytes([constant] * 32),
        tuple(OperandInfo(k, k, temp if k == "temp" else 32) for k in kinds),
        meta={"kernel": f"add {constant}"},
    )


@pytest.fixture
def device() -> Adder:
    return Adder()


@pytest.fixture
def runtime(device: Adder) -> Runtime:
    return Runtime(device, patch)


def test_a_launch(device: Adder, runtime: Runtime) -> None:
    source, out = runtime.allocate(32, "in"), runtime.allocate(32, "out")
    runtime.write(source.address, bytes(range(32)))
    report = runtime.launch(adder(7), (source.address, out.address))
    assert bytes(runtime.read(out.address, 32)) == bytes(range(7, 39))
    assert report.cycles == 10
    assert report.instructions == 2
    # The temporary is gone, the program with its constants stays.
    assert [b.owner for b in runtime.arena.blocks] == ["in", "out", "program of add 7"]
    assert runtime.resident_bytes == 64
    totals = runtime.totals
    runtime.launch(adder(7), (source.address, out.address))
    assert (totals.dispatches, totals.cycles, totals.macs, totals.instructions) == (2, 20, 64, 4)
    assert (totals.memory_read, totals.memory_written, totals.noc) == (4, 2, 6)
    assert (totals.engines["ALU"].busy, totals.engines["ALU"].stalled) == (10, 2)
    totals.clear()
    assert (totals.dispatches, totals.engines) == (0, {})


def test_a_program_is_written_once_and_again_when_operands_move(
    device: Adder, runtime: Runtime
) -> None:
    image = adder(1)
    source, out, other = (runtime.allocate(32, name) for name in ("in", "out", "other"))
    runtime.launch(image, (source.address, out.address))
    device.log.clear()
    runtime.launch(image, (source.address, out.address))
    assert [what for what, _ in device.log] == ["renew"]  # the temporary; nothing is written
    runtime.write(source.address, bytes(32))
    device.log.clear()
    runtime.launch(image, (source.address, other.address))
    assert [what for what, _ in device.log] == ["renew", "write"]
    assert bytes(runtime.read(other.address, 32)) == bytes([1] * 32)


@pytest.mark.parametrize(
    "failure",
    [DeviceFault(1, 0, "ILLEGAL", "no such word", {"word": 3}), KeyboardInterrupt(), OSError("x")],
)
def test_whatever_ends_a_run_leaves_the_device_usable(
    device: Adder, runtime: Runtime, failure: BaseException
) -> None:
    source, out = runtime.allocate(32, "in"), runtime.allocate(32, "out")
    runtime.write(source.address, bytes([5] * 32))
    image = adder(2)
    runtime.launch(image, (source.address, out.address))
    device.fail = failure
    device.log.clear()
    with pytest.raises(type(failure)) as caught:
        runtime.launch(image, (source.address, out.address))
    assert caught.value is failure
    assert device.log[-1] == ("reset", 0)
    assert [b.owner for b in runtime.arena.blocks] == ["in", "out"]
    assert runtime.totals.dispatches == 1
    # What ran may have written anywhere: the program goes to memory again.
    device.fail = None
    runtime.write(out.address, bytes(32))
    runtime.launch(image, (source.address, out.address))
    assert bytes(runtime.read(out.address, 32)) == bytes([7] * 32)


def test_the_fault_says_what_it_knows() -> None:
    fault = DeviceFault(3, 14, "ACC_RANGE", "the tile ends at 2050 of 2048", {"end": 2050})
    assert str(fault) == "ACC_RANGE at unit 3, instruction 14: the tile ends at 2050 of 2048"
    assert (fault.unit, fault.pc, fault.cause, fault.numbers) == (3, 14, "ACC_RANGE", {"end": 2050})


def test_an_image_of_another_machine_is_refused(device: Adder, runtime: Runtime) -> None:
    with pytest.raises(CallError, match="hash other, and the device adder has adder"):
        runtime.launch(adder(1, "other"), (0, 32))
    assert device.log == []
    assert runtime.arena.live == 0


def test_programs_make_room(runtime: Runtime) -> None:
    source, out = runtime.allocate(32, "in"), runtime.allocate(32, "out")
    for constant in range(8):
        runtime.launch(adder(constant), (source.address, out.address))
    assert runtime.resident_bytes == 8 * 64
    runtime.allocate(4096 - 64 - 7 * 64, "big")
    assert runtime.resident_bytes == 0
    runtime.launch(adder(9), (source.address, out.address))
    with pytest.raises(OutOfMemory, match="1 x big"):
        runtime.launch(adder(1, temp=1024), (source.address, out.address))
    assert [b.owner for b in runtime.arena.blocks] == ["in", "out", "big"]


def test_programs_that_stay_are_bounded() -> None:
    runtime = Runtime(Adder(1 << 16), patch)
    source, out = runtime.allocate(32, "in"), runtime.allocate(32, "out")
    images = [adder(i % 256) for i in range(RESIDENT_IMAGES + 10)]
    gone = weakref.ref(images[0])
    for image in images:
        runtime.launch(image, (source.address, out.address))
    assert runtime.resident_bytes == RESIDENT_IMAGES * 64
    images.clear()
    del image
    gc.collect()
    assert gone() is None
    runtime.evict()
    assert runtime.arena.live == 64


def test_released_blocks_are_free_at_the_next_look(runtime: Runtime) -> None:
    block = runtime.allocate(4096, "all")
    runtime.release(block)
    assert runtime.arena.live == 4096
    assert runtime.allocate(4096, "again").address == block.address
    runtime.release(runtime.arena.blocks[0])
    runtime.collect()
    assert runtime.arena.live == 0


def test_a_closed_device_is_refused_by_name(device: Adder, runtime: Runtime) -> None:
    runtime.close()
    runtime.close()
    assert device.log == [("close", 0)]
    for call in (
        lambda: runtime.allocate(32, "x"),
        lambda: runtime.launch(adder(1), (0, 32)),
        lambda: runtime.read(0, 32),
        lambda: runtime.write(0, bytes(32)),
    ):
        with pytest.raises(CallError, match="the device adder is closed"):
            call()
