"""What an input of a router holds, and where it still has to go."""

from collections.abc import Sequence

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import Flit


class Inlet(wiring.Component):
    """A flit, and the outputs by which a copy of it has not left yet.

    Which ones those are is decided when the flit comes, so that arbitration begins with a register.
    The next flit takes its place in the cycle in which the last copy leaves. Without `spare`,
    `i.ready` follows in that cycle from what leaves; with it there is a second place, and it does
    not.

    Parameters
    ----------
    behind : sequence of int
        The nodes behind each output.
    spare : bool
        Whether there is a second place.

    Members
    -------
    i : In(stream of Flit)
        What arrives, for a node behind some output at least.
    flit : Out(Flit)
        What is held.
    left : Out(outputs)
        Where copies of it have to leave; 0 if nothing is held.
    leaves : In(outputs)
        Those of `left` that do, in this cycle.
    """

    def __init__(self, behind: Sequence[int], spare: bool) -> None:
        self._behind, self._spare = tuple(behind), spare
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "flit": Out(Flit),
                "left": Out(len(self._behind)),
                "leaves": In(len(self._behind)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill the spare place only while the first one waits."""
        m = Module()
        # Plain bits: a structure would get debugging wires for all its fields, here in thousands.
        arriving = self.i.payload.as_value()
        head = Signal(len(arriving), reset_less=True)
        moves, remains = Signal(), Signal.like(self.left)
        following, there = arriving, self.i.valid
        if self._spare:
            spare = Signal(len(arriving), reset_less=True)
            spare_valid = Signal()
            following = Mux(spare_valid, spare, arriving)
            there = spare_valid | self.i.valid
            m.d.comb += self.i.ready.eq(~spare_valid)
            with m.If(moves):
                m.d.sync += spare_valid.eq(0)
            with m.Elif(self.i.valid & ~spare_valid):
                m.d.sync += [spare.eq(arriving), spare_valid.eq(1)]
        else:
            m.d.comb += self.i.ready.eq(moves)
        wanted = Cat((Flit(following).dest & nodes).any() for nodes in self._behind)
        m.d.comb += [
            remains.eq(self.left & ~self.leaves),
            moves.eq(remains == 0),
            self.flit.as_value().eq(head),
        ]
        m.d.sync += self.left.eq(Mux(moves, Mux(there, wanted, 0), remains))
        with m.If(moves):
            m.d.sync += head.eq(following)
            with m.If(there):
                m.d.sync += Assert(wanted.any(), "a flit for nobody")
        return m
