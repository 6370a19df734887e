"""A bridge with a memory and the control node's registers, without a machine."""

from functools import cache
from pathlib import Path

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.control.registers import Registers
from hw.link.bridge import Bridge
from hw.link.uart import Receiver, Transmitter
from hw.memory.onchip import OnChipMemory
from hw.sim.serial import SerialModel, build
from kohakutpu.config import preset

DIVISOR = 4
CLOCK = 1_000_000
MEMORY_WORDS = 64  # the RAM is larger: what a frame does not name stays as it is
RAM_WORDS = 80
ADDRESS_BITS = 12
MACHINE = preset("tiny")


class LinkBench(wiring.Component):
    """``go`` counts how often `COMMAND` was written: a register that repetition would change."""

    def __init__(self, memory_words: int = MEMORY_WORDS) -> None:
        self._memory_words = memory_words
        super().__init__({"receive": In(1, init=1), "transmit": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bridge = bridge = Bridge(self._memory_words, CLOCK, ADDRESS_BITS)
        m.submodules.ram = ram = OnChipMemory(RAM_WORDS, [ADDRESS_BITS])
        m.submodules.registers = registers = Registers(MACHINE)
        m.submodules.receiver = receiver = Receiver(DIVISOR)
        m.submodules.transmitter = transmitter = Transmitter(DIVISOR)
        wiring.connect(m, bridge.memory, ram.port_0)
        wiring.connect(m, bridge.registers, registers.bus)
        wiring.connect(m, bridge.o, transmitter.i)
        m.d.comb += [
            receiver.line.eq(self.receive),
            bridge.byte.eq(receiver.byte),
            bridge.strobe.eq(receiver.strobe),
            self.transmit.eq(transmitter.line),
        ]
        with m.If(registers.go):
            m.d.sync += registers.cycles.eq(registers.cycles + 1)
        return m


@cache
def library(memory_words: int) -> Path:
    return build(LinkBench(memory_words))


def model(memory_words: int = MEMORY_WORDS) -> SerialModel:
    return SerialModel(library(memory_words), DIVISOR, CLOCK, wait=4e-3)
