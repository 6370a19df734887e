"""A machine with simulated memory at its ports: what a simulator is built from."""

import json
import sys
from pathlib import Path

from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.control.lite import AxiLite
from hw.sim.emit import emit
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
    clk, rst : In(1)
        Of everything.
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
            | {"clk": In(1), "rst": In(1), "finished": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """Join ports by name."""
        m = Module()
        # The reset comes from a register: as an input it would make the simulator look at all the
        # logic behind it whenever it looks at inputs, twice a cycle.
        m.domains.sync = ClockDomain()
        reset = Signal(init=1, reset_less=True)
        m.d.sync += reset.eq(self.rst)
        m.d.comb += [ClockSignal().eq(self.clk), ResetSignal().eq(reset)]
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


if __name__ == "__main__":  # fields of a Machine as JSON, "gated" or "plain", the file to write
    bench = Testbench(Machine(**json.loads(sys.argv[1])))
    Path(sys.argv[3]).write_text(emit(bench, gated=sys.argv[2] == "gated"))
