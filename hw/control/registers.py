"""The registers of the control node behind AXI4-Lite; `kohakutpu.control` has the map."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.common.counters import COUNT_BITS
from hw.control.lite import DATA_BITS, AxiLite
from hw.noc.flit import NODE_BITS, PC_BITS, Cause
from kohakutpu.config import MAX_NODES, Machine
from kohakutpu.control import COUNTERS, IDENTITY, VERSION, Register

__all__ = [
    "COUNTERS",
    "IDENTITY",
    "VERSION",
    "WATCHDOG",
    "FaultReport",
    "Register",
    "Registers",
    "Status",
]

WATCHDOG = 1 << 20
"""Cycles without progress that are too many, until the host says otherwise."""

COUNTER_BITS = 4
"""Of the number of a counter: a node has 64 bytes."""

OKAY, SLVERR = 0, 2


class Status(data.Struct):
    """`Register.STATUS`."""

    busy: 1
    done: 1
    fault: 1


class FaultReport(data.Struct):
    """`Register.FAULT`."""

    pc: PC_BITS
    cause: Cause
    unit: NODE_BITS


class Registers(wiring.Component):
    """What the host reads and writes.

    Parameters
    ----------
    machine : Machine
        For identity.

    Members
    -------
    bus : In(AxiLite)
        One transfer at a time. A write of part of a register, of more units than nodes, and an
        address with no register, is answered with SLVERR and changes nothing.
    table, units, watchdog : Out
        As written.
    go, stop : Out(1)
        `COMMAND` was written, in this cycle.
    status, fault, cycles : In
        As read.
    count_enable, count_index, count : In
        A counter of a node, to be kept: place ``16 * node + n``.
    """

    def __init__(self, machine: Machine) -> None:
        self._hash = int(machine.hash, 16)
        super().__init__(
            {
                "bus": In(AxiLite()),
                "table": Out(32),
                "units": Out(range(MAX_NODES + 1)),
                "watchdog": Out(32, init=WATCHDOG),
                "go": Out(1),
                "stop": Out(1),
                "status": In(Status),
                "fault": In(FaultReport),
                "cycles": In(64),
                "count_enable": In(1),
                "count_index": In(NODE_BITS + COUNTER_BITS),
                "count": In(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Answer one write and one read at a time."""
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m: Module) -> None:
        bus = self.bus
        address, value = bus.awaddr, bus.wdata
        takes = Signal()
        m.d.comb += [
            takes.eq(bus.awvalid & bus.wvalid & (~bus.bvalid | bus.bready)),
            bus.awready.eq(takes),
            bus.wready.eq(takes),
        ]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(takes):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(SLVERR)]
            with m.If(bus.wstrb == (1 << DATA_BITS // 8) - 1):
                with m.Switch(address):
                    for register, target in (
                        (Register.TABLE, self.table),
                        (Register.WATCHDOG, self.watchdog),
                    ):
                        with m.Case(register):
                            m.d.sync += [target.eq(value), bus.bresp.eq(OKAY)]
                    with m.Case(Register.UNITS):
                        with m.If(value <= MAX_NODES):
                            m.d.sync += [self.units.eq(value), bus.bresp.eq(OKAY)]
                    with m.Case(Register.COMMAND):
                        m.d.comb += [self.go.eq(value[0]), self.stop.eq(value[1])]
                        m.d.sync += bus.bresp.eq(OKAY)

    def _read(self, m: Module) -> None:
        bus = self.bus
        m.submodules.counters = memory = Memory(
            shape=COUNT_BITS,
            depth=MAX_NODES << COUNTER_BITS,
            init=[],
            attrs={"ram_style": "block"},
        )
        write, read = memory.write_port(), memory.read_port()
        address = Signal.like(bus.araddr)
        reading = Signal()
        m.d.comb += [
            write.en.eq(self.count_enable),
            write.addr.eq(self.count_index),
            write.data.eq(self.count),
            read.en.eq(1),
            read.addr.eq(bus.araddr[2:]),
            bus.arready.eq(~reading & (~bus.rvalid | bus.rready)),
        ]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [address.eq(bus.araddr), reading.eq(1)]
        with m.If(reading):
            m.d.sync += [reading.eq(0), bus.rvalid.eq(1), bus.rresp.eq(OKAY), bus.rdata.eq(0)]
            with m.If(address >= COUNTERS):
                m.d.sync += bus.rdata.eq(read.data)
            with m.Else():
                with m.Switch(address):
                    for register, value in (
                        (Register.IDENTITY, IDENTITY),
                        (Register.VERSION, VERSION),
                        (Register.HASH_LOW, self._hash & 0xFFFFFFFF),
                        (Register.HASH_HIGH, self._hash >> 32),
                        (Register.TABLE, self.table),
                        (Register.UNITS, self.units),
                        (Register.WATCHDOG, self.watchdog),
                        (Register.COMMAND, 0),
                        (Register.STATUS, self.status.as_value()),
                        (Register.FAULT, self.fault.as_value()),
                        (Register.CYCLES_LOW, self.cycles[:32]),
                        (Register.CYCLES_HIGH, self.cycles[32:]),
                    ):
                        with m.Case(register):
                            m.d.sync += bus.rdata.eq(value)
                    with m.Default():
                        m.d.sync += bus.rresp.eq(SLVERR)
