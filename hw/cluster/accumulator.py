"""The accumulator: sub-tiles of 16 FP32 in two banks, so that DRAIN reads while GEMM works."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.formats import Float32
from kohakutpu.config import KBLOCK, LANES
from kohakutpu.isa.operands import LOCAL_BITS


def is_serial(k_per_cycle: int) -> bool:
    """Return whether a cluster does things one after the other rather than side by side.

    An entry pair has ``KBLOCK / k_per_cycle`` slices, and only the last one gives totals. Where
    these are as many as the rows of a sub-tile, the rows take turns at the FP32 hardware; and then
    nothing else needs to be faster.
    """
    return KBLOCK // k_per_cycle >= LANES


def part_rows(k_per_cycle: int) -> int:
    """Return how many rows of a sub-tile are a *part*: read, added to and written in one cycle."""
    return 1 if is_serial(k_per_cycle) else LANES


def part(k_per_cycle: int) -> data.ArrayLayout:
    """Return the layout of a part, row-major."""
    return data.ArrayLayout(Float32, part_rows(k_per_cycle) * LANES)


class Place(data.Struct):
    """A part of a sub-tile.

    Members
    -------
    row : 2
        Its first row.
    subtile : 14
        Which sub-tile.
    """

    row: 2
    subtile: LOCAL_BITS


class Accumulator(wiring.Component):
    """``count`` sub-tiles; even ones in one bank, odd ones in the other.

    GEMM reads and writes whenever it wants. DRAIN waits where GEMM reads the same bank: whoever
    walks a tile needs each of them half of the time.

    Parameters
    ----------
    count : int
        Sub-tiles.
    k_per_cycle : int
        Says how much of one is a part.

    Members
    -------
    enable, place : In(1), In(Place)
        GEMM reads.
    o : Out(part(k_per_cycle))
        What it read, a cycle later.
    write_enable, write_place, write : In(1), In(Place), In(part(k_per_cycle))
        GEMM writes; read from the next cycle on.
    drain : In(stream of Place)
        DRAIN reads; taken when it is its turn.
    drained : Out(part(k_per_cycle))
        What it read, a cycle after that.
    """

    def __init__(self, count: int, k_per_cycle: int) -> None:
        self._count, self._k_per_cycle = count, k_per_cycle
        shape = part(k_per_cycle)
        super().__init__(
            {
                "enable": In(1),
                "place": In(Place),
                "o": Out(shape),
                "write_enable": In(1),
                "write_place": In(Place),
                "write": In(shape),
                "drain": In(stream.Signature(Place)),
                "drained": Out(shape),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Give each bank's read port to GEMM, else to DRAIN."""
        m = Module()
        parts = LANES // part_rows(self._k_per_cycle)

        def address(place: data.View) -> Cat:
            return Cat(place.row[: parts.bit_length() - 1], place.subtile[1:])

        odd, drain_odd = Signal(), Signal()
        outs = []
        for bank in range(2):
            memory = Memory(
                shape=part(self._k_per_cycle).size,
                depth=(self._count + 1) // 2 * parts,
                init=[],
                # Whoever reads a sub-tile while it is written has not waited, or ignores it.
                attrs={"no_rw_check": 1},
            )
            m.submodules[f"bank_{bank}"] = memory
            into, out = memory.write_port(), memory.read_port()
            mine = self.enable & (self.place.subtile[0] == bank)
            m.d.comb += [
                into.addr.eq(address(self.write_place)),
                into.data.eq(self.write),
                into.en.eq(self.write_enable & (self.write_place.subtile[0] == bank)),
                out.addr.eq(Mux(mine, address(self.place), address(self.drain.payload))),
            ]
            with m.If(self.drain.payload.subtile[0] == bank):
                m.d.comb += self.drain.ready.eq(~mine)
            outs.append(out.data)
        m.d.sync += [odd.eq(self.place.subtile[0]), drain_odd.eq(self.drain.payload.subtile[0])]
        m.d.comb += [
            self.o.eq(Mux(odd, outs[1], outs[0])),
            self.drained.eq(Mux(drain_odd, outs[1], outs[0])),
        ]
        return m
