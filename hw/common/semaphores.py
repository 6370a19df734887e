"""The semaphores of a unit: words of a LUT RAM with one change a cycle.

Posts go first, and wait only while the second of two waits is subtracted; takers have their turns,
whether they ask or not.
"""

from functools import reduce
from operator import and_

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
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
        Add one. Ready but for the cycle after a pair of waits was found to hold, and a few dozen
        cycles after a reset.
    take : In(1), one for each taker
        Asks until granted.
    waits : In(Waits), one for each taker
        What for, the same until granted.
    granted : Out(1), one for each taker
        Both held, and both are subtracted when this cycle ends.
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
        """Read two; change one, and then the other."""
        m = Module()
        bits = SEMAPHORE_MAX.bit_length()
        m.submodules.semaphores = semaphores = Memory(shape=bits, depth=SEMAPHORES, init=[])
        write = semaphores.write_port()
        reads = [semaphores.read_port(domain="comb") for _ in range(2)]
        # LUT RAM, which no reset reaches: zeroed word by word.
        zeroed = Signal(range(SEMAPHORES + 1))
        usable = zeroed == SEMAPHORES
        turn = Signal(range(self._takers))
        second = Signal()  # what is left to do of a pair of waits
        waits, asks = Signal(Waits), Signal()
        m.d.comb += [
            waits.eq(Array(self.waits)[turn]),
            asks.eq(Array(self.take)[turn]),
            self.post.ready.eq(usable & ~second),
        ]
        posts = self.post.valid & self.post.ready
        m.d.comb += [
            reads[0].addr.eq(Mux(posts, self.post.payload.semaphore, waits[0].semaphore)),
            reads[1].addr.eq(waits[1].semaphore),
        ]
        enough = reduce(
            and_,
            [~w.valid | (read.data >= w.count) for w, read in zip(waits, reads, strict=True)],
        )
        takes, grants = Signal(), Signal()
        m.d.comb += [
            takes.eq(asks & enough & self.post.ready & ~posts),
            grants.eq((takes & ~waits[1].valid) | second),
            self.overflow.eq(posts & (reads[0].data == SEMAPHORE_MAX)),
        ]
        for index in range(self._takers):
            m.d.comb += self.granted[index].eq(grants & (turn == index))
        m.d.sync += second.eq(takes & waits[1].valid)
        with m.If(~takes | ~waits[1].valid):
            m.d.sync += turn.eq(Mux(turn == self._takers - 1, 0, turn + 1))

        before = Mux(second, reads[1].data, reads[0].data)
        change = Mux(posts, 1, -Mux(second, waits[1].count, waits[0].count))
        after, changes = Signal(bits), Signal()
        held = Signal(range(SEMAPHORES + 1))  # semaphores that are not zero
        m.d.comb += [
            after.eq(before + change),
            changes.eq((posts & ~self.overflow) | (takes & waits[0].valid) | second),
            write.en.eq(changes | ~usable),
            write.addr.eq(Mux(second, waits[1].semaphore, reads[0].addr)),
            write.data.eq(after),
            self.nonzero.eq(held != 0),
        ]
        with m.If(~usable):
            m.d.comb += [write.addr.eq(zeroed), write.data.eq(0)]
            m.d.sync += zeroed.eq(zeroed + 1)
        with m.If(changes):
            m.d.sync += held.eq(held + (posts & (before == 0)) - (~posts & (after == 0)))
        return m
