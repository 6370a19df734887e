"""A unit: shell and datapath."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.shell import Shell
from hw.noc.flit import Flit
from kohakutpu.config import Machine, Node


class Unit(wiring.Component):
    """One unit of a machine.

    Parameters
    ----------
    machine : Machine
        The configuration.
    node : Node
        Where it sits.
    datapath : wiring.Component
        What it computes with; its signature has the members of `interfaces.Datapath`.

    Members
    -------
    i, o : In(stream of Flit), Out(stream of Flit)
        From and to the mesh.
    progress : Out(1)
        Something happened in the cycle before.
    """

    def __init__(self, machine: Machine, node: Node, datapath: wiring.Component) -> None:
        self._machine, self._node, self._datapath = machine, node, datapath
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "o": Out(stream.Signature(Flit)),
                "progress": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Join the two."""
        m = Module()
        m.submodules.shell = shell = Shell(self._machine, self._node)
        m.submodules.datapath = datapath = self._datapath
        wiring.connect(m, wiring.flipped(self.i), shell.i)
        wiring.connect(m, shell.o, wiring.flipped(self.o))
        wiring.connect(m, shell.datapath, datapath)
        m.d.comb += self.progress.eq(shell.progress)
        return m
