"""Sending rows: words of a window become WRITEs to memory or DATA for the buffers of units."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.window import SPAN_BITS
from hw.noc.flit import (
    LENGTH_BITS,
    PC_BITS,
    ROW_BITS,
    STRIDE_BITS,
    TAG_BITS,
    WORD_ADDRESS_BITS,
    WORD_BITS,
    Buffer,
    Flit,
    Form,
    Kind,
)
from kohakutpu.config import ADDRESS_BITS, MAX_NODES, QUARTERS_PER_WORD

QUARTER_BITS = 64


class Rows(data.Struct):
    """Rows to send.

    Members
    -------
    to_memory : 1
        WRITEs; otherwise DATA for `buffer` of `nodes`.
    buffer, residual, nodes
        Receivers.
    mem : 34
        Quarter, L1 word or entry of the first row.
    stride : 24
        From row to row, in words or entries.
    rows : 12
        Rows that are sent, at least 1: to memory, those below the extent.
    words : 14
        Words of each that come in, at least 1.
    data_rows, data_halves : 12, 17
        What lies below the extents, in elements of 2 bytes.
    low, pc
        For ACK and blame.
    """

    to_memory: 1
    buffer: Buffer
    residual: 1
    nodes: MAX_NODES
    mem: ADDRESS_BITS
    stride: STRIDE_BITS
    rows: ROW_BITS
    words: SPAN_BITS
    data_rows: ROW_BITS
    data_halves: LENGTH_BITS
    low: 1
    pc: PC_BITS


class RowSender(wiring.Component):
    """Address, mask and rotate words; the last flit wants an ACK. One flit a cycle.

    To memory, a row that starts inside a word takes a flit more where it touches more words than
    it fills. Elements past the extents become zeros on the way to units; memory gets the quarters
    that hold data.

    Parameters
    ----------
    engine : int
        For the tag.
    node : int
        The own node.

    Members
    -------
    i : In(stream of Rows)
        What is sent; taken when the last transfer has left.
    word : In(stream of 256 bits)
        Its words, row by row.
    o : Out(stream of Flit)
        WRITE or DATA.
    """

    def __init__(self, engine: int, node: int) -> None:
        self._engine, self._node = engine, node
        super().__init__(
            {
                "i": In(stream.Signature(Rows)),
                "word": In(stream.Signature(WORD_BITS)),
                "o": Out(stream.Signature(Flit)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk rows and words."""
        m = Module()
        active, task = Signal(), Signal(Rows, reset_less=True)
        row, column = Signal(ROW_BITS), Signal(SPAN_BITS)
        place = Signal(WORD_ADDRESS_BITS, reset_less=True)  # of the row's first word
        flits = Signal(SPAN_BITS)
        takes, row_done, final = Signal(), Signal(), Signal()

        skew = Signal(range(QUARTERS_PER_WORD))
        quarters = Signal(SPAN_BITS + 2)
        m.d.comb += [
            skew.eq(Mux(task.to_memory, task.mem[:2], 0)),
            quarters.eq((task.data_halves + 3) >> 2),
            flits.eq(Mux(task.to_memory, (skew + quarters + 3) >> 2, task.words)),
            takes.eq(column < task.words),
            row_done.eq(column + 1 == flits),
            final.eq(row_done & (row + 1 == task.rows)),
        ]
        moves = Signal()
        m.d.comb += [
            self.o.valid.eq(active & (self.word.valid | ~takes)),
            moves.eq(self.o.valid & self.o.ready),
            self.word.ready.eq(active & takes & self.o.ready),
            self.i.ready.eq(~active | (moves & final)),
        ]
        is_rows = ~task.to_memory & (task.buffer != Buffer.VECTOR)
        grows = ~is_rows | (row[:2] == 3)
        with m.If(moves):
            m.d.sync += column.eq(column + 1)
            with m.If(row_done):
                m.d.sync += [column.eq(0), row.eq(row + 1)]
                m.d.sync += place.eq(place + Mux(grows, task.stride, 0))
        with m.If(self.i.ready):
            arriving = self.i.payload
            m.d.sync += [
                active.eq(self.i.valid),
                task.eq(arriving),
                row.eq(0),
                column.eq(0),
                place.eq(Mux(arriving.to_memory, arriving.mem[2:], arriving.mem)),
            ]

        # Quarter k of a flit is quarter k - skew of the words: of this one, or of the last one.
        pieces = [self.word.payload.word_select(k, QUARTER_BITS) for k in range(QUARTERS_PER_WORD)]
        rotated, held = Signal(WORD_BITS), Signal(WORD_BITS, reset_less=True)
        with m.Switch(skew):
            for number in range(QUARTERS_PER_WORD):
                with m.Case(number):
                    turn = QUARTERS_PER_WORD - number
                    m.d.comb += rotated.eq(Cat(*pieces[turn:], *pieces[:turn]))
        with m.If(moves & takes):
            m.d.sync += held.eq(rotated)

        flit = self.o.payload
        with m.If(task.to_memory):
            write = flit.fields.write
            words = [
                Mux(
                    k < skew,
                    held.word_select(k, QUARTER_BITS),
                    rotated.word_select(k, QUARTER_BITS),
                )
                for k in range(QUARTERS_PER_WORD)
            ]
            position = [Cat(Const(k, 2), column) for k in range(QUARTERS_PER_WORD)]
            m.d.comb += [
                flit.kind.eq(Kind.WRITE),
                flit.word.raw.eq(Cat(*words)),
                write.address.eq(place + column),
                write.mask.eq(Cat((p >= skew) & (p < skew + quarters) for p in position)),
                write.ack.eq(final),
                write.tag.eq(Cat(task.low, Const(self._engine, TAG_BITS - 1))),
                write.pc.eq(task.pc),
            ]
        with m.Else():
            fields, landing = flit.fields.data, flit.fields.data.landing
            below = row < task.data_rows
            elements = [
                Mux(
                    below & (Cat(Const(n, 4), column) < task.data_halves),
                    self.word.payload.word_select(n, 16),
                    0,
                )
                for n in range(16)
            ]
            m.d.comb += [
                flit.kind.eq(Kind.DATA),
                flit.dest.eq(task.nodes),
                flit.word.raw.eq(Cat(*elements)),
                landing.buffer.eq(task.buffer),
                landing.residual.eq(task.residual),
                landing.stride.eq(task.stride),
                landing.form.eq(Mux(is_rows, Form.ROWS, Form.LINEAR)),
                landing.offset.eq(place + Mux(is_rows, column >> 1, column)),
                landing.detail.eq(Mux(is_rows, Cat(row[:2], column[0]), 0)),
                fields.last_element.eq(15),
                fields.first.eq((row == 0) & (column == 0)),
                fields.row_last.eq(row_done),
                fields.last.eq(final),
                fields.ack.eq(final),
                fields.requester.eq(self._node),
                fields.tag.eq(Cat(task.low, Const(self._engine, TAG_BITS - 1))),
            ]
        return m
