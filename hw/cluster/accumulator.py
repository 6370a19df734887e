"""The accumulator: sub-tiles of 16 FP32 in two banks, so that DRAIN reads while GEMM works."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.formats import Float32
from kohakutpu.config import LANES
from kohakutpu.isa.operands import LOCAL_BITS

SUBTILE = data.ArrayLayout(Float32, LANES * LANES)
"""4 rows of 4, row-major."""

BITS = 32 * LANES * LANES


class Accumulator(wiring.Component):
    """``count`` sub-tiles; even ones in one bank, odd ones in the other.

    GEMM reads and writes whenever it wants. DRAIN waits where GEMM reads the same bank: whoever
    walks a tile needs each of them every other cycle.

    Parameters
    ----------
    count : int
        Sub-tiles.

    Members
    -------
    enable, subtile : In(1), In(14)
        GEMM reads.
    o : Out(SUBTILE)
        What it read, a cycle later.
    write_enable, write_subtile, write : In(1), In(14), In(SUBTILE)
        GEMM writes; read from the next cycle on.
    drain : In(stream of 14 bits)
        DRAIN reads; taken when it is its turn.
    drained : Out(SUBTILE)
        What it read, a cycle after that.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        super().__init__(
            {
                "enable": In(1),
                "subtile": In(LOCAL_BITS),
                "o": Out(SUBTILE),
                "write_enable": In(1),
                "write_subtile": In(LOCAL_BITS),
                "write": In(SUBTILE),
                "drain": In(stream.Signature(LOCAL_BITS)),
                "drained": Out(SUBTILE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Give each bank's read port to GEMM, else to DRAIN."""
        m = Module()
        odd, drain_odd = Signal(), Signal()
        outs = []
        for bank in range(2):
            # Whoever reads a sub-tile while it is written has not waited for it, or ignores it.
            guard = {"no_rw_check": 1}
            memory = Memory(shape=BITS, depth=(self._count + 1) // 2, init=[], attrs=guard)
            m.submodules[f"bank_{bank}"] = memory
            into, out = memory.write_port(), memory.read_port()
            mine = self.enable & (self.subtile[0] == bank)
            m.d.comb += [
                into.addr.eq(self.write_subtile[1:]),
                into.data.eq(self.write),
                into.en.eq(self.write_enable & (self.write_subtile[0] == bank)),
                out.addr.eq(Mux(mine, self.subtile, self.drain.payload)[1:]),
            ]
            with m.If(self.drain.payload[0] == bank):
                m.d.comb += self.drain.ready.eq(~mine)
            outs.append(out.data)
        m.d.sync += [odd.eq(self.subtile[0]), drain_odd.eq(self.drain.payload[0])]
        m.d.comb += [
            self.o.eq(Mux(odd, outs[1], outs[0])),
            self.drained.eq(Mux(drain_odd, outs[1], outs[0])),
        ]
        return m
