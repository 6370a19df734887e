"""Block RAM behind AXI4: the memory of a machine on a board that uses no other.

Every port sees the same words. Reads and writes of different ports take turns; a port alone moves a
word a cycle in each direction. A burst that leaves the memory is answered with SLVERR.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from hw.memory.axi import SIZE, Axi4, Response
from hw.noc.arbiter import RoundRobin
from hw.noc.flit import WORD_BITS

BYTE = 8


class OnChipMemory(wiring.Component):
    """A memory with several ports.

    Parameters
    ----------
    words : int
        Its size.
    address_bits : sequence of int
        Of byte addresses, for each port.

    Members
    -------
    port_0, port_1, ... : In(Axi4)
        Each takes one burst of reads and one of writes at a time.
    """

    def __init__(self, words: int, address_bits: list[int]) -> None:
        self._words, self._count = words, len(address_bits)
        super().__init__({f"port_{n}": In(Axi4(bits)) for n, bits in enumerate(address_bits)})

    def elaborate(self, platform: object) -> Module:
        """Count word addresses up; arbiters choose whose turn it is."""
        m = Module()
        # No program reads a word while it is written and relies on what it gets.
        m.submodules.memory = memory = Memory(
            shape=WORD_BITS, depth=self._words, init=[], attrs={"no_rw_check": 1}
        )
        read, write = memory.read_port(), memory.write_port(granularity=BYTE)
        m.submodules.reads = reads = RoundRobin(self._count)
        m.submodules.writes = writes = RoundRobin(self._count)
        m.d.comb += [reads.taken.eq(1), writes.taken.eq(1)]
        for n in range(self._count):
            axi = getattr(self, f"port_{n}")
            self._read(m, n, axi, read, reads)
            self._write(m, n, axi, write, writes)
        m.d.comb += read.en.eq(reads.grant.any())
        return m

    def _read(self, m: Module, n: int, axi, memory, arbiter: RoundRobin) -> None:
        word = Signal(len(axi.araddr) - SIZE, name=f"read_word_{n}")
        left = Signal(range(257), name=f"read_left_{n}")
        fresh = Signal(name=f"read_fresh_{n}")  # what is answered leaves the RAM in this cycle
        held = Signal(WORD_BITS, name=f"read_held_{n}")
        beyond = word >= self._words
        granted = arbiter.grant[n]
        m.d.comb += [
            axi.arready.eq(left == 0),
            axi.rdata.eq(Mux(fresh, memory.data, held)),
            arbiter.requests[n].eq((left != 0) & (~axi.rvalid | axi.rready)),
        ]
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [word.eq(axi.araddr >> SIZE), left.eq(axi.arlen + 1)]
        m.d.sync += fresh.eq(granted)
        with m.If(fresh):
            m.d.sync += held.eq(memory.data)
        with m.If(granted):
            m.d.comb += memory.addr.eq(word)
            m.d.sync += [
                word.eq(word + 1),
                left.eq(left - 1),
                axi.rvalid.eq(1),
                axi.rlast.eq(left == 1),
                axi.rresp.eq(Mux(beyond, Response.SLVERR, Response.OKAY)),
            ]
        with m.Elif(axi.rready):
            m.d.sync += axi.rvalid.eq(0)

    def _write(self, m: Module, n: int, axi, memory, arbiter: RoundRobin) -> None:
        word = Signal(len(axi.awaddr) - SIZE, name=f"write_word_{n}")
        busy = Signal(name=f"write_busy_{n}")
        failed = Signal(name=f"write_failed_{n}")
        beyond = word >= self._words
        granted = arbiter.grant[n]
        m.d.comb += [
            axi.awready.eq(~busy & ~axi.bvalid),
            axi.wready.eq(granted),
            arbiter.requests[n].eq(busy & axi.wvalid),
        ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [word.eq(axi.awaddr >> SIZE), busy.eq(1), failed.eq(0)]
        with m.If(granted):
            m.d.comb += [
                memory.addr.eq(word),
                memory.data.eq(axi.wdata),
                memory.en.eq(Mux(beyond, 0, axi.wstrb)),
            ]
            m.d.sync += [word.eq(word + 1), failed.eq(failed | beyond)]
            with m.If(axi.wlast):
                wrong = failed | beyond
                m.d.sync += [
                    busy.eq(0),
                    axi.bvalid.eq(1),
                    axi.bresp.eq(Mux(wrong, Response.SLVERR, Response.OKAY)),
                ]
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += axi.bvalid.eq(0)
