"""The two walks over a descriptor: what to ask memory for, and where the answer lands."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.request import Request, Row, Span
from hw.noc.flit import Form
from kohakutpu.config import ADDRESS_BITS, QUARTERS_PER_WORD


class SpanWalker(wiring.Component):
    """Turn a request into the words of memory that each of its rows touches, a row a cycle.

    The first row that leaves memory is a `Span` with ``fault``, and the last of its request.

    Parameters
    ----------
    memory_words : int
        Where memory ends.

    Members
    -------
    i : In(stream of Request)
        At least one row of at least one element.
    o : Out(stream of Span)
        Its rows.
    """

    def __init__(self, memory_words: int) -> None:
        self._memory_words = memory_words
        super().__init__({"i": In(stream.Signature(Request)), "o": Out(stream.Signature(Span))})

    def elaborate(self, platform: object) -> Module:
        """Keep the position of the next row; a request may follow the last without a gap."""
        m = Module()
        walking = Signal()
        # A row that starts inside memory, plus the largest stride, fits one bit more.
        quarter = Signal(ADDRESS_BITS + 1)
        read = Signal(Request)
        rows = Signal.like(self.i.payload.read.rows)
        quarters = (read.read.elements + 3) >> 2
        span = self.o.payload
        words = (quarter[:2] + quarters + (QUARTERS_PER_WORD - 1)) >> 2
        # Of the row, counted from its first: where memory is a power of two, no comparison is left.
        last_word = (quarter[:2] + (quarters - 1)[: len(quarters)]) >> 2
        last = span.fault | (rows == 1)
        m.d.comb += [
            span.word.eq(quarter >> 2),
            span.words.eq(words),
            span.fault.eq((quarter >> 2) + last_word >= self._memory_words),
            self.o.valid.eq(walking),
            self.i.ready.eq(~walking | (self.o.ready & last)),
        ]
        with m.If(self.o.ready):
            m.d.sync += [
                quarter.eq(quarter + (read.read.stride << 2)),
                rows.eq(rows - 1),
            ]
        with m.If(self.i.ready):
            m.d.sync += [
                walking.eq(self.i.valid),
                read.eq(self.i.payload),
                quarter.eq(self.i.payload.read.address),
                rows.eq(self.i.payload.read.rows),
            ]
        return m


class RowWalker(wiring.Component):
    """Turn the same request into rows to answer: where the first word of each one lands.

    Members
    -------
    i : In(stream of Request)
        Taken with its last row, or when `drop` ends it.
    o : Out(stream of Row)
        Its rows.
    drop : In(1)
        With the transfer of a row: no other one of the request follows.
    """

    def __init__(self) -> None:
        super().__init__(
            {"i": In(stream.Signature(Request)), "o": Out(stream.Signature(Row)), "drop": In(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """Count rows; offsets grow as the form says."""
        m = Module()
        read, row = self.i.payload.read, self.o.payload
        started = Signal()
        number = Signal.like(read.rows)
        offset = Signal.like(read.landing.offset)
        here = Signal.like(offset)
        grows = Signal()
        m.d.comb += here.eq(Mux(started, offset, read.landing.offset))
        with m.Switch(read.landing.form):
            with m.Case(Form.LINEAR, Form.ELEMENTS):
                m.d.comb += grows.eq(1)
            with m.Case(Form.ROWS):
                m.d.comb += grows.eq(number[:2] == 3)
        m.d.comb += [
            row.skew.eq(read.address[:2]),
            row.elements.eq(read.elements),
            row.landing.eq(read.landing),
            row.landing.offset.eq(here),
            row.first.eq(~started),
            row.last.eq(number + 1 == read.rows),
            row.nodes.eq(read.nodes),
            row.ack.eq(read.ack),
            row.tag.eq(read.tag),
            row.pc.eq(read.pc),
            row.requester.eq(self.i.payload.requester),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & (row.last | self.drop)),
        ]
        with m.Switch(read.landing.form):
            with m.Case(Form.ROWS):
                m.d.comb += row.landing.detail.eq(number[:2])
            with m.Case(Form.COLUMNS):
                m.d.comb += row.landing.detail.eq(number[:5])
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                started.eq(1),
                number.eq(number + 1),
                offset.eq(here + Mux(grows, read.landing.stride, 0)),
            ]
            with m.If(self.i.ready):
                m.d.sync += [started.eq(0), number.eq(0)]
        return m
