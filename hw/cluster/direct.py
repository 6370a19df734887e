"""What lands as it is: ELEMENTS, SCALES and CLEAR."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.cluster.entries import EntryWrite
from hw.common.interfaces import Landed
from hw.noc.flit import DETAIL_BITS, NODE_BITS, WORD_BITS, Buffer, Flit, Form, Kind
from kohakutpu.config import LANES
from kohakutpu.isa.operands import LOCAL_BITS

SCALE_BITS = 8 * LANES
PER_WORD = WORD_BITS // SCALE_BITS  # entries whose scales share a word


class DirectWriter(wiring.Component):
    """Write packed words and zeros: a lane, or the scales or zeros of an entry, a cycle.

    Parameters
    ----------
    sources : sequence of int
        Nodes that send SCALES: the memory ports.

    Members
    -------
    i : In(stream of Flit)
        CLEAR, and DATA of the forms ELEMENTS and SCALES.
    busy : Out(1)
        A flit is not wholly written.
    source : Out(4)
        Whose.
    blocked : In(1)
        Somebody else writes in this cycle.
    in_b : Out(1)
        Write to L1B, not L1A.
    write : Out(EntryWrite)
        What to write.
    landed : Out(Landed)
        What is complete with this write.
    """

    def __init__(self, sources: Sequence[int]) -> None:
        self._sources = tuple(sources)
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "busy": Out(1),
                "source": Out(NODE_BITS),
                "blocked": In(1),
                "in_b": Out(1),
                "write": Out(EntryWrite),
                "landed": Out(Landed),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Hold a flit, walk its entries."""
        m = Module()
        flit = Signal(Flit, reset_less=True)
        fields, landing = flit.fields.data, flit.fields.data.landing
        clear = flit.word.clear
        is_clear = flit.kind == Kind.CLEAR
        is_scales = ~is_clear & (landing.form == Form.SCALES)

        started = Signal()
        row, column = Signal(LOCAL_BITS), Signal(LOCAL_BITS)
        base = Signal(LOCAL_BITS)
        resumed_base, resumed_column = Signal(LOCAL_BITS), Signal(DETAIL_BITS)
        here_base, here_column = Signal(LOCAL_BITS), Signal(LOCAL_BITS)
        m.d.comb += [here_base.eq(base), here_column.eq(column)]
        with m.If(~started):
            m.d.comb += [here_base.eq(landing.offset), here_column.eq(0)]
            with m.If(is_scales & ~fields.first):
                m.d.comb += [here_base.eq(resumed_base), here_column.eq(resumed_column)]

        width = Signal(LOCAL_BITS)
        m.d.comb += width.eq(Mux(is_clear, clear.words, landing.detail))
        row_done = here_column + 1 == width
        index = Signal(range(PER_WORD))
        last_index = fields.last_element >> 1
        final = Signal()
        with m.If(is_clear):
            m.d.comb += final.eq(row_done & (row + 1 == clear.rows))
        with m.Elif(is_scales):
            m.d.comb += final.eq(index == last_index)
        with m.Else():
            m.d.comb += final.eq(1)
        following_base = here_base + Mux(row_done, landing.stride, 0)
        following_column = Mux(row_done, 0, here_column + 1)

        writes = self.busy & ~self.blocked
        finishes = writes & final
        lanes = Signal(LANES)
        m.d.comb += lanes.eq(Mux(is_clear, clear.lanes, Const(1, LANES) << landing.detail[:2]))
        write = self.write
        m.d.comb += [
            self.source.eq(flit.source),
            self.in_b.eq(landing.buffer == Buffer.L1B),
            write.entry.eq(here_base + here_column),
            write.elements.eq(Mux(writes & ~is_scales, lanes, 0)),
            write.block.eq(Mux(is_clear, 0, flit.word.raw)),
            write.scale.eq(Mux(is_clear, 0, flit.word.raw.word_select(index, SCALE_BITS))),
            self.landed.valid.eq(finishes & fields.ack),
            self.landed.requester.eq(fields.requester),
            self.landed.tag.eq(fields.tag),
            self.i.ready.eq(~self.busy | finishes),
        ]
        with m.If(writes & is_clear):
            m.d.comb += write.scales.eq(lanes)
        with m.Elif(writes & is_scales):
            m.d.comb += write.scales.eq(Const(1, 1).replicate(LANES))
        with m.If(writes):
            m.d.sync += [
                started.eq(1),
                base.eq(following_base),
                column.eq(following_column),
                index.eq(index + 1),
                row.eq(row + row_done),
            ]
        with m.If(finishes):
            m.d.sync += [started.eq(0), index.eq(0), row.eq(0)]
        with m.If(self.i.ready):
            m.d.sync += [self.busy.eq(self.i.valid), flit.eq(self.i.payload)]
        for node in self._sources:
            kept_base = Signal(LOCAL_BITS, name=f"base_{node}")
            kept_column = Signal(DETAIL_BITS, name=f"column_{node}")
            with m.If(flit.source == node):
                m.d.comb += [resumed_base.eq(kept_base), resumed_column.eq(kept_column)]
                with m.If(finishes & is_scales):
                    m.d.sync += [kept_base.eq(following_base), kept_column.eq(following_column)]
        return m
