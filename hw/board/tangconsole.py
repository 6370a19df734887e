"""Pins of Sipeed's Tang Console with a Tang Mega 138K: clock and serial line, which is all we need.

The clock and the serial port of the on-board debugger are on the module, so its own dock has them
at the same pins. They are as in Sipeed's examples for it (`ddr_memory_test_uart`), in those of
Apicula for the console, and in LiteX's description of that. No LED of the console is the FPGA's.
"""

from amaranth.build import Attrs, Clock, Pins, Resource, Subsignal
from amaranth.vendor import GowinPlatform


class TangConsole138KPlatform(GowinPlatform):
    """A Tang Console with a Tang Mega 138K."""

    part = "GW5AST-LV138PG484AC1/I0"
    family = "GW5AST-138C"
    default_clk = "clk50"
    resources = [  # noqa: RUF012
        Resource("clk50", 0, Pins("V22", dir="i"), Clock(50e6), Attrs(IO_TYPE="LVCMOS33")),
        Resource(
            "uart",
            0,
            Subsignal("rx", Pins("V14", dir="i")),
            Subsignal("tx", Pins("U15", dir="o")),
            Attrs(IO_TYPE="LVCMOS33", PULL_MODE="UP"),
        ),
    ]
    connectors = []  # noqa: RUF012

    def parse_part(self) -> None:
        """Take the part as it is: Amaranth 0.5 knows the names of GW1N and GW2A alone."""
        self.series, self.size = "GW5AST", "138"
