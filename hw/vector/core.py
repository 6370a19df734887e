"""The datapath of a vector core."""

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.common.interfaces import Datapath
from hw.vector.drain import DrainEngine
from hw.vector.execute import ExecEngine
from hw.vector.fill import FillEngine
from hw.vector.l1 import VectorL1, banks_for
from hw.vector.landing import Landing
from kohakutpu.config import Machine, Node

SOURCES = 3


class VectorCore(wiring.Component):
    """VFILL, EXEC and VDRAIN around L1 and register file.

    In L1, EXEC's results go before what lands, so that the pipe never stops; the three sources and
    VDRAIN wait for each other's banks.

    Parameters
    ----------
    machine : Machine
        Lanes and sizes.
    node : Node
        Where it sits.

    Members
    -------
    As in `hw.common.interfaces.Datapath`.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self._node = machine, node.id
        super().__init__(Datapath("V"))

    def elaborate(self, platform: object) -> Module:
        """Join the parts."""
        m = Module()
        m.submodules.l1 = l1 = VectorL1(
            self._machine.vl1_words, SOURCES, banks_for(self._machine.lanes)
        )
        m.submodules.landing = landing = Landing(l1.address_bits)
        m.submodules.fill = fill = FillEngine(self._machine.vl1_words, self._node)
        m.submodules.execute = execute = ExecEngine(self._machine, l1.address_bits)
        m.submodules.drain = drain = DrainEngine(self._machine, self._node, l1.address_bits)
        wiring.connect(m, wiring.flipped(self.engine_0), fill.engine)
        wiring.connect(m, wiring.flipped(self.engine_1), execute.engine)
        wiring.connect(m, wiring.flipped(self.engine_2), drain.engine)
        wiring.connect(m, drain.l1, l1.wide)
        for n in range(SOURCES):
            wiring.connect(m, getattr(execute, f"l1_{n}"), getattr(l1, f"reader_{n}"))
        wiring.connect(m, execute.write, l1.first)
        wiring.connect(m, landing.write, l1.second)
        wiring.connect(m, wiring.flipped(self.landing), landing.i)
        m.d.comb += [
            self.landed.eq(landing.landed),
            fill.landed.eq(landing.step & (landing.requester == self._node) & ~landing.tag[2]),
        ]
        return m
