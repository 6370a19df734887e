"""The mesh of a machine: a router for every place of its picture, links between neighbours."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import Flit
from hw.noc.router import Router
from hw.noc.routes import Direction, behind
from kohakutpu.config import Machine

UNITS = "CV"
"""Kinds of nodes that send to themselves."""


class Mesh(wiring.Component):
    """All routers of a machine. Rules and the argument against deadlock are with the `Router`.

    A flit takes two cycles plus one a hop from node to node when nothing is in its way.

    Parameters
    ----------
    machine : Machine
        Its picture is the topology. At ``.`` there is a router and no node.

    Members
    -------
    i_0, i_1, ... : In(stream of Flit)
        By node id: what the node sends.
    o_0, o_1, ... : Out(stream of Flit)
        What it receives. A node must take it without having to send first.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        signature = stream.Signature(Flit)
        super().__init__(
            {f"i_{node.id}": In(signature) for node in machine.nodes}
            | {f"o_{node.id}": Out(signature) for node in machine.nodes}
        )

    def elaborate(self, platform: object) -> Module:
        """Make the routers and join them."""
        m = Module()
        machine = self.machine
        routers = {
            (x, y): Router(behind(machine, x, y), returns=letter in UNITS)
            for y, row in enumerate(machine.rows)
            for x, letter in enumerate(row)
        }
        for (x, y), router in routers.items():
            m.submodules[f"router_{x}_{y}"] = router
            for direction in router.behind:
                if direction is Direction.LOCAL:
                    node = y * machine.width + x
                    wiring.connect(m, wiring.flipped(getattr(self, f"i_{node}")), router.i_local)
                    wiring.connect(m, router.o_local, wiring.flipped(getattr(self, f"o_{node}")))
                else:
                    dx, dy = direction.step
                    neighbour = routers[x + dx, y + dy]
                    wiring.connect(
                        m,
                        getattr(router, f"o_{direction.value}"),
                        getattr(neighbour, f"i_{direction.opposite.value}"),
                    )
        return m
