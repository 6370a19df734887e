"""Coroutines for `test_top`: a host made of cocotb and cocotbext-axi in front of a whole machine.

The project's own host (`kohakutpu.devices.host`, the C++ loop) is not used here but for the unit
table's layout: registers are driven by somebody else's AXI4-Lite initiator.
"""

import ctypes
import json
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from hw.control.registers import (
    COUNTERS,
    IDENTITY,
    VERSION,
    FaultReport,
    Register,
    Status,
)
from hw.noc.flit import Cause
from hw.sim.machine import Ram, allocate
from kohakuaccel.image import WORD_BYTES, Image
from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.control import (
    COUNTER_NAMES,
    COUNTER_WORDS,
    COUNTERS_PER_WORD,
    TABLE_WORDS,
    unit_table,
)
from tests.devices.jobs import UNTOUCHED

PERIOD = 2  # steps
PATIENCE = 5_000_000  # cycles for a run
JOBS = Path(os.environ["KTPU_JOBS"])
MACHINE = preset(os.environ["KTPU_MACHINE"])


class Bench:
    """A machine, its memory by pointer, and its registers by AXI4-Lite."""

    def __init__(self, dut: Any, **behaviour: Any) -> None:
        self.dut = dut
        self.memory = allocate(MACHINE.dram_words)
        first, end = behaviour.get("errors", (0, 0))
        self.ram = Ram(
            self.memory.ctypes.data,
            MACHINE.dram_words,
            first,
            end,
            behaviour.get("stalls", 0),
            behaviour.get("latency", 16),
        )
        ctypes.CDLL(None).ram_use(ctypes.byref(self.ram))
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "host"), dut.clk, dut.rst)

    async def start(self) -> None:
        cocotb.start_soon(Clock(self.dut.clk, PERIOD, "step", impl="gpi").start())
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 4)

    async def get(self, register: int) -> int:
        answer = await self.lite.read(register, 4)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def put(self, register: int, value: int) -> None:
        answer = await self.lite.write(register, value.to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY

    async def run(self, programs: Sequence[tuple[int, int, int]]) -> int:
        """Run to the end and return the cycles that the machine counted."""
        table = MACHINE.dram_words - TABLE_WORDS
        self.place(table * WORD_BYTES, unit_table(programs))
        await self.put(Register.TABLE, table)
        await self.put(Register.UNITS, len(programs))
        await self.put(Register.COMMAND, 1)
        await with_timeout(RisingEdge(self.dut.finished), PATIENCE * PERIOD, "step")
        low, high = await self.get(Register.CYCLES_LOW), await self.get(Register.CYCLES_HIGH)
        return low | high << 32

    async def counter(self, node: int, name: str) -> int:
        index = node * COUNTER_WORDS * COUNTERS_PER_WORD + COUNTER_NAMES.index(name)
        return await self.get(COUNTERS + 4 * index)

    def place(self, address: int, data: bytes) -> None:
        self.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)


class Job:
    """An image, the bytes of its operands, and those it must leave, from a folder."""

    def __init__(self, folder: Path) -> None:
        self.image = Image.from_bytes((folder / "image.kai").read_bytes())
        assert self.image.machine_hash == MACHINE.hash
        self.inputs = {p.stem: p.read_bytes() for p in folder.glob("*.in")}
        self.outputs = {p.stem: p.read_bytes() for p in folder.glob("*.out")}
        self.report = json.loads((folder / "report.json").read_text())
        self.bases: dict[str, int] = {}

    def load(self, bench: Bench) -> list[tuple[int, int, int]]:
        """Put everything into memory, one thing after the other, and return the unit table."""
        free = 0

        def take(nbytes: int) -> int:
            nonlocal free
            start = free
            free += -(-nbytes // WORD_BYTES) * WORD_BYTES
            return start

        for operand in self.image.operands:
            base = self.bases[operand.name] = take(operand.nbytes)
            content = {
                "in": self.inputs.get(operand.name, b""),
                "data": self.image.data,
                "out": bytes([UNTOUCHED]) * operand.nbytes,
            }
            bench.place(base, content.get(operand.kind, b""))
        words = isa.patch(self.image, [self.bases[o.name] for o in self.image.operands])
        table = []
        for unit, program in zip(self.image.units, words, strict=True):
            start = take(len(program))
            bench.place(start, program)
            table.append((unit.node, start, len(program) // WORD_BYTES))
        return table

    def check(self, bench: Bench) -> None:
        """Compare every output with what it must be, as bytes."""
        assert self.outputs
        for name, wanted in self.outputs.items():
            base = self.bases[name]
            assert bench.memory[base : base + len(wanted)].tobytes() == wanted, name


@cocotb.test()
@cocotb.parametrize((("stalls", "latency"), [(0, 16), (5, 1)]))
async def images(dut: Any, stalls: int, latency: int) -> None:
    """Every image leaves the golden bytes, and takes the cycles that the device counts."""
    folders = sorted(path for path in JOBS.iterdir() if path.is_dir())
    assert folders
    bench = Bench(dut, stalls=stalls, latency=latency)
    await bench.start()
    total, started = 0, perf_counter()
    for folder in folders:
        job = Job(folder)
        table = job.load(bench)
        cycles = await bench.run(table)
        status = Status.from_bits(await bench.get(Register.STATUS))
        assert (status.done, status.busy, status.fault) == (1, 0, 0), folder.name
        job.check(bench)
        instructions = [await bench.counter(node, "instructions") for node, _, _ in table]
        assert instructions == job.report["instructions"], folder.name
        if not stalls:
            assert cycles == job.report["cycles"], folder.name
        total += cycles
    seconds = perf_counter() - started
    dut._log.info(f"{total} cycles of programs in {seconds:.2f} s: {total / seconds:.0f} a second")


@cocotb.test()
async def identity_and_registers(dut: Any) -> None:
    """A third party's initiator reads what the map says, and is refused elsewhere."""
    bench = Bench(dut)
    await bench.start()
    assert await bench.get(Register.IDENTITY) == IDENTITY
    assert await bench.get(Register.VERSION) == VERSION
    found = await bench.get(Register.HASH_LOW) | await bench.get(Register.HASH_HIGH) << 32
    assert found == int(MACHINE.hash, 16)
    await bench.put(Register.TABLE, 0x12345678)
    assert await bench.get(Register.TABLE) == 0x12345678
    for register in (Register.IDENTITY, Register.STATUS, 0x40):
        answer = await bench.lite.write(register, bytes(4))
        assert answer.resp == AxiResp.SLVERR, register
    assert (await bench.lite.read(0x40, 4)).resp == AxiResp.SLVERR
    part = await bench.lite.write(Register.TABLE, b"\xff")  # one byte of the register
    assert part.resp == AxiResp.SLVERR
    assert await bench.get(Register.TABLE) == 0x12345678


@cocotb.test()
async def a_memory_error_and_then_a_run(dut: Any) -> None:
    """Memory that fails is the fault of the unit that asked; the next run is right again."""
    folder = min(path for path in JOBS.iterdir() if path.is_dir())
    bench, job = Bench(dut), Job(folder)
    await bench.start()
    table = job.load(bench)
    node, start, _ = table[-1]
    bench.ram.error_first = start // WORD_BYTES
    bench.ram.error_end = bench.ram.error_first + 1
    await bench.run(table)
    assert Status.from_bits(await bench.get(Register.STATUS)).fault
    fault = FaultReport.from_bits(await bench.get(Register.FAULT))
    assert (fault.unit, fault.pc, Cause(fault.cause)) == (node, 0, Cause.MEMORY)
    bench.ram.error_end = bench.ram.error_first
    await bench.run(job.load(bench))
    assert not Status.from_bits(await bench.get(Register.STATUS)).fault
    job.check(bench)
