"""Sending rows: words of a window become WRITEs to memory or DATA for the buffers of units."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import wire
from hw.common.window import SPAN_BITS
from hw.noc.flit import (
    ELEMENT_BITS,
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
        grows = ~goes_by_rows(task) | (row[:2] == 3)
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

        # To memory whole quarters go, to units what lies below the extents.
        edge = task.data_halves[ELEMENT_BITS:]
        full = task.to_memory | ((row < task.data_rows) & (column < edge))
        partly = (row < task.data_rows) & (column == edge)
        words = []
        for k in range(QUARTERS_PER_WORD):
            quarter = Mux(
                k < skew,
                held.word_select(k, QUARTER_BITS),
                rotated.word_select(k, QUARTER_BITS),
            )
            for n in range(QUARTERS_PER_WORD):
                keep = full | (partly & (task.data_halves[:ELEMENT_BITS] > 4 * k + n))
                words.append(Mux(wire(m, keep, "keep"), quarter.word_select(n, 16), 0))
        position = [Cat(Const(k, 2), column) for k in range(QUARTERS_PER_WORD)]
        mask = Cat((p >= skew) & (p < skew + quarters) for p in position)

        flit = self.o.payload
        m.d.comb += flit.word.raw.eq(Cat(*words))
        with m.If(task.to_memory):
            write_head(m, flit, task, self._engine, place + column, mask, final)
        with m.Else():
            fields = flit.fields.data
            m.d.comb += [
                fields.first.eq((row == 0) & (column == 0)),
                fields.row_last.eq(row_done),
                fields.requester.eq(self._node),
            ]
            data_head(m, flit, task, self._engine, place, row[:2], column, final)
        return m


def write_head(
    m: Module,
    flit: data.View,
    task: data.View,
    engine: int,
    address: Value,
    mask: Value,
    last: Value,
) -> None:
    """Fill in a WRITE, but for the word."""
    write = flit.fields.write
    m.d.comb += [
        flit.kind.eq(Kind.WRITE),
        write.address.eq(address),
        write.mask.eq(mask),
        write.ack.eq(last),
        write.tag.eq(Cat(task.low, Const(engine, TAG_BITS - 1))),
        write.pc.eq(task.pc),
    ]


def data_head(
    m: Module,
    flit: data.View,
    task: data.View,
    engine: int,
    place: Value,
    line: Value,
    column: Value,
    last: Value,
) -> None:
    """Fill in DATA, but for the word, who sends it, and where in the transfer it stands.

    Parameters
    ----------
    m : Module
        Where assignments go.
    flit, task : View
        A `Flit`, and `Rows`.
    engine : int
        For the tag.
    place, line, column : Value
        Where its row goes, that row's number in its group, and which word of the row it is.
    last : Value
        Whether it is the last of all.
    """
    fields, landing = flit.fields.data, flit.fields.data.landing
    is_rows = goes_by_rows(task)
    m.d.comb += [
        flit.kind.eq(Kind.DATA),
        flit.dest.eq(task.nodes),
        landing.buffer.eq(task.buffer),
        landing.residual.eq(task.residual),
        landing.stride.eq(task.stride),
        landing.form.eq(Mux(is_rows, Form.ROWS, Form.LINEAR)),
        landing.offset.eq(place + Mux(is_rows, column >> 1, column)),
        landing.detail.eq(Mux(is_rows, Cat(line, column[0]), 0)),
        fields.last_element.eq(15),
        fields.last.eq(last),
        fields.ack.eq(last),
        fields.tag.eq(Cat(task.low, Const(engine, TAG_BITS - 1))),
    ]


def goes_by_rows(task: data.View) -> Value:
    """Return whether `Rows` go to a cluster, four of them to a group of entries."""
    return ~task.to_memory & (task.buffer != Buffer.VECTOR)
