"""The tensor units: 16 dot products of a pair of entries, added to a sub-tile."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Adder, Combine
from hw.arithmetic.dot import BlockDot, PartialScaler
from hw.arithmetic.pipeline import delayed
from hw.cluster.accumulator import BITS, SUBTILE
from hw.cluster.entries import entry_slice
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


def turns(k_per_cycle: int) -> int:
    """Return in how many parts the rows of a sub-tile are scaled and added, a cycle each.

    A pair has ``KBLOCK / k_per_cycle`` slices, and only its last one gives totals: rows take turns
    at the FP32 hardware meanwhile.
    """
    return min(KBLOCK // k_per_cycle, LANES)


def turnaround(k_per_cycle: int) -> int:
    """Return the cycles from reading a sub-tile to its write; it is readable in the cycle after."""
    return Adder.latency + turns(k_per_cycle)


class TensorArray(wiring.Component):
    """Take a slice a cycle, add a partial to each of the 16 sums of a sub-tile.

    Parameters
    ----------
    k_per_cycle : int
        Elements of a slice.

    Members
    -------
    step : In(Step)
        What the sequencer asks L1 for in this cycle.
    a, b : In(entry_slice(k_per_cycle))
        That, a cycle later.
    enable, subtile, sums : Out(1), Out(14), In(SUBTILE)
        A read of the accumulator; `sums` come a cycle later.
    write_enable, write_subtile, write : Out(1), Out(14), Out(SUBTILE)
        A write to it, `turnaround()` cycles after that pair's `enable`.
    ended : Out(1)
        With the write of the last step of an instruction.
    """

    def __init__(self, k_per_cycle: int) -> None:
        self._k_per_cycle = k_per_cycle
        super().__init__(
            {
                "step": In(Step),
                "a": In(entry_slice(k_per_cycle)),
                "b": In(entry_slice(k_per_cycle)),
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
        dots = [BlockDot(self._k_per_cycle) for _ in range(LANES * LANES)]
        latency = dots[0].latency
        sliced = delayed(m, self.step, 2, reset=True)
        a = delayed(m, self.a, 1)
        b = delayed(m, self.b, 1)
        scales = delayed(m, Cat(a.scales, b.scales), latency)
        scales = [scales.word_select(n, 8) for n in range(2 * LANES)]
        totalled = delayed(m, sliced, latency, reset=True)
        asking = delayed(m, totalled, PartialScaler.latency - 1, reset=True)
        adding = delayed(m, asking, 1, reset=True)
        writing = delayed(m, adding, turnaround(self._k_per_cycle) - 1, reset=True)
        m.d.comb += [
            self.enable.eq(asking.valid & asking.last & ~asking.fresh),
            self.subtile.eq(asking.subtile),
            self.write_enable.eq(writing.valid & writing.last),
            self.write_subtile.eq(writing.subtile),
            self.ended.eq(self.write_enable & writing.ends),
        ]

        totals = []
        for index, dot in enumerate(dots):
            row, column = divmod(index, LANES)
            m.submodules[f"dot_{index}"] = dot
            m.d.comb += [
                dot.a.as_value().eq(a.elements[row]),
                dot.b.as_value().eq(b.elements[column]),
                dot.valid.eq(sliced.valid),
                dot.first.eq(sliced.first),
            ]
            totals.append(dot.o)

        # The first rows go on at once, the others from registers.
        count = turns(self._k_per_cycle)
        turn = Signal(range(count))
        if count > 1:
            with m.If((turn != 0) | (totalled.valid & totalled.last)):
                m.d.sync += turn.eq(turn + 1)
        add_turn = delayed(m, turn, PartialScaler.latency, reset=True)
        write_turn = delayed(m, add_turn, Adder.latency, reset=True)
        fresh = adding.fresh
        sums = [Mux(fresh, Const(0, 32), self.sums[n].as_value()) for n in range(LANES * LANES)]
        at_once = LANES // count * LANES
        totals = _taking_turns(m, turn, totals, at_once)
        sums = _taking_turns(m, add_turn, sums, at_once)
        scales_a = _taking_turns(m, turn, scales[:LANES], LANES // count)
        scales_b = _taking_turns(m, turn, [Cat(scales[LANES:])] * count, 1)
        for index in range(at_once):
            row, column = divmod(index, LANES)
            m.submodules[f"scaler_{index}"] = scaler = PartialScaler()
            m.submodules[f"adder_{index}"] = adder = Adder()
            m.d.comb += [
                scaler.total.eq(totals[index]),
                scaler.scale_a.eq(scales_a[row]),
                scaler.scale_b.eq(scales_b[0].word_select(column, 8)),
                adder.a.eq(sums[index]),
                adder.b.eq(scaler.o),
                adder.op.eq(Combine.SUM),
                self.write[(count - 1) * at_once + index].eq(adder.o),
            ]
            for number in range(count - 1):
                early = Signal(32, name=f"early_{number}_{index}", reset_less=True)
                with m.If(write_turn == number):
                    m.d.sync += early.eq(adder.o)
                m.d.comb += self.write[number * at_once + index].eq(early)
        assert len(self.write.as_value()) == BITS
        return m


def _taking_turns(m: Module, turn: Signal, values: list[Value], at_once: int) -> list[Value]:
    """Return `at_once` of the values: the first ones at `turn` 0, then those that were there then.

    ``values`` are taken at turn 0, `at_once` more of them at each turn after it.
    """
    groups = [values[start : start + at_once] for start in range(0, len(values), at_once)]
    if len(groups) == 1:
        return groups[0]
    later = []
    for group in groups[1:]:
        kept = [Signal(value.shape(), name="kept", reset_less=True) for value in group]
        with m.If(turn == 0):
            m.d.sync += [register.eq(value) for register, value in zip(kept, group, strict=True)]
        later.append(kept)
    choices = zip(groups[0], *later, strict=True)
    return [Array(choice)[turn] for choice in choices]
