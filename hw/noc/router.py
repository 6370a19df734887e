"""A router for packets of one flit, with multicast.

**Rules.** XY order: along the row first, then along the column. A flit is for a set of nodes. Each
output has a constant set of nodes that lie behind it; a copy leaves by every output whose set meets
the flit's, for the intersection alone. The sets of the outputs are disjoint, so each node of a
flit's set gets exactly one copy. Copies of one flit may leave in different cycles; the flit leaves
its input when all of them have. The next flit of that input waits until then, so what one node
sends to another arrives in order. Each output serves its inputs round robin. One flit a cycle a
link, one cycle a hop while nobody else wants the output.

**Readiness.** An input from a link holds one flit and takes the next in the cycle in which that one
leaves. So whether it is ready follows in the same cycle from whether outputs are, router by router
against the direction of the paths. Between mesh and node there are two places each way, and no
readiness passes: what a node does with it costs the mesh no time, nor the other way.

**No deadlock.** Give every link a number so that each step of an XY path goes to a larger one: the
links that go east by column, those that go west by reversed column, then those that go south by
row and north by reversed row, last the links out of the mesh. A flit waits only for places behind
outputs it still has to leave by, all of larger number than the link it arrived by: multicast does
not change that, because each copy follows an XY path. It holds nothing but its own place: packets
are one flit, so a copy that has left is a packet of its own, and no output is ever reserved for a
flit that also waits for another one. Suppose that nothing moves any more, and look at the waiting
flit on the link of the largest number. All that it waits for is free or leaves the mesh, the
arbiters give it its turn, and it moves: a contradiction as long as nodes take what reaches them.
Nodes do:

* a memory port has room for every READ that its requesters have credits for (`READ_CREDITS`), and
  for every acknowledgement they may wait for (`ACKED_WRITES`); it asks memory only for what it can
  buffer, so it takes WRITEs at the pace of memory whether or not it can send;
* a unit lands DATA, POST, ACK, CREDIT and KICK without having to send first; acknowledgements
  that it owes are bits it can always set.

So *taking a flit never depends on sending one*, at any node; the mesh needs no virtual channels.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Shape, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.arbiter import RoundRobin
from hw.noc.buffer import ElasticBuffer, join
from hw.noc.flit import Flit
from hw.noc.inlet import Inlet
from hw.noc.routes import Direction
from kohakutpu.config import MAX_NODES

WIDTH = Shape.cast(Flit).width


class Router(wiring.Component):
    """One router. Inputs are registered, the local output is too.

    Parameters
    ----------
    behind : mapping of Direction to int
        The ports there are, and the set of nodes behind each; `routes.behind` makes it.
    returns : bool
        The own node may send to itself.

    Members
    -------
    i_north, i_east, i_south, i_west, i_local : In(stream of Flit)
        From the neighbours and from the node; only those in `behind`.
    o_north, o_east, o_south, o_west, o_local : Out(stream of Flit)
        To them.

    Raises
    ------
    ValueError
        If a node lies behind two ports.
    """

    def __init__(self, behind: Mapping[Direction, int], returns: bool = True) -> None:
        seen = 0
        for direction, nodes in behind.items():
            if seen & nodes:
                raise ValueError(f"nodes {seen & nodes:#x} lie behind {direction.value} and others")
            seen |= nodes
        self.behind = dict(behind)
        self._returns = returns
        signature = stream.Signature(Flit)
        super().__init__(
            {f"i_{port.value}": In(signature) for port in behind}
            | {f"o_{port.value}": Out(signature) for port in behind}
        )

    def elaborate(self, platform: object) -> Module:
        """Offer what each input holds to its outputs, until all of them have taken a copy."""
        m = Module()
        ports = list(self.behind)
        heads, wants, takes = {}, {}, {}  # by input, then output
        for port in ports:
            outputs = [out for out in ports if self._leads(port, out)]
            behind = [self.behind[out] for out in outputs]
            m.submodules[f"input_{port.value}"] = inlet = Inlet(behind, port is Direction.LOCAL)
            wiring.connect(m, wiring.flipped(getattr(self, f"i_{port.value}")), inlet.i)
            heads[port] = inlet.flit
            wants[port] = dict(zip(outputs, inlet.left, strict=True))
            takes[port] = dict(zip(outputs, inlet.leaves, strict=True))
        for out in ports:
            inputs = [port for port in ports if out in wants[port]]
            if not inputs:
                continue
            o = getattr(self, f"o_{out.value}")
            if out is Direction.LOCAL:
                m.submodules.output = buffer = ElasticBuffer(WIDTH)
                join(m, buffer.o, o)
                o = buffer.i
            m.submodules[f"arbiter_{out.value}"] = arbiter = RoundRobin(len(inputs))
            # Of no importance while nobody is granted, so the last one needs no grant.
            *others, chosen = [heads[port].as_value() for port in inputs]
            for grant, head in zip(reversed(arbiter.grant[:-1]), reversed(others), strict=True):
                chosen = Mux(grant, head, chosen)
            flit = Flit(chosen)
            rest = flit.as_value()[MAX_NODES:]
            m.d.comb += [
                arbiter.requests.eq(Cat(wants[port][out] for port in inputs)),
                o.valid.eq(arbiter.requests.any()),
                Value.cast(o.payload).eq(Cat(flit.dest & self.behind[out], rest)),
                arbiter.taken.eq(o.valid & o.ready),
            ]
            for index, port in enumerate(inputs):
                m.d.comb += takes[port][out].eq(arbiter.grant[index] & o.ready)
        return m

    def _leads(self, port: Direction, out: Direction) -> bool:
        """Tell whether flits from an input may leave by an output."""
        if port is out and not self._returns:
            return False
        return port in out.sources and bool(self.behind[out])
