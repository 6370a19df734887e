"""A window of L1 read and sent a quarter of a word at a time: for an L1 of one bank."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.rows import QUARTER_BITS, Rows, data_head, goes_by_rows, write_head
from hw.common.window import SPAN_BITS
from hw.noc.flit import LOCAL_BITS, ROW_BITS, WORD_ADDRESS_BITS, Flit
from hw.vector.l1 import WideReadPort
from hw.vector.reader import Window
from kohakutpu.config import QUARTERS_PER_WORD


class QuarterSender(wiring.Component):
    """What a `WindowReader` and a `RowSender` do together, a quarter a cycle.

    A quarter is read where it lies, in a row or in a sub-tile, and put where it goes in its flit:
    so nothing has to be rotated, and every sub-tile is read by itself. A flit of four quarters
    takes five cycles.

    Parameters
    ----------
    engine : int
        For the tag.
    node : int
        The own node.
    address_bits : int
        Of L1 words.

    Members
    -------
    i : In(stream of Rows)
        What is sent; taken when the last transfer has left.
    window : In(Window)
        Where it lies, with `i`.
    l1 : Out(WideReadPort), seen from the L1
        Where it is read.
    o : Out(stream of Flit)
        WRITE or DATA.
    """

    def __init__(self, engine: int, node: int, address_bits: int) -> None:
        self._engine, self._node = engine, node
        super().__init__(
            {
                "i": In(stream.Signature(Rows)),
                "window": In(Window),
                "l1": In(WideReadPort(address_bits, 1)),
                "o": Out(stream.Signature(Flit)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Ask for a quarter; put the one that comes; offer a full flit."""
        m = Module()
        active, task = Signal(), Signal(Rows, reset_less=True)
        window = Signal(Window, reset_less=True)
        row, base = Signal(ROW_BITS), Signal(LOCAL_BITS, reset_less=True)
        quarter, place = Signal(SPAN_BITS + 2), Signal(2)  # in its row; in its flit
        coming, closes = Signal(), Signal()  # a quarter; it is the last one of its flit
        ends_row, ends = Signal(), Signal()  # so of its row; of all
        line_sent = Signal(2)
        left = self.o.valid & self.o.ready
        with m.If(self.i.ready):
            arriving = self.i.payload
            m.d.sync += [
                active.eq(self.i.valid),
                task.eq(arriving),
                window.eq(self.window),
                row.eq(0),
                quarter.eq(0),
                base.eq(self.window.base),
                place.eq(Mux(arriving.to_memory, arriving.mem[:2], 0)),
            ]

        quarters = Signal(SPAN_BITS + 2)
        data_quarters = (task.data_halves + 3)[2:]
        m.d.comb += quarters.eq(Mux(task.to_memory, data_quarters, task.words << 2))
        following = Signal(len(quarter))
        m.d.comb += following.eq(quarter + 1)
        line, in_rows = row[:2], ~window.tiles
        row_done = following == quarters
        ends_flit = row_done | (place == QUARTERS_PER_WORD - 1)
        granted = self.l1.granted
        # Of FP16 a sub-tile's row is a quarter; of FP32 it is two, and half a sub-tile is a word.
        in_tiles = Mux(window.is_fp32, Cat(line[1], quarter[1:]), quarter)
        m.d.comb += [
            self.l1.valid.eq(
                active & ~(coming & closes) & (~self.o.valid | (self.o.ready & ~ends))
            ),
            self.l1.address.eq(base + Mux(in_rows, quarter[2:], in_tiles)),
        ]
        with m.If(granted):
            m.d.sync += [quarter.eq(following), place.eq(place + 1)]
            with m.If(row_done):
                m.d.sync += [row.eq(row + 1), quarter.eq(0)]
                m.d.sync += place.eq(Mux(task.to_memory, task.mem[:2], 0))
                with m.If(in_rows | (line == 3)):
                    m.d.sync += base.eq(base + window.stride)

        # Of the quarter that is asked for.
        final = row_done & (row + 1 == task.rows)
        pick, at, kept = Signal(2), Signal(2), Signal(4)
        tile_pick = Mux(window.is_fp32, Cat(quarter[0], line[0]), line)
        below = quarter < task.data_halves[2:]
        edge = quarter == task.data_halves[2:]
        m.d.sync += coming.eq(granted)
        with m.If(granted):
            m.d.sync += [
                closes.eq(ends_flit),
                pick.eq(Mux(in_rows, quarter[:2], tile_pick)),
                at.eq(place),
                line_sent.eq(line),
                ends_row.eq(row_done),
                ends.eq(final),
            ]
            with m.If(task.to_memory):
                m.d.sync += kept.eq(0b1111)
            with m.Elif(row < task.data_rows):
                m.d.sync += kept.eq(
                    Cat(below | (edge & (task.data_halves[:2] > n)) for n in range(4))
                )
            with m.Else():
                m.d.sync += kept.eq(0)

        found = self.l1.words[0].word_select(pick, QUARTER_BITS)
        masked = Cat(Mux(kept[n], found.word_select(n, 16), 0) for n in range(4))
        word = [Signal(QUARTER_BITS, name=f"quarter_{k}", reset_less=True) for k in range(4)]
        mask, filled = Signal(QUARTERS_PER_WORD), Signal()
        with m.If(coming):
            m.d.sync += mask.eq(Mux(filled, mask, 0) | (1 << at))
            m.d.sync += [filled.eq(~closes), self.o.valid.eq(closes)]
            for k in range(QUARTERS_PER_WORD):
                with m.If(at == k):
                    m.d.sync += word[k].eq(masked)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)

        # Of the flit that is put together; nothing is asked for while it waits.
        column, first = Signal(SPAN_BITS), Signal()
        target = Signal(WORD_ADDRESS_BITS, reset_less=True)
        grows = ~goes_by_rows(task) | (line_sent == 3)
        m.d.comb += self.i.ready.eq(~active | (left & ends))
        with m.If(left):
            m.d.sync += [column.eq(Mux(ends_row, 0, column + 1)), first.eq(0)]
            with m.If(ends_row & grows):
                m.d.sync += target.eq(target + task.stride)
        with m.If(self.i.ready):
            m.d.sync += [column.eq(0), first.eq(1)]
            m.d.sync += target.eq(Mux(arriving.to_memory, arriving.mem[2:], arriving.mem))

        flit = self.o.payload
        m.d.comb += flit.word.raw.eq(Cat(*word))
        with m.If(task.to_memory):
            write_head(m, flit, task, self._engine, target + column, mask, ends)
        with m.Else():
            fields = flit.fields.data
            m.d.comb += [
                fields.first.eq(first),
                fields.row_last.eq(ends_row),
                fields.requester.eq(self._node),
            ]
            data_head(m, flit, task, self._engine, target, line_sent, column, ends)
        return m
