"""The tensor units: 16 dot products of a pair of entries, added to a sub-tile."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Adder, Combine
from hw.arithmetic.dot import BlockDot, PartialScaler
from hw.arithmetic.pipeline import delayed
from hw.cluster.accumulator import BITS, SUBTILE
from hw.cluster.entries import ENTRY
from kohakutpu.config import KBLOCK, LANES
from kohakutpu.isa.operands import LOCAL_BITS


class Step(data.Struct):
    """One cycle of a GEMM: a slice of an entry pair.

    Members
    -------
    valid : 1
        There is one.
    first, last : 1
        It is the first, the last slice of its pair.
    fresh : 1
        The sub-tile starts from +0 here.
    subtile : 14
        Which one.
    ends : 1
        It is the last of its instruction.
    """

    valid: 1
    first: 1
    last: 1
    fresh: 1
    subtile: LOCAL_BITS
    ends: 1


class TensorArray(wiring.Component):
    """Take a slice a cycle, add a partial to each of the 16 sums of a sub-tile.

    Parameters
    ----------
    k_per_cycle : int
        Elements of a slice.

    Members
    -------
    step : In(Step)
        What the sequencer asks L1 for in this cycle. Entries are read with `first`.
    a, b : In(ENTRY)
        The entries, from a cycle later on until the next pair's.
    enable, subtile, sums : Out(1), Out(14), In(SUBTILE)
        A read of the accumulator; `sums` come a cycle later.
    write_enable, write_subtile, write : Out(1), Out(14), Out(SUBTILE)
        A write to it, `turnaround` cycles after that pair's `enable`.
    ended : Out(1)
        With the write of the last step of an instruction.
    """

    turnaround = 1 + Adder.latency
    """Cycles from reading a sub-tile to its write; readable again in the cycle after that."""

    def __init__(self, k_per_cycle: int) -> None:
        self._k_per_cycle = k_per_cycle
        super().__init__(
            {
                "step": In(Step),
                "a": In(ENTRY),
                "b": In(ENTRY),
                "enable": Out(1),
                "subtile": Out(LOCAL_BITS),
                "sums": In(SUBTILE),
                "write_enable": Out(1),
                "write_subtile": Out(LOCAL_BITS),
                "write": Out(SUBTILE),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """L1, slice, dot product, scale, add: a fixed delay each."""
        m = Module()
        slices = KBLOCK // self._k_per_cycle
        number = Signal(range(max(slices, 2)))
        read = delayed(m, self.step, 1, reset=True)  # the entries are there
        with m.If(read.valid):
            m.d.sync += number.eq(Mux(read.last, 0, number + 1))
        bits = 8 * self._k_per_cycle
        sliced = delayed(m, read, 1, reset=True)
        slices_of = {}
        for name, entry in (("a", self.a), ("b", self.b)):
            for lane in range(LANES):
                part = Signal(bits, name=f"{name}_{lane}", reset_less=True)
                m.d.sync += part.eq(entry.elements[lane].word_select(number, bits))
                slices_of[name, lane] = part

        to_dot = BlockDot.latency
        to_scaled = to_dot + PartialScaler.latency
        scales = Signal(data.ArrayLayout(8, 2 * LANES), reset_less=True)
        m.d.sync += scales.as_value().eq(Cat(self.a.scales, self.b.scales))
        scales = delayed(m, scales, to_dot)
        asking = delayed(m, sliced, to_scaled - 1, reset=True)
        adding = delayed(m, asking, 1, reset=True)
        writing = delayed(m, adding, Adder.latency, reset=True)
        m.d.comb += [
            self.enable.eq(asking.valid & asking.last & ~asking.fresh),
            self.subtile.eq(asking.subtile),
            self.write_enable.eq(writing.valid & writing.last),
            self.write_subtile.eq(writing.subtile),
            self.ended.eq(self.write_enable & writing.ends),
        ]
        for row in range(LANES):
            for column in range(LANES):
                index = row * LANES + column
                m.submodules[f"dot_{index}"] = dot = BlockDot(self._k_per_cycle)
                m.submodules[f"scaler_{index}"] = scaler = PartialScaler()
                m.submodules[f"adder_{index}"] = adder = Adder()
                m.d.comb += [
                    dot.a.as_value().eq(slices_of["a", row]),
                    dot.b.as_value().eq(slices_of["b", column]),
                    dot.valid.eq(sliced.valid),
                    dot.first.eq(sliced.first),
                    scaler.total.eq(dot.o),
                    scaler.scale_a.eq(scales[row]),
                    scaler.scale_b.eq(scales[LANES + column]),
                    adder.a.eq(Mux(adding.fresh, Const(0, 32), self.sums[index].as_value())),
                    adder.b.eq(scaler.o),
                    adder.op.eq(Combine.SUM),
                    self.write[index].eq(adder.o),
                ]
        assert len(self.write.as_value()) == BITS
        return m
