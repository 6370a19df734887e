"""A memory port, its two sides, and what must come out: the base of the testbenches."""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

from hw.noc.flit import Buffer, Cause, Event, Kind
from tests.hw.flits import flit, parts
from tests.hw.memory.configuration import MACHINE, PORT
from tests.hw.memory.reference import Read

CONTROL = MACHINE.of_kind("H")[0].id
SIZE = 32 * MACHINE.dram_words
AXI = (
    "awid awaddr awlen awsize awburst awvalid awready wdata wstrb wlast wvalid wready "
    "bid bresp bvalid bready arid araddr arlen arsize arburst arvalid arready "
    "rid rdata rresp rlast rvalid rready"
).split()


class Bench:
    """Clock the port, feed it flits, sort what it sends.

    Attributes
    ----------
    sending : deque of int
        Flits still to send, in order.
    expected : dict of bool to deque of int
        DATA still to come; the key says whether it is for an instruction buffer.
    acks, credits, finished : Counter
        ACKs by (node, tag), CREDITs by (node, class), last DATA by (requester, tag).
    reports : list
        REPORTs, as (unit, pc).
    """

    def __init__(self, dut: Any, seed: int) -> None:
        self.dut, self.random = dut, Random(seed)
        self.axi = {name: getattr(dut, f"axi__{name}") for name in AXI}
        self.sending: deque[int] = deque()
        self.expected: dict[bool, deque[int]] = {False: deque(), True: deque()}
        self.acks: Counter[tuple[int, int]] = Counter()
        self.credits: Counter[tuple[int, bool]] = Counter()
        self.finished: Counter[tuple[int, int]] = Counter()
        self.reports: list[tuple[int, int]] = []
        self.log: list[tuple[int, int]] = []  # cycle and bits of DATA
        self.ram: Any = None  # with drive() and sample(), or a third party's
        self.offer = self.accept = 1.0
        self.check = True
        self.cycle = 0

    async def start(self) -> None:
        dut = self.dut
        for name in ("i__valid", "i__payload", "o__ready", "stop"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        cocotb.start_soon(Clock(dut.clk, 2, "step", impl="gpi").start())
        for _ in range(3):
            await RisingEdge(dut.clk)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        self._offered = False
        self._waiting: int | None = None

    async def run(self, cycles: int) -> None:
        for _ in range(cycles):
            await self.step()

    async def until(self, holds: Callable[[], Any], patience: int = 20_000) -> None:
        for _ in range(patience):
            if holds():
                return
            await self.step()
        raise AssertionError(f"not so after {patience} cycles; to come {self.expected}")

    async def settle(self, patience: int = 20_000) -> None:
        """Run until everything was sent and has come, then a while longer: nothing may follow."""
        for _ in range(patience):
            await self.step()
            if not self.sending and not any(self.expected.values()) and self.dut.idle.value:
                break
        else:
            left = {key: len(value) for key, value in self.expected.items()}
            raise AssertionError(f"still to send {len(self.sending)}, to come {left}")
        await self.run(200)
        assert self.dut.idle.value
        if hasattr(self.ram, "owes"):
            assert not self.ram.owes

    async def step(self) -> None:
        """One cycle, from falling edge to falling edge."""
        dut = self.dut
        if not self._offered and self.sending and self.random.random() < self.offer:
            dut.i__payload.value = self.sending[0]
            self._offered = True
        dut.i__valid.value = self._offered
        accepts = self.random.random() < self.accept
        dut.o__ready.value = accepts
        if hasattr(self.ram, "drive"):
            self.ram.drive()
        await ReadOnly()
        if self._offered and dut.i__ready.value:
            self.sending.popleft()
            self._offered = False
        if dut.o__valid.value:
            bits = int(dut.o__payload.value)
            assert self._waiting in (None, bits), "a flit that was not taken changed"
            self._waiting = None if accepts else bits
            if accepts:
                self._receive(bits)
        else:
            assert self._waiting is None, "a flit that was not taken was withdrawn"
        if hasattr(self.ram, "sample"):
            self.ram.sample()
        self.cycle += 1
        await FallingEdge(dut.clk)

    def _receive(self, bits: int) -> None:
        members = parts(bits)
        assert members["source"] == PORT
        kind, fields, dest = Kind(members["kind"]), members["fields"], members["dest"]
        if kind is Kind.DATA:
            self.log.append((self.cycle, bits))
            if fields["data"]["last"]:
                self.finished[fields["data"]["requester"], fields["data"]["tag"]] += 1
            if self.check:
                where = fields["data"]["landing"]["buffer"] == Buffer.INSTRUCTION.value
                expected = self.expected[where].popleft()
                assert bits == expected, f"{members}\nmust be\n{parts(expected)}"
            return
        assert dest.bit_count() == 1
        node = dest.bit_length() - 1
        if kind is Kind.ACK:
            self.acks[node, fields["ack"]["tag"]] += 1
        elif kind is Kind.CREDIT:
            self.credits[node, bool(fields["credit"]["instruction"])] += 1
        else:
            assert kind is Kind.REPORT
            assert node == CONTROL
            report = fields["report"]
            assert report["event"] == Event.FAULT.value
            assert report["cause"] == Cause.MEMORY.value
            self.reports.append((report["unit"], report["pc"]))

    def read(self, read: Read, requester: int, memory: bytes | bytearray | None = None) -> None:
        """Send a READ; with `memory`, expect the answer it gives now."""
        self.sending.append(read.flit(requester, PORT))
        if memory is not None:
            is_instruction = read.buffer is Buffer.INSTRUCTION
            self.expected[is_instruction].extend(read.answer(memory, PORT, requester))

    def write(
        self, requester: int, address: int, mask: int, word: int,
        *, ack: bool = False, tag: int = 0, pc: int = 0,
    ) -> None:  # fmt: skip
        """Send a WRITE."""
        fields = {"address": address, "mask": mask, "ack": ack, "tag": tag, "pc": pc}
        self.sending.append(
            flit(
                dest=1 << PORT,
                source=requester,
                kind=Kind.WRITE,
                fields={"write": fields},
                word={"raw": word},
            )
        )
