"""What instructions post when they finish: to the unit's own semaphores, or as POST flits."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.queue import UNPOSTED
from hw.common.semaphores import Arrival
from hw.noc.arbiter import RoundRobin
from hw.noc.buffer import ElasticBuffer
from hw.noc.flit import Flit, Kind


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
    arrived : Out(1)
        None is on its way to them.
    o : Out(stream of Flit)
        To other nodes.
    """

    def __init__(self, node: int, sources: int) -> None:
        self._node, self._sources = node, sources
        super().__init__(
            {
                "posting": In(1).array(sources),
                "unposted": In(UNPOSTED).array(sources),
                "posted": Out(1).array(sources),
                "own": Out(stream.Signature(Arrival)),
                "arrived": Out(1),
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
        # Who posts and who waits are far from each other.
        m.submodules.own_post = own = ElasticBuffer(Arrival)
        wiring.connect(m, own.o, wiring.flipped(self.own))
        sent = Mux(is_own, own.i.ready, self.o.ready) | ~slot.valid
        last = second | ~chosen.posts[1].valid
        m.d.comb += [
            own.i.valid.eq(asks & is_own),
            own.i.payload.semaphore.eq(slot.semaphore),
            own.i.payload.node.eq(self._node),
            own.i.payload.pc.eq(chosen.pc),
            self.arrived.eq(~own.o.valid),
            self.o.valid.eq(asks & ~is_own),
            self.o.payload.dest.eq(1 << slot.node),
            self.o.payload.kind.eq(Kind.POST),
            self.o.payload.fields.post.semaphore.eq(slot.semaphore),
            self.o.payload.fields.post.pc.eq(chosen.pc),
            arbiter.taken.eq(arbiter.grant.any() & sent & last),
        ]
        with m.If(arbiter.grant.any() & sent):
            m.d.sync += second.eq(~last)
        return m
