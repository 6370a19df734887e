"""Read bursts: a span of words becomes requests that memory may answer at once."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.axi import PAGE_WORDS
from hw.memory.request import SPAN_BITS
from hw.noc.flit import WORD_ADDRESS_BITS

SPAN = data.StructLayout({"word": WORD_ADDRESS_BITS, "words": SPAN_BITS})
BURST = data.StructLayout({"word": WORD_ADDRESS_BITS, "beats": 8})


class ReadBurst(wiring.Component):
    """Split spans into bursts that cross no page and whose words have room.

    A burst is offered only once the places for all its words are reserved, so memory never waits
    for whoever takes them. One burst a cycle.

    Parameters
    ----------
    places : int
        Words that the buffer behind memory holds.
    longest : int
        Words of a burst at most.

    Members
    -------
    i : In(stream of word and words)
        Spans, none of them empty.
    o : Out(stream of word and beats)
        Bursts; ``beats`` is one less than their words.
    freed : In(1)
        A word left the buffer.
    stop : In(1)
        Offer no further burst.
    """

    def __init__(self, places: int, longest: int) -> None:
        if not 1 <= longest <= min(places, PAGE_WORDS):
            raise ValueError(
                f"longest must be from 1 to {min(places, PAGE_WORDS)}, not {longest!r}"
            )
        self._places, self._longest = places, longest
        super().__init__(
            {
                "i": In(stream.Signature(SPAN)),
                "o": Out(stream.Signature(BURST)),
                "freed": In(1),
                "stop": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Cut at the page, at the longest burst, at the end; wait for room."""
        m = Module()
        word = Signal(WORD_ADDRESS_BITS)
        left = Signal(SPAN_BITS)
        room = Signal(range(self._places + 1), init=self._places)
        page_bits = PAGE_WORDS.bit_length() - 1
        to_page = Signal(range(PAGE_WORDS + 1))
        limit = Signal.like(to_page)
        beats = Signal.like(to_page)
        m.d.comb += [
            to_page.eq(PAGE_WORDS - word[:page_bits]),
            limit.eq(Mux(to_page < self._longest, to_page, self._longest)),
            beats.eq(Mux(left < limit, left, limit)),
        ]
        free = ~self.o.valid | self.o.ready
        cut = Signal()
        m.d.comb += cut.eq((left != 0) & free & (room >= beats) & ~self.stop)
        m.d.comb += self.i.ready.eq((left == 0) | (cut & (left == beats)))
        m.d.sync += room.eq(room + self.freed - Mux(cut, beats, 0))
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(cut),
                self.o.payload.word.eq(word),
                self.o.payload.beats.eq(beats - 1),
            ]
        with m.If(cut):
            m.d.sync += [word.eq(word + beats), left.eq(left - beats)]
        with m.If(self.i.ready):
            m.d.sync += left.eq(Mux(self.i.valid, self.i.payload.words, 0))
            m.d.sync += word.eq(self.i.payload.word)
        return m
