"""A whole machine: mesh, units, memory ports and control node of any configuration."""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.unit import Unit
from hw.control.lite import AxiLite
from hw.control.node import Control
from hw.memory.axi import Axi4
from hw.memory.port import MemoryPort
from hw.noc.mesh import Mesh
from kohakutpu.config import Machine, Node

MakeDatapath = Callable[[Machine, Node], wiring.Component]


def datapath(machine: Machine, node: Node) -> wiring.Component:
    """Return the datapath of a unit."""
    from hw.cluster.cluster import ClusterDatapath
    from hw.vector.core import VectorCore

    return ClusterDatapath(machine, node.id) if node.kind == "C" else VectorCore(machine, node)


class Top(wiring.Component):
    """A machine.

    Parameters
    ----------
    machine : Machine
        Which.
    make : callable
        The datapath of a unit of a machine.

    Members
    -------
    host : In(AxiLite)
        Registers; see `hw.control.registers.Register`.
    finished : Out(1)
        A run is over.
    memory_0, memory_1, ... : Out(Axi4)
        By node of the memory port. All see the same memory.
    """

    def __init__(self, machine: Machine, make: MakeDatapath = datapath) -> None:
        self._machine = machine
        self._make = make
        self._ports = {node.id: MemoryPort(machine, node.id) for node in machine.of_kind("M")}
        super().__init__(
            {"host": In(AxiLite()), "finished": Out(1)}
            | {f"memory_{node}": Out(Axi4(port.address_bits)) for node, port in self._ports.items()}
        )

    def elaborate(self, platform: object) -> Module:
        """Place what the picture says; the control node resets everything but itself."""
        m = Module()
        machine = self._machine
        m.submodules.control = control = Control(machine)
        wiring.connect(m, wiring.flipped(self.host), control.bus)
        m.d.comb += self.finished.eq(control.finished)
        m.domains.cleared = ClockDomain(local=True)
        m.d.comb += [
            ClockSignal("cleared").eq(ClockSignal()),
            ResetSignal("cleared").eq(ResetSignal(allow_reset_less=True) | control.clear),
        ]
        cleared = DomainRenamer("cleared")
        mesh = Mesh(machine)
        m.submodules.mesh = cleared(mesh)
        progress, idle = [], []
        for node in machine.nodes:
            if node.kind == "H":
                element: wiring.Component = control
            elif node.kind == "M":
                element = port = self._ports[node.id]
                m.submodules[f"memory_{node.id}"] = cleared(port)
                wiring.connect(m, port.axi, wiring.flipped(getattr(self, f"memory_{node.id}")))
                m.d.comb += port.stop.eq(control.stop)
                idle.append(port.idle)
            else:
                element = unit = Unit(machine, node, self._make(machine, node))
                m.submodules[f"unit_{node.id}"] = cleared(unit)
                progress.append(unit.progress)
            wiring.connect(m, element.o, getattr(mesh, f"i_{node.id}"))
            wiring.connect(m, getattr(mesh, f"o_{node.id}"), element.i)
        m.d.comb += [
            control.progress.eq(reduce(or_, progress)),
            control.quiet.eq(reduce(and_, idle)),
        ]
        return m
