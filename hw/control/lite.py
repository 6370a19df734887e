"""AXI4-Lite with 32 bits of data."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

ADDRESS_BITS = 12
DATA_BITS = 32


class AxiLite(wiring.Signature):
    """The five channels, seen from the initiator. Signals have their names of the standard."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(ADDRESS_BITS), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
                "wdata": Out(DATA_BITS), "wstrb": Out(DATA_BITS // 8), "wvalid": Out(1),
                "wready": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
                "araddr": Out(ADDRESS_BITS), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
                "rdata": In(DATA_BITS), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
            }
        )  # fmt: skip
