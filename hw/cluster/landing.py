"""Landing: DATA and CLEAR become entries of L1A and L1B.

A word is taken piece by piece, as `hw.cluster.block` says. Words of FP16 pass through the
quantiser, the rest is written as it is. What one source sends lands in the order it was sent, so
that an ACK speaks for all before it; between sources there is no order. Nothing here waits for
anything to be sent.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.arithmetic.quantiser import Quantiser
from hw.cluster.block import (
    POSITION_BITS,
    Block,
    Target,
    is_last,
    number_bits,
    piece_number,
    word_piece,
)
from hw.cluster.columns import ColumnTurn
from hw.cluster.direct import DirectWriter
from hw.cluster.entries import entry_write
from hw.cluster.rows import RowAssembly
from hw.common.interfaces import Landed
from hw.common.resting import resting
from hw.noc.buffer import ElasticBuffer
from hw.noc.flit import Flit, Form, Kind
from kohakutpu.config import LANES, Machine

IN_QUANTISER = 16
"""Blocks that fit the quantiser at once, and a few."""

UNDERWAY_BITS = 5


class Landing(wiring.Component):
    """Where the words for a cluster end.

    Parameters
    ----------
    machine : Machine
        Says which nodes may send, and how much is taken a cycle: ``k_per_cycle``.

    Members
    -------
    i : In(stream of Flit)
        DATA and CLEAR for L1A and L1B.
    in_b : Out(1)
        The write is for L1B, not L1A.
    write : Out(entry_write(k_per_cycle))
        What is written in this cycle.
    landed : Out(Landed)
        What is complete with that.
    """

    def __init__(self, machine: Machine) -> None:
        self._k_per_cycle = machine.k_per_cycle
        self._ports = [node.id for node in machine.of_kind("M")]
        self._sources = [node.id for node in machine.nodes if node.kind in "CVM"]
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "in_b": Out(1),
                "write": Out(entry_write(machine.k_per_cycle)),
                "landed": Out(Landed),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Sort by form, share the quantiser, write."""
        m = Module()
        k = self._k_per_cycle
        m.submodules.rows = rows = RowAssembly(k)
        m.submodules.columns = columns = ColumnTurn(self._ports, k)
        m.submodules.direct = direct = DirectWriter(self._ports, k)
        m.submodules.offered = offered = ElasticBuffer(word_piece(k))
        self._cut(m, offered.i)
        part = offered.o.payload
        is_rows, is_columns, is_direct = part.way

        closed, closer = Signal(), Signal.like(part.source)
        moves = offered.o.valid & offered.o.ready & is_last(part.number)
        opens = (is_rows & rows.starts) | (is_columns & part.fields.last)
        any_underway = self._count(m, part.source, moves & opens, closed, closer)
        # To rows, columns, direct: nothing of its source is in another's hands.
        goes = (
            is_rows & ~columns.pending.bit_select(part.source, 1),
            is_columns,
            is_direct & ~any_underway,
        )
        sinks = (rows.blocks.i, columns.blocks.i, direct.i)
        for allowed, sink in zip(goes, sinks, strict=True):
            m.d.comb += [sink.valid.eq(offered.o.valid & allowed), sink.payload.eq(part)]
        readies = Cat(sink.ready for sink in sinks)
        m.d.comb += offered.o.ready.eq((Cat(goes) & readies).any())

        quantiser, target = self._quantise(m, platform, rows, columns)
        write, ends = self.write, quantiser.o_valid & quantiser.o_last
        m.d.comb += [
            direct.blocked.eq(quantiser.o_valid),
            self.in_b.eq(direct.in_b),
            self.write.eq(direct.write),
            self.landed.eq(direct.landed),
            closed.eq(ends & target.closes),
            closer.eq(target.source),
        ]
        with m.If(quantiser.o_valid):
            lane = Const(1, LANES) << target.lane
            m.d.comb += [
                self.in_b.eq(target.in_b),
                write.entry.eq(target.entry),
                write.position.eq(quantiser.o_number << (POSITION_BITS - len(part.number))),
                write.elements.eq(lane),
                write.scales.eq(lane),
                write.piece.eq(quantiser.elements),
                write.scale.eq(quantiser.scale.replicate(LANES)),
                self.landed.valid.eq(ends & target.ack),
                self.landed.requester.eq(target.requester),
                self.landed.tag.eq(target.tag),
            ]
        return m

    def _cut(self, m: Module, pieces: stream.Interface) -> None:
        """Offer the pieces of each word, one a cycle; a CLEAR is one, SCALES end with the last."""
        flit = self.i.payload
        fields = flit.fields.data
        number = Signal(number_bits(self._k_per_cycle) - 1)
        form, is_clear = fields.landing.form, flit.kind == Kind.CLEAR
        is_scales = ~is_clear & (form == Form.SCALES)
        is_direct = is_clear | is_scales | (form == Form.ELEMENTS)
        is_columns = ~is_direct & (form == Form.COLUMNS)
        last_scale = number == piece_number(self._k_per_cycle, fields.last_element >> 1)
        ends = is_clear | is_last(number) | (is_scales & last_scale)
        part = pieces.payload
        m.d.comb += [
            part.way.eq(Cat(~is_direct & ~is_columns, is_columns, is_direct)),
            part.source.eq(flit.source),
            part.fields.eq(fields),
            part.number.eq(number),
            part.bits.eq(flit.word.raw.word_select(number, len(part.bits))),
            part.is_clear.eq(is_clear),
            part.is_scales.eq(is_scales),
            part.one_row.eq(flit.word.clear.rows == 1),
            part.one_word.eq(flit.word.clear.words == 1),
            pieces.valid.eq(self.i.valid),
            self.i.ready.eq(pieces.ready & ends),
        ]
        with m.If(pieces.valid & pieces.ready):
            m.d.sync += number.eq(Mux(ends, 0, number + 1))

    def _count(
        self, m: Module, source: Value, opens: Value, closed: Value, closer: Value
    ) -> Signal:
        """Return whether anything of a source is on its way to the quantiser."""
        result = Signal()
        for node in self._sources:
            count = Signal(UNDERWAY_BITS, name=f"underway_{node}")
            up = opens & (source == node)
            down = closed & (closer == node)
            m.d.sync += count.eq(count + up - down)
            with m.If(source == node):
                m.d.comb += result.eq(count != 0)
        return result

    def _quantise(
        self, m: Module, platform: object, rows: RowAssembly, columns: ColumnTurn
    ) -> tuple[Quantiser, data.View]:
        """Feed the quantiser block by block; return it and where what it has belongs."""
        k = self._k_per_cycle
        quantiser = Quantiser(k // 2)
        m.submodules.quantiser = resting(m, platform, quantiser, "quantiser", quantiser.valid)
        m.submodules.targets = targets = SyncFIFO(width=Target.as_shape().size, depth=IN_QUANTISER)
        number = Signal(number_bits(k))
        owner, takes_columns = Signal(), Signal()  # of the last block, of this one
        blocks = (rows.blocks, columns.blocks)
        m.d.comb += takes_columns.eq(Mux(number == 0, ~rows.blocks.valid, owner))
        reads = Mux(takes_columns, columns.blocks.valid, rows.blocks.valid)
        block = Block(Mux(takes_columns, *(part.block.as_value() for part in reversed(blocks))))
        m.d.sync += [owner.eq(takes_columns), number.eq(number + reads)]
        for part, mine in zip(blocks, (~takes_columns, takes_columns), strict=True):
            m.d.comb += [part.read.eq(part.valid & mine), part.number.eq(number)]
        m.d.comb += [
            targets.w_en.eq(reads & number.all()),
            targets.w_data.eq(block.target),
        ]

        there, asked, residual = Signal(), Signal.like(number), Signal()
        m.d.sync += [
            Cat(there, asked, residual).eq(Cat(reads, number, block.residual)),
            Cat(quantiser.valid, quantiser.number, quantiser.residual).eq(
                Cat(there, asked, residual)
            ),
        ]
        kept = Mux(owner, *(part.kept for part in reversed(blocks)))
        piece = Mux(owner, *(part.o for part in reversed(blocks)))
        for n in range(k // 2):
            m.d.sync += quantiser.word[n].eq(Mux(kept[n], piece.word_select(n, 16), 0))
        m.d.comb += targets.r_en.eq(quantiser.o_valid & quantiser.o_last)
        return quantiser, Target(targets.r_data)
