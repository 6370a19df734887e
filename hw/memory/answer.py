"""Answers: words of memory, rotated to their rows, masked, addressed, become DATA."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.request import SPAN_BITS, Beat, Blame, Row
from hw.noc.flit import ELEMENT_BITS, Flit, Form, Kind
from kohakutpu.config import QUARTERS_PER_WORD

ELEMENTS = 1 << ELEMENT_BITS
QUARTER_BITS = 64


class Answer(wiring.Component):
    """Make the DATA flits of row after row, one a cycle.

    A row that starts inside a word of memory needs one cycle more where it touches as many words
    of memory as it fills.

    Parameters
    ----------
    node : int
        The node that sends them.

    Members
    -------
    row : In(stream of Row)
        Rows in the order in which memory was asked for them.
    beat : In(stream of Beat)
        The words of memory.
    o : Out(stream of Flit)
        The answer. Words that memory failed to give are sent too, so that nobody waits.
    fault : Out(1)
        Memory failed to give a word, in this cycle.
    blame : Out(Blame)
        Whose.
    """

    def __init__(self, node: int) -> None:
        self._node = node
        super().__init__(
            {
                "row": In(stream.Signature(Row)),
                "beat": In(stream.Signature(Beat)),
                "o": Out(stream.Signature(Flit)),
                "fault": Out(1),
                "blame": Out(Blame),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Hold what the last word of memory has left over for the next flit."""
        m = Module()
        row = Signal(Row)
        active = Signal()
        left = Signal.like(row.elements)  # elements still to send
        coming = Signal(SPAN_BITS)  # words of memory still to take
        sent = Signal(SPAN_BITS)
        begun = Signal()  # a word of the row was taken
        straight = Signal()  # a flit needs one word of memory only

        final = left <= ELEMENTS
        sends = straight | begun
        done = Signal()
        word_there = (coming == 0) | self.beat.valid
        m.d.comb += [
            self.o.valid.eq(active & word_there & sends),
            self.beat.ready.eq(active & (coming != 0) & (~sends | self.o.ready)),
            done.eq(self.o.valid & self.o.ready & final),
            self.row.ready.eq(~active | done),
            self.fault.eq(self.beat.valid & self.beat.ready & self.beat.payload.error),
            self.blame.requester.eq(row.requester),
            self.blame.pc.eq(row.pc),
        ]

        # Quarter k of a flit is quarter k + skew of the row's memory.
        quarters = [self.beat.payload.word.word_select(k, QUARTER_BITS) for k in range(4)]
        rotated = Signal(QUARTERS_PER_WORD * QUARTER_BITS)
        held = Signal(256, reset_less=True)
        with m.Switch(row.skew):
            for skew in range(QUARTERS_PER_WORD):
                with m.Case(skew):
                    m.d.comb += rotated.eq(Cat(*quarters[skew:], *quarters[:skew]))
        with m.If(self.beat.valid & self.beat.ready):
            m.d.sync += [held.eq(rotated), begun.eq(1), coming.eq(coming - 1)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [left.eq(left - ELEMENTS), sent.eq(sent + 1)]
        word = []
        for k in range(QUARTERS_PER_WORD):
            kept = ~straight & (row.skew < QUARTERS_PER_WORD - k)
            source = Mux(kept, held, rotated).word_select(k, QUARTER_BITS)
            for element in range(4):
                is_data = left > 4 * k + element
                word.append(Mux(is_data, source.word_select(element, 16), 0))

        flit, fields = self.o.payload, self.o.payload.fields.data
        moved = Signal.like(fields.landing.offset)
        detail = Signal.like(fields.landing.detail)
        m.d.comb += detail.eq(row.landing.detail)
        with m.Switch(row.landing.form):
            with m.Case(Form.LINEAR):
                m.d.comb += moved.eq(sent)
            with m.Case(Form.ROWS):
                m.d.comb += [moved.eq(sent >> 1), detail.eq(row.landing.detail | sent[0] << 2)]
            with m.Case(Form.ELEMENTS):
                m.d.comb += [moved.eq(sent >> 2), detail.eq(sent[:2])]
        m.d.comb += [
            flit.dest.eq(row.nodes),
            flit.source.eq(self._node),
            flit.kind.eq(Kind.DATA),
            flit.word.raw.eq(Cat(*word)),
            fields.landing.eq(row.landing),
            fields.landing.offset.eq(row.landing.offset + moved),
            fields.landing.detail.eq(detail),
            fields.last_element.eq(Mux(final, left - 1, ELEMENTS - 1)),
            fields.first.eq(row.first & (sent == 0)),
            fields.row_last.eq(final),
            fields.last.eq(final & row.last),
            fields.ack.eq(final & row.last & row.ack),
            fields.requester.eq(row.requester),
            fields.tag.eq(row.tag),
        ]

        with m.If(self.row.ready):
            arriving = self.row.payload
            touched = (arriving.skew + ((arriving.elements + 3) >> 2) + 3) >> 2
            m.d.sync += [
                active.eq(self.row.valid),
                row.eq(arriving),
                left.eq(arriving.elements),
                coming.eq(touched),
                sent.eq(0),
                begun.eq(0),
                straight.eq((arriving.skew == 0) | (touched == 1)),
            ]
        return m
