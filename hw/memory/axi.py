"""AXI4 with 256 bits of data, as much of it as a memory port uses."""

from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw.noc.flit import WORD_BITS
from kohakutpu.config import WORD_BYTES

PAGE_WORDS = 4096 // WORD_BYTES
"""Words between boundaries that no burst may cross."""

SIZE = WORD_BYTES.bit_length() - 1
"""``AxSIZE`` of whole words."""


class Response(enum.Enum, shape=2):
    """``RRESP`` and ``BRESP``."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class Burst(enum.Enum, shape=2):
    """``AxBURST``."""

    FIXED = 0
    INCR = 1
    WRAP = 2


class Axi4(wiring.Signature):
    """The five channels, seen from the initiator. Signals have their names of the standard.

    One ID, 0, so that answers come in the order of requests. ``AxCACHE`` is 0010, not
    bufferable: a write has an answer when it is visible to every other port of the memory.

    Parameters
    ----------
    address_bits : int
        Of byte addresses.
    """

    def __init__(self, address_bits: int) -> None:
        self._address_bits = address_bits
        address = {
            "id": 1, "addr": address_bits, "len": 8, "size": 3, "burst": Burst, "lock": 1,
            "cache": 4, "prot": 3, "valid": 1,
        }  # fmt: skip
        write = {"data": WORD_BITS, "strb": WORD_BYTES, "last": 1, "valid": 1}
        read = {"id": 1, "data": WORD_BITS, "resp": Response, "last": 1, "valid": 1}
        super().__init__(
            {f"{channel}{name}": Out(s) for channel in ("aw", "ar") for name, s in address.items()}
            | {f"w{name}": Out(shape) for name, shape in write.items()}
            | {"bid": In(1), "bresp": In(Response), "bvalid": In(1), "bready": Out(1)}
            | {f"r{name}": In(shape) for name, shape in read.items()}
            | {"awready": In(1), "wready": In(1), "arready": In(1), "rready": Out(1)}
        )

    @property
    def address_bits(self) -> int:
        """Of byte addresses."""
        return self._address_bits
