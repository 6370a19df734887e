"""L1A and L1B: entries of four lanes, each a block of 32 elements and its scale."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.cluster.block import POSITION_BITS, piece_number, pieces
from kohakutpu.config import LANES
from kohakutpu.isa.operands import LOCAL_BITS


def entry_slice(k_per_cycle: int) -> data.StructLayout:
    """Return what is read in one cycle: ``k_per_cycle`` elements of each lane, and the scales."""
    return data.StructLayout(
        {
            "elements": data.ArrayLayout(8 * k_per_cycle, LANES),
            "scales": data.ArrayLayout(8, LANES),
        }
    )


def entry_write(k_per_cycle: int) -> data.StructLayout:
    """Return what is written in one cycle: the same elements to some lanes, scales to some lanes.

    =========  ==================================================================
    entry      where
    position   where in a lane, in units of 4 elements
    elements   lanes that get `piece`; none is fine
    scales     lanes that get their byte of `scale`
    piece      ``k_per_cycle`` elements
    scale      a byte a lane
    =========  ==================================================================
    """
    return data.StructLayout(
        {
            "entry": LOCAL_BITS,
            "position": POSITION_BITS,
            "elements": LANES,
            "scales": LANES,
            "piece": 8 * k_per_cycle,
            "scale": 8 * LANES,
        }
    )


class Entries(wiring.Component):
    """``count`` entries: a piece of any lanes of one written a cycle, a piece of all read.

    Parameters
    ----------
    count : int
        Entries.
    k_per_cycle : int
        Elements of a lane that are a piece.

    Members
    -------
    write : In(entry_write(k_per_cycle))
        What to write in this cycle.
    enable : In(1)
        Read; without it `o` stays.
    entry, position : In(14), In(3)
        What.
    o : Out(entry_slice(k_per_cycle))
        What it held, a cycle later.
    """

    def __init__(self, count: int, k_per_cycle: int) -> None:
        self._count, self._k_per_cycle = count, k_per_cycle
        super().__init__(
            {
                "write": In(entry_write(k_per_cycle)),
                "enable": In(1),
                "entry": In(LOCAL_BITS),
                "position": In(POSITION_BITS),
                "o": Out(entry_slice(k_per_cycle)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep elements and scales apart: packed operands bring one without the other."""
        m = Module()
        k, write = self._k_per_cycle, self.write
        # A GEMM that reads an entry while it is written has not waited for its FILL.
        guard = {"no_rw_check": 1}
        m.submodules.elements = elements = Memory(
            shape=data.ArrayLayout(8 * k, LANES),
            depth=self._count * pieces(k),
            init=[],
            attrs=guard,
        )
        into, out = elements.write_port(granularity=1), elements.read_port()
        m.d.comb += [
            into.addr.eq(Cat(piece_number(k, write.position), write.entry)),
            into.en.eq(write.elements),
            out.addr.eq(Cat(piece_number(k, self.position), self.entry)),
            out.en.eq(self.enable),
            self.o.elements.eq(out.data),
        ]
        m.d.comb += [into.data[lane].eq(write.piece) for lane in range(LANES)]
        m.submodules.scales = scales = Memory(
            shape=data.ArrayLayout(8, LANES), depth=self._count, init=[], attrs=guard
        )
        into, out = scales.write_port(granularity=1), scales.read_port()
        m.d.comb += [
            into.addr.eq(write.entry),
            into.data.eq(write.scale),
            into.en.eq(write.scales),
            out.addr.eq(self.entry),
            out.en.eq(self.enable),
            self.o.scales.eq(out.data),
        ]
        return m
