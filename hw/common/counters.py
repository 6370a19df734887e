"""What a unit counts in a run."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kohakutpu.control import COUNTER_NAMES as NAMES

__all__ = ["COUNT_BITS", "NAMES", "Counters"]

COUNT_BITS = 32


class Counters(wiring.Component):
    """Counters of single events.

    They are words of one LUT RAM. A round visits one after the other, a cycle each, and adds what
    has happened since its last visit.

    Members
    -------
    events : In(1 for each of `NAMES`)
        What happens in this cycle.
    index : Out(range(len(NAMES)))
        Which counter is visited.
    count : Out(32)
        It, with all events before this cycle, modulo 2**32.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "events": In(len(NAMES)),
                "index": Out(range(len(NAMES))),
                "count": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Count what a round can bring in registers, and all of it in the RAM."""
        m = Module()
        m.submodules.counts = counts = Memory(shape=COUNT_BITS, depth=len(NAMES), init=[])
        write, read = counts.write_port(), counts.read_port(domain="comb")
        recent = Array(Signal(range(len(NAMES) + 1), name=f"recent_{name}") for name in NAMES)
        for number, (event, count) in enumerate(zip(self.events, recent, strict=True)):
            with m.If(self.index == number):
                m.d.sync += count.eq(event)
            with m.Elif(event):
                m.d.sync += count.eq(count + 1)
        last = self.index == len(NAMES) - 1
        begun = Signal()  # a round is over: no reset reaches the RAM
        m.d.sync += [self.index.eq(Mux(last, 0, self.index + 1)), begun.eq(begun | last)]
        m.d.comb += [
            read.addr.eq(self.index),
            self.count.eq(Mux(begun, read.data, 0) + recent[self.index]),
            write.addr.eq(self.index),
            write.data.eq(self.count),
            write.en.eq(1),
        ]
        return m
