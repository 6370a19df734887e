"""From beats to L1 words: round to FP16 if asked to, put together."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.converters import Narrower
from hw.arithmetic.formats import Float32
from hw.arithmetic.pipeline import delayed
from hw.noc.flit import WORD_BITS
from hw.vector.l1 import WritePort
from hw.vector.walk import COLS_BITS


class WordPacker(wiring.Component):
    """Write beats to L1 as FP16 or FP32; what follows a row in its word is zero.

    With 16 lanes a beat of FP32 is two words: after it comes a cycle without one.

    Parameters
    ----------
    lanes : int
        Elements of a beat.
    address_bits : int
        Of L1 words.

    Members
    -------
    valid, elements : In(1), In(ArrayLayout(Float32, lanes))
        A beat; what lies past its row is zero.
    is_half, address, mark : In
        Whether it becomes FP16, its first word, and a bit that `finished` comes with.
    cols, beat, ends_row, ends : In
        Where in its window it is.
    write : WritePort, seen from the L1
        Always granted.
    finished, finished_mark : Out(1)
        A window's last word is written with this clock edge.
    """

    def __init__(self, lanes: int, address_bits: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "valid": In(1),
                "elements": In(data.ArrayLayout(Float32, lanes)),
                "is_half": In(1),
                "address": In(address_bits),
                "mark": In(1),
                "cols": In(COLS_BITS),
                "beat": In(COLS_BITS),
                "ends_row": In(1),
                "ends": In(1),
                "write": In(WritePort(address_bits)),
                "finished": Out(1),
                "finished_mark": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Round, put a beat in its place of a word, send complete words."""
        m = Module()
        lanes = self._lanes
        narrow = []
        for n in range(lanes):
            m.submodules[f"narrower_{n}"] = narrower = Narrower()
            m.d.comb += narrower.i.eq(self.elements[n])
            narrow.append(narrower.o.as_value())
        halves = Cat(*narrow)
        singles = delayed(m, self.elements.as_value(), Narrower.latency)
        parts = (max(8 // lanes, 1), 16 // lanes)  # beats of a word, of FP32 and of FP16
        part = [self.beat[: (count - 1).bit_length()] for count in parts]
        single, half = part
        last = Mux(self.is_half, half == parts[1] - 1, single == parts[0] - 1)
        tail = self.cols[:4]
        alone = self.is_half | (self.ends_row & (tail != 0) & (tail <= 8))
        early = Cat(
            self.is_half,
            self.ends,
            last | self.ends_row,
            Mux(self.is_half, half == 0, single == 0),
            alone,
        )
        is_half, ends, completes, begins, alone = delayed(m, early, Narrower.latency)
        valid = delayed(m, self.valid, Narrower.latency, reset=True)

        # A word fills from its start, and whatever does not come stays zero.
        width, most = len(halves), min(len(singles), WORD_BITS)
        word = [Signal(width, name=f"slot_{n}", reset_less=True) for n in range(parts[1])]
        for n, slot in enumerate(word):
            first = n * width % most
            early = Mux(self.is_half, half == n, single == n * width // most)
            here = delayed(m, early, Narrower.latency)
            with m.If(valid):
                with m.If(here):
                    m.d.sync += slot.eq(Mux(is_half, halves, singles[first : first + width]))
                with m.Elif(begins):
                    m.d.sync += slot.eq(0)

        final = Signal()
        m.d.sync += [
            self.write.valid.eq(valid & completes),
            self.write.address.eq(delayed(m, self.address, Narrower.latency)),
            self.finished_mark.eq(delayed(m, self.mark, Narrower.latency)),
            final.eq(valid & ends),
        ]
        m.d.comb += [self.write.word.eq(Cat(*word)), self.finished.eq(final)]
        if len(singles) > WORD_BITS:
            second, last_one = Signal(), Signal()
            high = Signal(WORD_BITS, reset_less=True)
            m.d.sync += [
                second.eq(valid & ~alone),
                last_one.eq(valid & ends),
                high.eq(singles[WORD_BITS:]),
            ]
            with m.If(valid & ~alone):
                m.d.sync += final.eq(0)
            with m.If(second):
                m.d.sync += [
                    self.write.valid.eq(1),
                    self.write.address.eq(self.write.address + 1),
                    self.finished_mark.eq(self.finished_mark),
                    word[0].eq(high),
                    final.eq(last_one),
                ]
        return m
