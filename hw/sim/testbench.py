"""A machine with simulated memory at its ports: what a simulator is built from."""

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.control.lite import AxiLite
from hw.top import MakeDatapath, Top, datapath
from kohakutpu.config import Machine

INPUTS = ("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rlast", "rvalid")
OUTPUTS = (
    "awaddr", "awlen", "awvalid", "wdata", "wstrb", "wlast", "wvalid", "bready",
    "araddr", "arlen", "arvalid", "rready",
)  # fmt: skip


class Testbench(wiring.Component):
    """A machine and its memory.

    Parameters
    ----------
    machine : Machine
        Which.
    make : callable
        As for `Top`.

    Members
    -------
    host_awaddr, ... : In, Out
        The registers, AXI4-Lite.
    finished : Out(1)
        A run is over.
    """

    def __init__(self, machine: Machine, make: MakeDatapath = datapath) -> None:
        self._machine = machine
        self._top = Top(machine, make)
        self._lite = AxiLite()
        flipped = {Out: In, In: Out}
        super().__init__(
            {f"host_{n}": flipped[m.flow](m.shape) for n, m in self._lite.members.items()}
            | {"finished": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """Join ports by name."""
        m = Module()
        m.submodules.top = top = self._top
        m.d.comb += self.finished.eq(top.finished)
        for name, member in self._lite.members.items():
            outer, inner = getattr(self, f"host_{name}"), getattr(top.host, name)
            m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(inner)
        for node in self._machine.of_kind("M"):
            axi = getattr(top, f"memory_{node.id}")
            m.submodules[f"ram_{node.id}"] = Instance(
                "axi_ram",
                p_ADDRESS_BITS=len(axi.awaddr),
                p_PORT=node.id,
                i_clk=ClockSignal(),
                i_rst=ResetSignal(),
                **{f"i_{name}": getattr(axi, name) for name in OUTPUTS},
                **{f"o_{name}": getattr(axi, name) for name in INPUTS},
            )
        return m
