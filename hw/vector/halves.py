"""A queue of words that gives them in halves: for a beat of half a word."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.noc.flit import WORD_BITS

HALF_BITS = WORD_BITS // 2
SLOTS = 4


class HalfWords(wiring.Component):
    """Words go in, halves come out, from a block RAM that is written in words and read in halves.

    So nothing has to choose between the halves of a word, and no register holds one. A word is
    given three cycles after it came in at the earliest.

    Members
    -------
    valid, i : In(1), In(256)
        A word; there are no more than three that have not been done with.
    there, o : Out(1), Out(128)
        The half that was wanted. It stays until it is taken.
    take : In(1)
        It is taken.
    done : In(1)
        With `take`: its word is done with.
    half : In(1)
        Which half is wanted next: of the next word with `done`, else of this one. While none is
        there, the one that is to come.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": In(1),
                "i": In(WORD_BITS),
                "there": Out(1),
                "o": Out(HALF_BITS),
                "take": In(1),
                "done": In(1),
                "half": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Write words, read ahead of what is taken."""
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=HALF_BITS,
            depth=2 * SLOTS,
            init=[],
            attrs={"ram_style": "block", "no_rw_check": 1},
        )
        writes = [memory.write_port() for _ in range(2)]
        read = memory.read_port()
        last, first = Signal(range(SLOTS)), Signal(range(SLOTS))  # places of words
        written, waiting = Signal(), Signal(range(SLOTS))
        following = Signal(range(SLOTS))
        moves, more = Signal(), Signal()
        m.d.comb += [
            following.eq(first + self.done),
            moves.eq(self.take | ~self.there),
            more.eq(waiting != self.done),
            read.en.eq(moves),
            read.addr.eq(Cat(self.half, following)),
            self.o.eq(read.data),
        ]
        for number, write in enumerate(writes):
            m.d.comb += [
                write.en.eq(self.valid),
                write.addr.eq(Cat(Const(number, 1), last)),
                write.data.eq(self.i.word_select(number, HALF_BITS)),
            ]
        m.d.sync += [
            last.eq(last + self.valid),
            first.eq(following),
            written.eq(self.valid),
            waiting.eq(waiting + written - self.done),
            self.there.eq(Mux(moves, more, 1)),
        ]
        with m.If(moves & more & self.valid):
            m.d.sync += Assert(last != following, "a word is read while it is written")
        return m
