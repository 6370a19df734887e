"""Landing: DATA and CLEAR become words of L1, in the order of their arrival."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import Landed
from hw.noc.flit import LOCAL_BITS, NODE_BITS, ROW_BITS, TAG_BITS, WORD_BITS, Flit, Kind
from hw.vector.l1 import WritePort


class Landing(wiring.Component):
    """Write what comes, a word a cycle; a flit is acknowledged with its last word.

    Parameters
    ----------
    address_bits : int
        Of L1 words.

    Members
    -------
    i : In(stream of Flit)
        DATA with form LINEAR, CLEAR.
    write : Out(WritePort), seen from the L1
        Where it goes.
    landed : Out(Landed)
        The flit is written, with this clock edge.
    step : Out(1)
        A word is written.
    requester, tag : Out(4), Out(3)
        For whom.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "write": In(WritePort(address_bits)),
                "landed": Out(Landed),
                "step": Out(1),
                "requester": Out(NODE_BITS),
                "tag": Out(TAG_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Hold a flit; a CLEAR walks its rectangle."""
        m = Module()
        held = Signal()
        word = Signal(WORD_BITS, reset_less=True)  # of a CLEAR the zeros that it writes
        words = Signal(LOCAL_BITS, reset_less=True)
        fields = Signal.like(self.i.payload.fields.data, reset_less=True)
        row_base = Signal(LOCAL_BITS, reset_less=True)
        column = Signal(LOCAL_BITS)
        rows_left = Signal(ROW_BITS, reset_less=True)
        # Known a cycle ahead: whether the next flit is taken hangs on them.
        row_done, in_last_row = Signal(reset_less=True), Signal(reset_less=True)
        done = Signal()
        m.d.comb += [
            self.write.valid.eq(held),
            self.write.address.eq(row_base + column),
            self.write.word.eq(word),
            self.step.eq(self.write.granted),
            self.requester.eq(fields.requester),
            self.tag.eq(fields.tag),
            done.eq(self.write.granted & row_done & in_last_row),
            self.landed.valid.eq(done & fields.ack),
            self.landed.requester.eq(fields.requester),
            self.landed.tag.eq(fields.tag),
            self.i.ready.eq(~held | done),
        ]
        with m.If(self.write.granted):
            m.d.sync += [column.eq(column + 1), row_done.eq(column + 2 == words)]
            with m.If(row_done):
                m.d.sync += [
                    column.eq(0),
                    row_done.eq(words == 1),
                    in_last_row.eq(rows_left == 2),
                    row_base.eq(row_base + fields.landing.stride),
                    rows_left.eq(rows_left - 1),
                ]
        with m.If(self.i.ready):
            arriving = self.i.payload
            clears = arriving.kind == Kind.CLEAR
            m.d.sync += [
                held.eq(self.i.valid),
                row_done.eq(~clears | (arriving.word.clear.words == 1)),
                in_last_row.eq(~clears | (arriving.word.clear.rows == 1)),
                fields.eq(arriving.fields.data),
                word.eq(Mux(clears, 0, arriving.word.raw)),
                words.eq(arriving.word.clear.words),
                row_base.eq(arriving.fields.data.landing.offset),
                rows_left.eq(arriving.word.clear.rows),
            ]
        return m
