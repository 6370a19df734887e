"""What a unit sends: sources take turns, and READs go as their credits allow."""

from collections.abc import Sequence, Set

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.arbiter import RoundRobin
from hw.noc.flit import READ_CREDITS, Flit, Kind
from hw.noc.routes import memory_of
from kohakutpu.config import Machine, Node

WITH_WORD = {Kind.READ, Kind.DATA, Kind.CLEAR, Kind.WRITE, Kind.REPORT}
WITH_FIELDS = {Kind.DATA, Kind.CLEAR, Kind.WRITE, Kind.POST, Kind.ACK, Kind.REPORT}


class Outbound(wiring.Component):
    """Merges the sources of a unit.

    Parameters
    ----------
    machine : Machine
        Says which memory port is the unit's.
    node : Node
        The unit.
    kinds : sequence of sets of Kind
        What each source sends, the fetcher first: its READs are of the class of instructions, those
        of the others are not. The last source pays least, so it is the one with most bits.

    Members
    -------
    i_0, i_1, ... : In(stream of Flit)
        The sources.
    credit : In(1)
        A CREDIT has arrived.
    for_instruction : In(1)
        Of which class.
    o : Out(stream of Flit)
        To the mesh, with `source`, and `dest` of READ and WRITE. What a flit of its kind does not
        have may be anything.
    """

    def __init__(self, machine: Machine, node: Node, kinds: Sequence[Set[Kind]]) -> None:
        self._node, self._kinds = node, kinds
        self._home = memory_of(machine, node).id
        signature = stream.Signature(Flit)
        super().__init__(
            {"credit": In(1), "for_instruction": In(1), "o": Out(signature)}
            | {f"i_{index}": In(signature) for index in range(len(kinds))}
        )

    def elaborate(self, platform: object) -> Module:
        """Count credits of each class, and grant round robin."""
        m = Module()
        bulk, instruction = (
            Signal(range(READ_CREDITS + 1), init=READ_CREDITS, name=f"credits_{name}")
            for name in ("bulk", "instruction")
        )
        sources = [getattr(self, f"i_{index}") for index in range(len(self._kinds))]
        flits = [source.payload for source in sources]
        m.submodules.arbiter = arbiter = RoundRobin(len(sources))
        for index, (source, kinds) in enumerate(zip(sources, self._kinds, strict=True)):
            allowed: Value = Const(1)
            if Kind.READ in kinds:
                allowed = (source.payload.kind != Kind.READ) | (
                    (bulk if index else instruction) != 0
                )
            m.d.comb += [
                arbiter.requests[index].eq(source.valid & allowed),
                source.ready.eq(arbiter.grant[index] & self.o.ready),
            ]

        def chosen(part: str, having: Set[Kind]) -> Value:
            """Choose among the sources that have a part; it is nothing in flits of the others."""
            parts = [
                (arbiter.grant[index], Value.cast(getattr(flits[index], part)))
                for index, kinds in enumerate(self._kinds)
                if kinds & having
            ]
            *first, (_, result) = parts
            for grant, value in reversed(first):
                result = Mux(grant, value, result)
            return result

        flit = self.o.payload
        everything = set(Kind)
        m.d.comb += [
            self.o.valid.eq(arbiter.requests.any()),
            flit.source.eq(self._node.id),
            flit.kind.eq(chosen("kind", everything)),
            flit.fields.raw.eq(chosen("fields", WITH_FIELDS)),
            flit.word.raw.eq(chosen("word", WITH_WORD)),
            arbiter.taken.eq(self.o.valid & self.o.ready),
        ]
        is_read = flit.kind == Kind.READ
        with m.If(is_read | (flit.kind == Kind.WRITE)):
            m.d.comb += flit.dest.eq(1 << self._home)
        with m.Else():
            m.d.comb += flit.dest.eq(chosen("dest", everything - {Kind.READ, Kind.WRITE}))
        asks = arbiter.taken & is_read
        for_fetch = arbiter.grant[0]
        m.d.sync += [
            bulk.eq(bulk + (self.credit & ~self.for_instruction) - (asks & ~for_fetch)),
            instruction.eq(instruction + (self.credit & self.for_instruction) - (asks & for_fetch)),
        ]
        return m
