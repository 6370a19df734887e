"""What a unit sends: sources take turns, and READs go as their credits allow."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.arbiter import RoundRobin
from hw.noc.flit import READ_CREDITS, Flit, Kind
from hw.noc.routes import memory_of
from kohakutpu.config import Machine, Node


class Outbound(wiring.Component):
    """Merges the sources of a unit.

    Parameters
    ----------
    machine : Machine
        Says which memory port is the unit's.
    node : Node
        The unit.
    others : int
        Sources beside the fetcher.

    Members
    -------
    fetch : In(stream of Flit)
        READs of instructions, and nothing else.
    i_0, i_1, ... : In(stream of Flit)
        The others; their READs are of the other class.
    credit : In(1)
        A CREDIT has arrived.
    for_instruction : In(1)
        Of which class.
    o : Out(stream of Flit)
        To the mesh, with `source`, and `dest` of READ and WRITE.
    """

    def __init__(self, machine: Machine, node: Node, others: int) -> None:
        self._node, self._others = node, others
        self._home = memory_of(machine, node).id
        signature = stream.Signature(Flit)
        super().__init__(
            {
                "fetch": In(signature),
                "credit": In(1),
                "for_instruction": In(1),
                "o": Out(signature),
            }
            | {f"i_{index}": In(signature) for index in range(others)}
        )

    def elaborate(self, platform: object) -> Module:
        """Count credits of each class, and grant round robin."""
        m = Module()
        bulk, instruction = (
            Signal(range(READ_CREDITS + 1), init=READ_CREDITS, name=f"credits_{name}")
            for name in ("bulk", "instruction")
        )
        sources = [self.fetch, *(getattr(self, f"i_{index}") for index in range(self._others))]
        m.submodules.arbiter = arbiter = RoundRobin(len(sources))
        flits = []
        for index, source in enumerate(sources):
            flit = source.payload
            if source is self.fetch:
                allowed: Value = instruction != 0
            else:
                allowed = (flit.kind != Kind.READ) | (bulk != 0)
            m.d.comb += [
                arbiter.requests[index].eq(source.valid & allowed),
                source.ready.eq(arbiter.grant[index] & self.o.ready),
            ]
            flits.append(Mux(arbiter.grant[index], flit.as_value(), 0))
        chosen = Flit(reduce(or_, flits))
        is_read = chosen.kind == Kind.READ
        m.d.comb += [
            self.o.valid.eq(arbiter.requests.any()),
            self.o.payload.eq(chosen),
            self.o.payload.source.eq(self._node.id),
            arbiter.taken.eq(self.o.valid & self.o.ready),
        ]
        with m.If(is_read | (chosen.kind == Kind.WRITE)):
            m.d.comb += self.o.payload.dest.eq(1 << self._home)
        asks = arbiter.taken & is_read
        for_fetch = arbiter.grant[0]
        m.d.sync += [
            bulk.eq(bulk + (self.credit & ~self.for_instruction) - (asks & ~for_fetch)),
            instruction.eq(instruction + (self.credit & self.for_instruction) - (asks & for_fetch)),
        ]
        return m
