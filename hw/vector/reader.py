"""The words of a window in row order, whether L1 holds rows or sub-tiles."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.common.window import SPAN_BITS
from hw.noc.flit import LOCAL_BITS, ROW_BITS, WORD_BITS
from hw.vector.l1 import WideReadPort

BANKS = 4
QUARTER_BITS = 64
HALF_BITS = 128
DEPTH = 4


class Window(data.Struct):
    """What to read: `rows` of `words` in row order; `tiles` of FP32 or FP16 sub-tiles, or rows."""

    base: LOCAL_BITS
    stride: LOCAL_BITS
    rows: ROW_BITS
    words: SPAN_BITS
    tiles: 1
    is_fp32: 1


class WindowReader(wiring.Component):
    """Read a window, a word a cycle where the four banks are free.

    Four FP16 sub-tiles side by side, or two of FP32, are four words in four banks: they are read
    at once, again for each of their four rows, and one row's share of each makes a word.

    Parameters
    ----------
    address_bits : int
        Of L1 words.

    Members
    -------
    i : In(stream of Window)
        Taken when the last word of the one before was asked for.
    l1 : Out(WideReadPort), seen from the L1
        Where it is read.
    o : Out(stream of 256 bits)
        The words.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(Window)),
                "l1": In(WideReadPort(address_bits, BANKS)),
                "o": Out(stream.Signature(WORD_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Ask while there is room; pick what was asked for."""
        m = Module()
        m.submodules.fifo = fifo = SyncFIFO(width=WORD_BITS, depth=DEPTH)
        active, task = Signal(), Signal(Window, reset_less=True)
        row, column = Signal(ROW_BITS), Signal(SPAN_BITS)
        base = Signal(LOCAL_BITS, reset_less=True)
        coming = Signal()
        row_done = column + 1 == task.words
        final = row_done & (row + 1 == task.rows)
        granted = self.l1.granted
        m.d.comb += [
            self.l1.valid.eq(active & (fifo.level + coming < DEPTH)),
            self.l1.wide.eq(task.tiles),
            self.l1.address.eq(base + Mux(task.tiles, column << 2, column)),
            self.i.ready.eq(~active | (granted & final)),
        ]
        m.d.sync += coming.eq(granted)
        with m.If(granted):
            m.d.sync += column.eq(column + 1)
            with m.If(row_done):
                m.d.sync += [column.eq(0), row.eq(row + 1)]
                with m.If(~task.tiles | (row[:2] == 3)):
                    m.d.sync += base.eq(base + task.stride)
        with m.If(self.i.ready):
            m.d.sync += [
                active.eq(self.i.valid),
                task.eq(self.i.payload),
                row.eq(0),
                column.eq(0),
                base.eq(self.i.payload.base),
            ]

        shape, line = Signal(2, reset_less=True), Signal(2, reset_less=True)
        m.d.sync += [shape.eq(Cat(task.tiles, task.is_fp32)), line.eq(row[:2])]
        words = self.l1.words
        quarters = [_select(words[n], line, QUARTER_BITS) for n in range(BANKS)]
        halves = [
            _select(Mux(line[1], words[2 * n + 1], words[2 * n]), line[0], HALF_BITS)
            for n in range(BANKS // 2)
        ]
        in_row = Mux(shape[1], Cat(*halves), Cat(*quarters))
        m.d.comb += [
            fifo.w_en.eq(coming),
            fifo.w_data.eq(Mux(shape[0], in_row, words[0])),
            self.o.valid.eq(fifo.r_rdy),
            self.o.payload.eq(fifo.r_data),
            fifo.r_en.eq(self.o.ready),
        ]
        return m


def _select(word: Value, index: Value, width: int) -> Value:
    return word.word_select(index, width)
