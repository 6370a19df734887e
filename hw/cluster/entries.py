"""L1A and L1B: entries of four lanes, each a block of 32 elements and its scale."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kohakutpu.config import KBLOCK, LANES
from kohakutpu.isa.operands import LOCAL_BITS

BLOCK_BITS = 8 * KBLOCK

ENTRY = data.StructLayout(
    {
        "elements": data.ArrayLayout(BLOCK_BITS, LANES),
        "scales": data.ArrayLayout(8, LANES),
    }
)
"""One entry, as it is read."""


class EntryWrite(data.Struct):
    """What is written in one cycle: the same block to some lanes, scales to some lanes.

    Members
    -------
    entry : 14
        Where.
    elements : 4
        Lanes that get `block`; none is fine.
    scales : 4
        Lanes that get their byte of `scale`.
    block : 256
        32 elements.
    scale : 32
        A byte a lane.
    """

    entry: LOCAL_BITS
    elements: LANES
    scales: LANES
    block: BLOCK_BITS
    scale: 8 * LANES


class Entries(wiring.Component):
    """``count`` entries: any lanes of one written a cycle, a whole one read.

    Parameters
    ----------
    count : int
        Entries.

    Members
    -------
    write : In(EntryWrite)
        What to write in this cycle.
    enable : In(1)
        Read; without it `o` stays.
    entry : In(14)
        Which one.
    o : Out(ENTRY)
        What it held, a cycle later.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        super().__init__(
            {
                "write": In(EntryWrite),
                "enable": In(1),
                "entry": In(LOCAL_BITS),
                "o": Out(ENTRY),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep elements and scales apart: packed operands bring one without the other."""
        m = Module()
        write = self.write
        for name, lane in (("elements", BLOCK_BITS), ("scales", 8)):
            shape = data.ArrayLayout(lane, LANES)
            # A GEMM that reads an entry while it is written has not waited for its FILL.
            guard = {"no_rw_check": 1}
            memory = Memory(shape=shape, depth=self._count, init=[], attrs=guard)
            m.submodules[name] = memory
            into, out = memory.write_port(granularity=1), memory.read_port()
            m.d.comb += [
                into.addr.eq(write.entry),
                into.en.eq(getattr(write, name)),
                out.addr.eq(self.entry),
                out.en.eq(self.enable),
                getattr(self.o, name).eq(out.data),
            ]
            if name == "scales":
                m.d.comb += into.data.eq(write.scale)
            else:
                m.d.comb += [into.data[n].eq(write.block) for n in range(LANES)]
        return m
