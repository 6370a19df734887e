"""What a unit counts in a run, and how the counters travel in the words of REPORTs."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import WORD_BITS

NAMES = (
    "instructions", "fetched", "read", "written", "sent", "steps_0", "steps_1", "steps_2",
    "busy_0", "busy_1", "busy_2", "stalled_0", "stalled_1", "stalled_2",
)  # fmt: skip
"""In order of their places, eight a word. ``read``: words from memory that landed for the unit's
own transfers; ``written``: WRITEs; ``sent``: words to other units; then by engine."""

COUNT_BITS = 32
PER_WORD = WORD_BITS // COUNT_BITS
REPORTS = -(-len(NAMES) // PER_WORD)
"""Words that hold all of them."""


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
