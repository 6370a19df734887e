"""ROWS: the two words of a block find each other, whatever comes between them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.cluster.block import HalfBlock, Target
from hw.noc.flit import WORD_BITS, Buffer, Flit
from kohakutpu.config import LANES, MAX_NODES


class RowAssembly(wiring.Component):
    """Pair first and second halves.

    A first half waits in a place of its source and lane: streams of several sources interleave
    word by word, and a DRAIN sends the rows of a group side by side. A first half that ends its
    row is completed with zeros.

    Members
    -------
    i : In(stream of Flit)
        DATA of form ROWS.
    starts : Out(1)
        The flit offered completes a block.
    o : Out(stream of HalfBlock)
        Blocks, two words each.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "starts": Out(1),
                "o": Out(stream.Signature(HalfBlock)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep first halves in memory; send two words for each second half."""
        m = Module()
        m.submodules.held = held = Memory(shape=WORD_BITS, depth=LANES * MAX_NODES, init=[])
        into, out = held.write_port(), held.read_port()
        flit, fields = self.i.payload, self.i.payload.fields.data
        detail = fields.landing.detail
        half, lane = detail[2], detail[:2]
        place = Cat(lane, flit.source)

        valid, second = Signal(), Signal()
        word, alone, residual = Signal(WORD_BITS, reset_less=True), Signal(), Signal()
        target = Signal(Target)
        free = ~valid | (second & self.o.ready)
        takes = self.i.valid & self.starts & free
        m.d.comb += [
            self.starts.eq(half | fields.row_last),
            self.i.ready.eq(~self.starts | free),
            into.addr.eq(place),
            into.data.eq(flit.word.raw),
            into.en.eq(self.i.valid & ~self.starts),
            out.addr.eq(place),
            out.en.eq(takes),
            self.o.valid.eq(valid),
            self.o.payload.word.eq(Mux(second, Mux(alone, 0, word), Mux(alone, word, out.data))),
            self.o.payload.second.eq(second),
            self.o.payload.residual.eq(residual),
            self.o.payload.target.eq(target),
        ]
        with m.If(valid & self.o.ready):
            m.d.sync += second.eq(~second)
        with m.If(free):
            m.d.sync += valid.eq(takes)
        with m.If(takes):
            m.d.sync += [
                word.eq(flit.word.raw),
                alone.eq(~half),
                residual.eq(fields.landing.residual),
                target.in_b.eq(fields.landing.buffer == Buffer.L1B),
                target.entry.eq(fields.landing.offset),
                target.lane.eq(lane),
                target.source.eq(flit.source),
                target.closes.eq(1),
                target.ack.eq(fields.ack),
                target.requester.eq(fields.requester),
                target.tag.eq(fields.tag),
            ]
        return m
