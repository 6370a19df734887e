"""What instructions post when they finish: to the unit's own semaphores, or as POST flits."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.queue import UNPOSTED
from hw.common.semaphores import Arrival
from hw.noc.arbiter import RoundRobin
from hw.noc.buffer import ElasticBuffer
from hw.noc.flit import NODE_BITS, PC_BITS, SEMAPHORE_BITS, Flit, Kind

OTHER = data.StructLayout({"to": NODE_BITS, "semaphore": SEMAPHORE_BITS, "pc": PC_BITS})
"""A post for another node."""


class Poster(wiring.Component):
    """Posts of several sources, one a cycle.

    Parameters
    ----------
    node : int
        The unit.
    sources : int
        The front end and the engines' queues.

    Members
    -------
    posting : In(1), one for each source
        It has posts, or an instruction that posts nothing, until `posted`.
    unposted : In(UNPOSTED), one for each source
        Which.
    posted : Out(1), one for each source
        All of it is sent, in this cycle.
    own : Out(stream of Arrival)
        To the unit's semaphores, a cycle later.
    o : Out(stream of Flit)
        To other nodes, a cycle later.
    idle : Out(1)
        None waits to be taken by either.
    """

    def __init__(self, node: int, sources: int) -> None:
        self._node, self._sources = node, sources
        super().__init__(
            {
                "posting": In(1).array(sources),
                "unposted": In(UNPOSTED).array(sources),
                "posted": Out(1).array(sources),
                "own": Out(stream.Signature(Arrival)),
                "idle": Out(1),
                "o": Out(stream.Signature(Flit)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Serve one source at a time, its first post and then its second."""
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(self._sources)
        chosen = Signal(UNPOSTED)
        for index in range(self._sources):
            m.d.comb += arbiter.requests[index].eq(self.posting[index])
            with m.If(arbiter.grant[index]):
                m.d.comb += chosen.eq(self.unposted[index])
            m.d.comb += self.posted[index].eq(arbiter.taken & arbiter.grant[index])
        second = Signal()
        post = Mux(second, chosen.posts[1].as_value(), chosen.posts[0].as_value())
        slot = Signal.like(chosen.posts[0])
        m.d.comb += slot.eq(post)
        asks = arbiter.grant.any() & slot.valid
        is_own = slot.node == self._node
        # Who posts, who waits and the mesh are far from each other.
        m.submodules.own_post = own = ElasticBuffer(Arrival)
        m.submodules.other_post = other = ElasticBuffer(OTHER)
        wiring.connect(m, own.o, wiring.flipped(self.own))
        leaving = other.o.payload
        sent = Mux(is_own, own.i.ready, other.i.ready) | ~slot.valid
        last = second | ~chosen.posts[1].valid
        m.d.comb += [
            own.i.valid.eq(asks & is_own),
            own.i.payload.semaphore.eq(slot.semaphore),
            own.i.payload.node.eq(self._node),
            own.i.payload.pc.eq(chosen.pc),
            other.i.valid.eq(asks & ~is_own),
            other.i.payload.to.eq(slot.node),
            other.i.payload.semaphore.eq(slot.semaphore),
            other.i.payload.pc.eq(chosen.pc),
            self.o.valid.eq(other.o.valid),
            other.o.ready.eq(self.o.ready),
            self.o.payload.dest.eq(1 << leaving.to),
            self.o.payload.kind.eq(Kind.POST),
            self.o.payload.fields.post.semaphore.eq(leaving.semaphore),
            self.o.payload.fields.post.pc.eq(leaving.pc),
            self.idle.eq(~own.o.valid & ~other.o.valid),
            arbiter.taken.eq(arbiter.grant.any() & sent & last),
        ]
        with m.If(arbiter.grant.any() & sent):
            m.d.sync += second.eq(~last)
        return m
