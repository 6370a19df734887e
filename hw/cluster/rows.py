"""ROWS: the two words of a block find each other, whatever comes between them."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out

from hw.cluster.block import Blocks, piece_bits, pieces
from hw.noc.flit import Buffer
from kohakutpu.config import LANES, MAX_NODES


class RowAssembly(wiring.Component):
    """Pair first and second halves.

    Words wait in a place of their source, lane and half: streams of several sources interleave
    word by word, and a DRAIN sends the rows of a group side by side. A first half that ends its
    row is completed with zeros.

    Parameters
    ----------
    k_per_cycle : int
        Elements of K a cycle.

    Members
    -------
    blocks : Out(Blocks)
        Takes DATA of form ROWS.
    starts : Out(1)
        The word offered completes a block.
    """

    def __init__(self, k_per_cycle: int) -> None:
        self._k_per_cycle = k_per_cycle
        super().__init__({"blocks": Out(Blocks(k_per_cycle)), "starts": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Write words as they come; read a block as soon as its second half begins to come."""
        m = Module()
        k, blocks = self._k_per_cycle, self.blocks
        # The word after a block takes the place of its first half: piece by piece behind those
        # that are read or, if a word is a single piece, just when it is read.
        at_once = pieces(k) == 1
        m.submodules.held = held = Memory(
            shape=piece_bits(k),
            depth=MAX_NODES * LANES * 2 * pieces(k),
            init=[],
            attrs={} if at_once else {"no_rw_check": 1},
        )
        into, out = held.write_port(), held.read_port()
        piece, fields = blocks.i.payload, blocks.i.payload.fields
        half, lane = fields.landing.detail[2], fields.landing.detail[:2]
        target = blocks.block.target
        alone, unread = Signal(), Signal()
        free = ~blocks.valid | (blocks.read & blocks.number.all())
        behind = ~unread | (blocks.read if at_once else 0)
        takes = blocks.i.valid & blocks.i.ready
        m.d.comb += [
            self.starts.eq(half | fields.row_last),
            blocks.i.ready.eq((piece.number != 0) | (behind & (free | ~self.starts))),
            into.addr.eq(Cat(piece.number, half, lane, piece.source)),
            into.data.eq(piece.bits),
            into.en.eq(takes),
            out.addr.eq(Cat(blocks.number, target.lane, target.source)),
            blocks.o.eq(out.data),
        ]
        missing = Signal()
        m.d.sync += missing.eq(alone & blocks.number[-1])
        m.d.comb += blocks.kept.eq((~missing).replicate(k // 2))
        with m.If(blocks.read):
            m.d.sync += unread.eq(0)
        with m.If(free):
            m.d.sync += blocks.valid.eq(0)
        with m.If(takes & self.starts & (piece.number == 0)):
            m.d.sync += [
                blocks.valid.eq(1),
                unread.eq(1),
                alone.eq(~half),
                blocks.block.residual.eq(fields.landing.residual),
                target.in_b.eq(fields.landing.buffer == Buffer.L1B),
                target.entry.eq(fields.landing.offset),
                target.lane.eq(lane),
                target.source.eq(piece.source),
                target.closes.eq(1),
                target.ack.eq(fields.ack),
                target.requester.eq(fields.requester),
                target.tag.eq(fields.tag),
            ]
        return m
