"""The semaphores of a unit: one post or one pair of waits a cycle.

Posts go first, so that whoever posts never waits; takers have their turns, whether they ask or not.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import NODE_BITS, PC_BITS, SEMAPHORE_BITS
from kohakutpu.config import SEMAPHORE_MAX, SEMAPHORES

COUNT_BITS = 4  # of a wait

Wait = data.StructLayout({"valid": 1, "semaphore": SEMAPHORE_BITS, "count": COUNT_BITS})
Waits = data.ArrayLayout(Wait, 2)
Post = data.StructLayout({"valid": 1, "node": NODE_BITS, "semaphore": SEMAPHORE_BITS})
Posts = data.ArrayLayout(Post, 2)
Arrival = data.StructLayout({"semaphore": SEMAPHORE_BITS, "node": NODE_BITS, "pc": PC_BITS})
"""A post that has come to its unit: from the instruction at `pc` of `node`."""


class Semaphores(wiring.Component):
    """The semaphores.

    Parameters
    ----------
    takers : int
        Who waits: the front end and the engines.

    Members
    -------
    post : In(stream of Arrival)
        Add one; always ready.
    take : In(1), one for each taker
        Asks until granted.
    waits : In(Waits), one for each taker
        What for, the same until granted.
    granted : Out(1), one for each taker
        Both held, and both are subtracted at the end of this cycle.
    overflow : Out(1)
        A post found 255.
    nonzero : Out(1)
        Some semaphore is not zero.
    """

    def __init__(self, takers: int) -> None:
        self._takers = takers
        super().__init__(
            {
                "post": In(stream.Signature(Arrival)),
                "take": In(1).array(takers),
                "waits": In(Waits).array(takers),
                "granted": Out(1).array(takers),
                "overflow": Out(1),
                "nonzero": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Read two, change two."""
        m = Module()
        bits = SEMAPHORE_MAX.bit_length()
        m.d.comb += self.post.ready.eq(1)
        semaphores = Array(Signal(bits, name=f"semaphore_{i}") for i in range(SEMAPHORES))
        turn = Signal(range(self._takers))
        m.d.sync += turn.eq(Mux(turn == self._takers - 1, 0, turn + 1))
        waits = Signal(Waits)
        m.d.comb += waits.eq(Array(self.waits)[turn])
        first = Mux(self.post.valid, self.post.payload.semaphore, waits[0].semaphore)
        held = [semaphores[first], semaphores[waits[1].semaphore]]
        enough = reduce(
            lambda all_, one: all_ & one,
            [~wait.valid | (value >= wait.count) for wait, value in zip(waits, held, strict=True)],
        )
        takes = Signal()
        m.d.comb += takes.eq(Array(self.take)[turn] & enough & ~self.post.valid)
        for index in range(self._takers):
            m.d.comb += self.granted[index].eq(takes & (turn == index))
        with m.If(self.post.valid):
            m.d.comb += self.overflow.eq(held[0] == SEMAPHORE_MAX)
            with m.If(~self.overflow):
                m.d.sync += semaphores[first].eq(held[0] + 1)
        with m.Elif(takes):
            for wait, value in zip(waits, held, strict=True):
                with m.If(wait.valid):
                    m.d.sync += semaphores[wait.semaphore].eq(value - wait.count)
        m.d.comb += self.nonzero.eq(reduce(or_, (s.any() for s in semaphores)))
        return m
