"""From beats to L1 words: round to FP16 if asked to, put together, address."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.converters import Narrower
from hw.arithmetic.formats import Float32
from hw.arithmetic.pipeline import delayed
from hw.common.interfaces import WINDOW
from hw.noc.flit import LOCAL_BITS, ROW_BITS, WORD_BITS
from hw.vector.l1 import WritePort
from hw.vector.walk import COLS_BITS, BeatWalk


class WordPacker(wiring.Component):
    """Write the beats of a window to L1 as FP16 or FP32; what follows a row in its word is zero.

    With 16 lanes a beat of FP32 is two words: after it comes a cycle without one.

    Parameters
    ----------
    lanes : int
        Elements of a beat.
    address_bits : int
        Of L1 words.

    Members
    -------
    valid, beat : In(1), In(ArrayLayout(Float32, lanes))
        A beat.
    window, rows, cols, is_half, mark : In
        Where it goes, how much there is of the window, whether as FP16, and a bit that `finished`
        comes with; `latency` cycles after the beat.
    write : WritePort, seen from the L1
        Always granted.
    finished, finished_mark : Out(1)
        A window's last word is written with this clock edge.
    """

    latency = Narrower.latency

    def __init__(self, lanes: int, address_bits: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "window": In(WINDOW),
                "rows": In(ROW_BITS),
                "cols": In(COLS_BITS),
                "is_half": In(1),
                "mark": In(1),
                "valid": In(1),
                "beat": In(data.ArrayLayout(Float32, lanes)),
                "write": In(WritePort(address_bits)),
                "finished": Out(1),
                "finished_mark": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Round, mask, place a beat in its word, send complete words."""
        m = Module()
        lanes = self._lanes
        m.submodules.walk = walk = BeatWalk(lanes)
        halves, singles = [], []
        for n in range(lanes):
            m.submodules[f"narrower_{n}"] = narrower = Narrower()
            m.d.comb += narrower.i.eq(self.beat[n])
            keep = walk.keep[n]
            halves.append(Mux(keep, narrower.o.as_value(), 0))
            singles.append(Mux(keep, delayed(m, self.beat[n], Narrower.latency), 0))
        valid = delayed(m, self.valid, Narrower.latency, reset=True)
        m.d.comb += [
            walk.step.eq(valid),
            walk.rows.eq(self.rows),
            walk.cols.eq(self.cols),
        ]
        half, half_ends, half_place = self._place(m, walk, Cat(*halves)[: 16 * lanes], "half")
        single, single_ends, single_place = self._place(
            m, walk, Cat(*singles)[: min(32 * lanes, WORD_BITS)], "single"
        )
        word = Mux(self.is_half, half, single)
        ends = Mux(self.is_half, half_ends, single_ends)
        place = Mux(self.is_half, half_place, single_place)

        next_base, base, offset = (Signal(LOCAL_BITS, name=n) for n in ("next", "base", "offset"))
        gathered = Signal(WORD_BITS)
        m.d.comb += base.eq(Mux(walk.row == 0, self.window.base, next_base))
        m.d.comb += offset.eq(base + place)
        with m.If(valid):
            m.d.sync += gathered.eq(Mux(ends, 0, gathered | word))
            m.d.sync += self.finished_mark.eq(self.mark)
        with m.If(valid & walk.ends_row):
            m.d.sync += next_base.eq(base + self.window.stride)

        final = Signal()
        m.d.sync += [
            self.write.valid.eq(valid & ends),
            self.write.address.eq(offset),
            self.write.word.eq(gathered | word),
            final.eq(valid & walk.ends),
        ]
        m.d.comb += self.finished.eq(final)
        if 32 * lanes > WORD_BITS:
            second, high = Signal(), Signal(WORD_BITS, reset_less=True)
            tail = self.cols[:4]
            alone = walk.ends_row & (tail != 0) & (tail <= 8)
            last = Signal()
            m.d.sync += [
                second.eq(valid & ~self.is_half & ~alone),
                high.eq(Cat(*singles)[WORD_BITS:]),
            ]
            with m.If(valid & ~self.is_half & ~alone):
                m.d.sync += final.eq(0)
            m.d.sync += last.eq(walk.ends & valid)
            with m.If(second):
                m.d.sync += [
                    self.write.valid.eq(1),
                    self.write.address.eq(self.write.address + 1),
                    self.write.word.eq(high),
                    final.eq(last),
                ]
        return m

    def _place(
        self, m: Module, walk: BeatWalk, beat: Value, name: str
    ) -> tuple[Value, Value, Value]:
        """Return the beat in its place of a word, if it completes it, and which word of the row."""
        parts = WORD_BITS // len(beat)
        bits = (parts - 1).bit_length()
        placed = Signal(WORD_BITS, name=f"{name}_placed")
        part = walk.beat[:bits]
        m.d.comb += placed.word_select(part, len(beat)).eq(beat) if parts > 1 else placed.eq(beat)
        ends = walk.ends_row | (part == parts - 1) if parts > 1 else walk.ends_row | 1
        index = walk.beat[bits:]
        if name == "single" and 32 * self._lanes > WORD_BITS:
            index = walk.beat << 1
        return placed, ends, index
