"""The register file: a copy for each source, so that every one reads a beat a cycle."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class RegisterFile(wiring.Component):
    """`beats` beats of `lanes` FP32 elements.

    Parameters
    ----------
    beats, lanes, copies : int
        Its size, and its read ports.

    Members
    -------
    read, address_0 ... : In(copies), In
        Read a beat in this cycle; ``beat_0`` ... is it, from the next one until the next read.
        Not one that is written in this cycle.
    write, address, beat : In
        Write a beat with this clock edge.
    """

    def __init__(self, beats: int, lanes: int, copies: int) -> None:
        self._beats, self._width, self._copies = beats, 32 * lanes, copies
        address = range(beats)
        super().__init__(
            {"read": In(copies), "write": In(1), "address": In(address), "beat": In(self._width)}
            | {f"address_{n}": In(address) for n in range(copies)}
            | {f"beat_{n}": Out(self._width) for n in range(copies)}
        )

    def elaborate(self, platform: object) -> Module:
        """Write all copies, read each."""
        m = Module()
        for n in range(self._copies):
            m.submodules[f"copy_{n}"] = copy = Memory(
                shape=self._width, depth=self._beats, init=[], attrs={"no_rw_check": 1}
            )
            read, write = copy.read_port(), copy.write_port()
            m.d.comb += [
                read.en.eq(self.read[n]),
                read.addr.eq(getattr(self, f"address_{n}")),
                getattr(self, f"beat_{n}").eq(read.data),
                write.en.eq(self.write),
                write.addr.eq(self.address),
                write.data.eq(self.beat),
            ]
        return m
