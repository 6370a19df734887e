"""What a unit counts in a run, and how the counters travel in the words of REPORTs."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import WORD_BITS
from kohakutpu.control import COUNTER_BYTES
from kohakutpu.control import COUNTER_NAMES as NAMES
from kohakutpu.control import COUNTER_WORDS as REPORTS
from kohakutpu.control import COUNTERS_PER_WORD as PER_WORD

__all__ = ["COUNT_BITS", "NAMES", "PER_WORD", "REPORTS", "Counters"]

COUNT_BITS = 8 * COUNTER_BYTES


class Counters(wiring.Component):
    """Counters of single events.

    Members
    -------
    events : In(1 for each of `NAMES`)
        What happens in this cycle.
    words : Out(256), one for each of `REPORTS`
        The counts.
    """

    def __init__(self) -> None:
        super().__init__(
            {"events": In(len(NAMES)), "words": Out(WORD_BITS).array(REPORTS)}
        )  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        """Add, modulo 2**32."""
        m = Module()
        counts = [Signal(COUNT_BITS, name=name) for name in NAMES]
        for index, count in enumerate(counts):
            with m.If(self.events[index]):
                m.d.sync += count.eq(count + 1)
        for index, word in enumerate(self.words):
            m.d.comb += word.eq(Cat(counts[index * PER_WORD : (index + 1) * PER_WORD]))
        return m
