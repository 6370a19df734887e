"""Landing: DATA and CLEAR become entries of L1A and L1B.

Words of FP16 pass through the quantiser, the rest is written as it is. What one source sends lands
in the order it was sent, so that an ACK speaks for all before it; between sources there is no
order. Nothing here waits for anything to be sent.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.arithmetic.quantiser import Quantiser
from hw.cluster.block import HalfBlock, Target
from hw.cluster.columns import ColumnTurn
from hw.cluster.direct import DirectWriter
from hw.cluster.entries import EntryWrite
from hw.cluster.rows import RowAssembly
from hw.common.interfaces import Landed
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
        Says which nodes may send.

    Members
    -------
    i : In(stream of Flit)
        DATA and CLEAR for L1A and L1B.
    in_b : Out(1)
        The write is for L1B, not L1A.
    write : Out(EntryWrite)
        What is written in this cycle.
    landed : Out(Landed)
        What is complete with that.
    """

    def __init__(self, machine: Machine) -> None:
        self._ports = [node.id for node in machine.of_kind("M")]
        self._sources = [node.id for node in machine.nodes if node.kind in "CVM"]
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "in_b": Out(1),
                "write": Out(EntryWrite),
                "landed": Out(Landed),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Sort by form, share the quantiser, write."""
        m = Module()
        m.submodules.rows = rows = RowAssembly()
        m.submodules.columns = columns = ColumnTurn(self._ports)
        m.submodules.direct = direct = DirectWriter(self._ports)
        flit = self.i.payload
        form = flit.fields.data.landing.form
        is_direct = (flit.kind == Kind.CLEAR) | (form == Form.ELEMENTS) | (form == Form.SCALES)
        is_columns = ~is_direct & (form == Form.COLUMNS)
        is_rows = ~is_direct & ~is_columns

        closed, closer = Signal(), Signal.like(flit.source)
        opens = (is_rows & rows.starts) | (is_columns & flit.fields.data.last)
        any_underway = self._count(m, self.i.valid & self.i.ready & opens, closed, closer)
        behind_direct = direct.busy & (direct.source == flit.source)
        goes = Signal(3)  # to rows, columns, direct: nothing of its source is in another's hands
        m.d.comb += goes.eq(
            Cat(
                is_rows & ~behind_direct & ~columns.pending.bit_select(flit.source, 1),
                is_columns & ~behind_direct,
                is_direct & ~any_underway,
            )
        )
        parts = (rows, columns, direct)
        for allowed, part in zip(goes, parts, strict=True):
            m.d.comb += [part.i.valid.eq(self.i.valid & allowed), part.i.payload.eq(flit)]
        m.d.comb += self.i.ready.eq((goes & Cat(part.i.ready for part in parts)).any())

        written, target = self._quantise(m, rows, columns)
        write, quantiser = self.write, m.submodules.quantiser
        m.d.comb += [
            direct.blocked.eq(written),
            self.in_b.eq(direct.in_b),
            self.write.eq(direct.write),
            self.landed.eq(direct.landed),
            closed.eq(written & target.closes),
            closer.eq(target.source),
        ]
        with m.If(written):
            lane = Const(1, LANES) << target.lane
            m.d.comb += [
                self.in_b.eq(target.in_b),
                write.entry.eq(target.entry),
                write.elements.eq(lane),
                write.scales.eq(lane),
                write.block.eq(quantiser.elements),
                write.scale.eq(quantiser.scale.replicate(LANES)),
                self.landed.valid.eq(target.ack),
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

    def _quantise(self, m: Module, rows: RowAssembly, columns: ColumnTurn) -> tuple[Signal, Target]:
        """Feed the quantiser block by block; return its strobe and where the block goes."""
        m.submodules.quantiser = quantiser = Quantiser()
        m.submodules.targets = targets = SyncFIFO(width=Target.as_shape().size, depth=IN_QUANTISER)
        within, owner = Signal(), Signal()  # between the words of a block, and whose it is
        takes_columns = Mux(within, owner, ~rows.o.valid)
        half = Signal(HalfBlock)
        valid = Signal()
        fed, there = Signal(HalfBlock), Signal()
        m.d.comb += [
            half.eq(Mux(takes_columns, columns.o.payload.as_value(), rows.o.payload.as_value())),
            valid.eq(Mux(takes_columns, columns.o.valid, rows.o.valid)),
            rows.o.ready.eq(~takes_columns),
            columns.o.ready.eq(takes_columns),
        ]
        with m.If(valid):
            m.d.sync += [within.eq(~half.second), owner.eq(takes_columns)]
        m.d.sync += [there.eq(valid), fed.eq(half)]
        target = Target(targets.r_data)
        m.d.comb += [
            quantiser.valid.eq(there),
            quantiser.word.as_value().eq(fed.word),
            quantiser.residual.eq(fed.residual),
            targets.w_en.eq(there & fed.second),
            targets.w_data.eq(fed.target),
            targets.r_en.eq(quantiser.o_valid),
        ]
        return quantiser.o_valid, target
