"""A machine that needs nothing but a clock and a serial line."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.link.bridge import Bridge
from hw.link.uart import Receiver, Transmitter
from hw.memory.onchip import OnChipMemory
from hw.top import Top
from kohakutpu.config import Machine


class System(wiring.Component):
    """A machine, its memory in block RAM, and the host link.

    Parameters
    ----------
    machine : Machine
        Which; of its memory there are only `memory_words`.
    memory_words : int
        Words of memory.
    clock : int
        Frequency in Hz.
    baud : int
        Bits a second on the serial line.

    Members
    -------
    receive, transmit : In(1), Out(1)
        The serial line.
    listening : Out(1)
        The link waits for a request.
    finished : Out(1)
        A run is over.

    Raises
    ------
    ValueError
        If the clock is too slow for the line, or the machine has less memory than that.
    """

    def __init__(self, machine: Machine, memory_words: int, clock: int, baud: int) -> None:
        if not 0 < memory_words <= machine.dram_words:
            raise ValueError(
                f"memory_words must be from 1 to {machine.dram_words}, not {memory_words}"
            )
        self._divisor = round(clock / baud)
        off = abs(self._divisor * baud / clock - 1) if self._divisor else 1
        # Half a bit in ten is too much, and the other end may be off too.
        if self._divisor < 4 or off > 0.02:
            raise ValueError(
                f"a clock of {clock:,} Hz makes no {baud:,} bits a second: choose a rate that "
                f"divides it by 4 or more, as {clock // max(4, self._divisor):,}"
            )
        self._machine, self._memory_words, self._clock = machine, memory_words, clock
        super().__init__(
            {
                "receive": In(1, init=1),
                "transmit": Out(1, init=1),
                "listening": Out(1),
                "finished": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Machine and link are equals at the memory."""
        m = Module()
        m.submodules.top = top = Top(self._machine)
        ports = [getattr(top, f"memory_{node.id}") for node in self._machine.of_kind("M")]
        widths = [len(port.araddr) for port in ports]
        m.submodules.link = link = Bridge(self._memory_words, self._clock, widths[0])
        m.submodules.memory = memory = OnChipMemory(self._memory_words, [widths[0], *widths])
        m.submodules.receiver = receiver = Receiver(self._divisor)
        m.submodules.transmitter = transmitter = Transmitter(self._divisor)
        for n, port in enumerate([link.memory, *ports]):
            wiring.connect(m, port, getattr(memory, f"port_{n}"))
        wiring.connect(m, link.registers, top.host)
        wiring.connect(m, link.o, transmitter.i)
        m.d.comb += [
            receiver.line.eq(self.receive),
            link.byte.eq(receiver.byte),
            link.strobe.eq(receiver.strobe),
            self.transmit.eq(transmitter.line),
            self.listening.eq(link.idle),
            self.finished.eq(top.finished),
        ]
        return m
