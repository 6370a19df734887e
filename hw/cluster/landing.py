"""Landing: DATA and CLEAR become entries of L1A and L1B.

A word is taken piece by piece, as `hw.cluster.block` says. Words of FP16 pass through the
quantiser, the rest is written as it is. What one source sends lands in the order it was sent, so
that an ACK speaks for all before it; between sources there is no order. Nothing here waits for
anything to be sent.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.arithmetic.quantiser import Quantiser
from hw.cluster.block import (
    POSITION_BITS,
    Block,
    Target,
    number_bits,
    piece_bits,
    piece_number,
)
from hw.cluster.columns import ColumnTurn
from hw.cluster.direct import DirectWriter
from hw.cluster.entries import entry_write
from hw.cluster.rows import RowAssembly
from hw.common.interfaces import Landed
from hw.common.resting import resting
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
        flit = self.i.payload
        form = flit.fields.data.landing.form
        is_direct = (flit.kind == Kind.CLEAR) | (form == Form.ELEMENTS) | (form == Form.SCALES)
        is_columns = ~is_direct & (form == Form.COLUMNS)
        is_rows = ~is_direct & ~is_columns

        closed, closer = Signal(), Signal.like(flit.source)
        opens = (is_rows & rows.starts) | (is_columns & flit.fields.data.last)
        any_underway = self._count(m, self.i.valid & self.i.ready & opens, closed, closer)
        position = Signal(POSITION_BITS)
        piece = Signal(piece_bits(k))
        number = piece_number(k, position)
        m.d.comb += piece.eq(flit.word.raw.word_select(number, len(piece)))
        # To rows, columns, direct: nothing of its source is in another's hands.
        goes = Cat(
            is_rows & ~columns.pending.bit_select(flit.source, 1),
            is_columns,
            is_direct & ~any_underway,
        )
        parts = (rows.blocks, columns.blocks, direct)
        for allowed, part in zip(goes, parts, strict=True):
            m.d.comb += [
                part.i.valid.eq(self.i.valid & allowed),
                part.i.payload.eq(flit),
                part.position.eq(position),
                part.piece.eq(piece),
            ]
        moves, last_piece = Signal(), number.all() if len(number) else Const(1)
        with m.If(is_direct):
            m.d.comb += [moves.eq(direct.moves), self.i.ready.eq(goes[2] & direct.i.ready)]
        with m.Else():
            takes = (goes[:2] & Cat(rows.blocks.i.ready, columns.blocks.i.ready)).any()
            m.d.comb += [moves.eq(self.i.valid & takes), self.i.ready.eq(takes & last_piece)]
        is_scales = is_direct & (flit.kind == Kind.DATA) & (form == Form.SCALES)
        with m.If(moves):
            m.d.sync += position.eq(position + Mux(is_scales, 1, k // 4))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += position.eq(0)

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
                write.position.eq(quantiser.o_number << (POSITION_BITS - len(number))),
                write.elements.eq(lane),
                write.scales.eq(lane),
                write.piece.eq(quantiser.elements),
                write.scale.eq(quantiser.scale.replicate(LANES)),
                self.landed.valid.eq(ends & target.ack),
                self.landed.requester.eq(target.requester),
                self.landed.tag.eq(target.tag),
            ]
        return m

    def _count(self, m: Module, opens: Signal, closed: Signal, closer: Signal) -> Signal:
        """Return whether anything of the offered flit's source is on its way to the quantiser."""
        source = self.i.payload.source
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
