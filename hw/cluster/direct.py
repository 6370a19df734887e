"""What lands as it is: ELEMENTS, SCALES and CLEAR."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.cluster.block import POSITION_BITS, is_last, piece_number, word_piece
from hw.cluster.entries import entry_write
from hw.common.interfaces import Landed
from hw.noc.flit import DETAIL_BITS, Buffer, ClearWord
from kohakutpu.config import LANES
from kohakutpu.isa.operands import LOCAL_BITS

SCALE_BITS = 8 * LANES  # of an entry: a position


class DirectWriter(wiring.Component):
    """Write packed words and zeros: a piece of a lane or an entry, or scales, a cycle.

    Parameters
    ----------
    sources : sequence of int
        Nodes that send SCALES: the memory ports.
    k_per_cycle : int
        Elements of K a cycle.

    Members
    -------
    i : In(stream of word_piece)
        CLEAR, and DATA of the forms ELEMENTS and SCALES. Taken when it is wholly written.
    blocked : In(1)
        Somebody else writes in this cycle.
    in_b : Out(1)
        Write to L1B, not L1A.
    write : Out(entry_write(k_per_cycle))
        What to write.
    landed : Out(Landed)
        What is complete with this write.
    """

    def __init__(self, sources: Sequence[int], k_per_cycle: int) -> None:
        self._sources, self._k_per_cycle = tuple(sources), k_per_cycle
        super().__init__(
            {
                "i": In(stream.Signature(word_piece(k_per_cycle))),
                "blocked": In(1),
                "in_b": Out(1),
                "write": Out(entry_write(k_per_cycle)),
                "landed": Out(Landed),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk the entries of the piece that is offered."""
        m = Module()
        k, offered = self._k_per_cycle, self.i.payload
        fields, landing = offered.fields, offered.fields.landing
        is_clear, is_scales = offered.is_clear, offered.is_scales
        clear = ClearWord(offered.bits[: ClearWord.as_shape().size])
        # Of a CLEAR, that of the piece of zeros; otherwise that of what is written.
        inside = Signal(POSITION_BITS)
        number = Mux(is_clear, piece_number(k, inside), offered.number)
        within = POSITION_BITS - len(offered.number)  # bits of a place in a piece

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

        # Where in its rectangle a CLEAR is is known a cycle ahead: whether it is taken hangs on it.
        at_end, in_last_row = Signal(), Signal()
        clear_row_done, clear_last_row = Signal(), Signal()
        m.d.comb += [
            clear_row_done.eq(Mux(started, at_end, offered.one_word)),
            clear_last_row.eq(Mux(started, in_last_row, offered.one_row)),
        ]
        row_done = Mux(is_clear, clear_row_done, here_column + 1 == landing.detail)
        # A lane is complete; scales have an entry at each position.
        last_piece = is_last(number)
        last_scale = Cat(inside[:within], offered.number) == fields.last_element >> 1
        entry_done = is_scales | last_piece
        final, takes = Signal(), Signal()  # the flit ends, the piece ends
        with m.If(is_clear):
            m.d.comb += final.eq(last_piece & clear_row_done & clear_last_row)
            m.d.comb += takes.eq(final)
        with m.Elif(is_scales):
            m.d.comb += [final.eq(last_scale), takes.eq(last_scale | is_last(inside[:within]))]
        with m.Else():
            m.d.comb += [final.eq(last_piece), takes.eq(1)]
        following_base = here_base + Mux(row_done, landing.stride, 0)
        following_column = Mux(row_done, 0, here_column + 1)

        writes = self.i.valid & ~self.blocked
        finishes = writes & final
        lanes = Signal(LANES)
        m.d.comb += lanes.eq(Mux(is_clear, clear.lanes, Const(1, LANES) << landing.detail[:2]))
        write = self.write
        scale = offered.bits.word_select(inside[:within], SCALE_BITS)
        m.d.comb += [
            self.in_b.eq(landing.buffer == Buffer.L1B),
            write.entry.eq(here_base + here_column),
            write.position.eq(number << within),
            write.elements.eq(Mux(writes & ~is_scales, lanes, 0)),
            write.piece.eq(Mux(is_clear, 0, offered.bits)),
            write.scale.eq(Mux(is_clear, 0, scale)),
            self.landed.valid.eq(finishes & fields.ack),
            self.landed.requester.eq(fields.requester),
            self.landed.tag.eq(fields.tag),
            self.i.ready.eq(writes & takes),
        ]
        with m.If(self.i.ready):
            m.d.sync += inside.eq(0)
        with m.Elif(writes):
            m.d.sync += inside.eq(inside + Mux(is_scales, 1, k // 4))
        with m.If(writes & is_clear):
            m.d.comb += write.scales.eq(lanes)
        with m.Elif(writes & is_scales):
            m.d.comb += write.scales.eq(Const(1, 1).replicate(LANES))
        with m.If(writes & entry_done):
            m.d.sync += [
                started.eq(1),
                base.eq(following_base),
                column.eq(following_column),
                row.eq(row + row_done),
                at_end.eq(Mux(clear_row_done, offered.one_word, here_column + 2 == clear.words)),
                in_last_row.eq(Mux(clear_row_done, row + 2 == clear.rows, clear_last_row)),
            ]
        with m.If(finishes):
            m.d.sync += [started.eq(0), row.eq(0)]
        for node in self._sources:
            kept_base = Signal(LOCAL_BITS, name=f"base_{node}")
            kept_column = Signal(DETAIL_BITS, name=f"column_{node}")
            with m.If(offered.source == node):
                m.d.comb += [resumed_base.eq(kept_base), resumed_column.eq(kept_column)]
                with m.If(finishes & is_scales):
                    m.d.sync += [kept_base.eq(following_base), kept_column.eq(following_column)]
        return m
