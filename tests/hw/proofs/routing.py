"""What must hold of a router."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Assert, Assume, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.noc.flit import NODE_BITS
from hw.noc.routes import Direction
from kohakutpu.config import MAX_NODES
from tests.hw.proofs.properties import WIDTH, in_order

PLACES = 4
"""The most there are from an input to an output: two for each of the own node's ports."""


class Delivered(wiring.Component):
    """What enters for a node leaves by the port it lies behind, once, in order, and before long.

    Any input and any node behind an output are watched, as a buffer between the two: flits of that
    input whose set has the node. Flits say where they entered. Whatever leaves by an output is for
    nodes behind it, and stays until it is taken.

    Parameters
    ----------
    router : Router
        A router.
    returns : bool
        As it was made.
    """

    def __init__(self, router: wiring.Component, returns: bool = True) -> None:
        self._router = router
        self._ports = list(router.behind)
        self._returns = returns
        count = len(self._ports)
        super().__init__(
            {
                "valid": In(count),
                "ready": In(count),
                "nodes": In(MAX_NODES).array(count),
                "payload": In(WIDTH).array(count),
                "mark": In(1),
                "port": In(range(count)),
                "node": In(NODE_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Send legal flits from everywhere, watch one way."""
        m = Module()
        m.submodules.router = router = self._router
        started, port, node = Signal(), Signal.like(self.port), Signal.like(self.node)
        m.d.sync += [started.eq(1), port.eq(self.port), node.eq(self.node)]
        m.d.comb += [
            Assume(self.port < len(self._ports)),
            Assume(~started | ((self.port == port) & (self.node == node))),
        ]
        enters, leaves = [], []
        chosen, found = Signal(WIDTH), Signal(WIDTH)
        m.d.comb += chosen.eq(Array(self.payload)[self.port])
        for index, name in enumerate(self._ports):
            enters.append(self._send(m, index, name))
            given = self._watch(m, index, name)
            leaves.append(given)
            o = getattr(router, f"o_{name.value}")
            with m.If(given):
                m.d.comb += found.eq(o.payload.word.raw)
        taken, given = Signal(), Signal()
        m.d.comb += [
            taken.eq(Array(enters)[self.port]),
            given.eq(reduce(or_, leaves)),
            Assert(sum(leaves) <= 1),
        ]
        marked = in_order(
            m, PLACES, taken=taken, entering=chosen, mark=self.mark, given=given, leaving=found
        )
        # Every other input may be served before it, and it may be the last one inside.
        patience = len(self._ports) + PLACES - 1
        waited = Signal(range(patience + 2))
        m.d.comb += Assert(waited <= patience)
        with m.If(marked & self.ready.all()):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        return m

    def _legal(self, port: Direction) -> int:
        """Return the nodes that flits from a port may be for."""
        return sum(
            nodes
            for out, nodes in self._router.behind.items()
            if port in out.sources and (self._returns or port is not out)
        )

    def _send(self, m: Module, index: int, name: Direction) -> Signal:
        """Offer flits to an input; return whether one for the node is taken."""
        i = getattr(self._router, f"i_{name.value}")
        nodes, enters = self.nodes[index], Signal(name=f"enters_{name.value}")
        m.d.comb += [
            Assume((nodes != 0) & (nodes & ~self._legal(name) == 0)),
            i.valid.eq(self.valid[index]),
            i.payload.dest.eq(nodes),
            i.payload.source.eq(index),
            i.payload.word.raw.eq(self.payload[index]),
            enters.eq(i.valid & i.ready & nodes.bit_select(self.node, 1)),
        ]
        return enters

    def _watch(self, m: Module, index: int, name: Direction) -> Signal:
        """Look at an output; return whether a flit of the input leaves for the node."""
        o = getattr(self._router, f"o_{name.value}")
        leaves = Signal(name=f"leaves_{name.value}")
        flit, waits = o.payload, Signal(name=f"waits_{name.value}")
        before = Signal.like(flit.as_value(), name=f"before_{name.value}")
        m.d.comb += [
            o.ready.eq(self.ready[index]),
            leaves.eq(
                o.valid & o.ready & (flit.source == self.port) & flit.dest.bit_select(self.node, 1)
            ),
            Assert(~o.valid | (flit.dest != 0)),
            Assert(~o.valid | (flit.dest & ~self._router.behind[name] == 0)),
        ]
        m.d.sync += [waits.eq(o.valid & ~o.ready), before.eq(flit.as_value())]
        m.d.comb += Assert(~waits | (o.valid & (flit.as_value() == before)))
        return leaves
