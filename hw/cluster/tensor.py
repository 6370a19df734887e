"""The tensor units: 16 dot products of a pair of entries, added to a sub-tile."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Adder, Combine
from hw.arithmetic.dot import BlockDot, PartialScaler
from hw.arithmetic.pipeline import delayed
from hw.cluster.accumulator import Place, part, part_rows
from hw.cluster.entries import entry_slice
from kohakutpu.config import LANES
from kohakutpu.isa.operands import LOCAL_BITS


class Step(data.Struct):
    """One cycle of a GEMM: a slice of an entry pair.

    Members
    -------
    valid : 1
        There is one.
    last : 1
        It is the last slice of its pair; those of a pair follow each other without gaps.
    fresh : 1
        The sub-tile starts from +0 here.
    subtile : 14
        Which one.
    ends : 1
        It is the last of its instruction.
    """

    valid: 1
    last: 1
    fresh: 1
    subtile: LOCAL_BITS
    ends: 1


TO_SLICE = 3
"""Cycles from a step until the dot products have its slice: one in L1, two on the way."""

TURNAROUND = Adder.latency + 1
"""Cycles from reading a part of a sub-tile to its write; it is readable in the cycle after."""


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
    enable, place, sums : Out(1), Out(Place), In(part(k_per_cycle))
        A read of the accumulator; `sums` come a cycle later.
    write_enable, write_place, write : Out(1), Out(Place), Out(part(k_per_cycle))
        A write to it, `TURNAROUND` cycles after that part's `enable`.
    ended : Out(1)
        With the last write of an instruction.
    """

    def __init__(self, k_per_cycle: int) -> None:
        self._k_per_cycle = k_per_cycle
        super().__init__(
            {
                "step": In(Step),
                "a": In(entry_slice(k_per_cycle)),
                "b": In(entry_slice(k_per_cycle)),
                "enable": Out(1),
                "place": Out(Place),
                "sums": In(part(k_per_cycle)),
                "write_enable": Out(1),
                "write_place": Out(Place),
                "write": Out(part(k_per_cycle)),
                "ended": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a step to its last write."""
        turns = LANES // part_rows(self._k_per_cycle)
        in_order = TO_SLICE + BlockDot(self._k_per_cycle).latency + PartialScaler.latency
        return in_order + TURNAROUND - 1 + turns - 1

    def elaborate(self, platform: object) -> Module:
        """L1, slice, dot product, scale, add: a fixed delay each."""
        m = Module()
        dots = [BlockDot(self._k_per_cycle) for _ in range(LANES * LANES)]
        latency = dots[0].latency
        sliced = delayed(m, self.step, TO_SLICE, reset=True)
        a = delayed(m, self.a, TO_SLICE - 1)
        b = delayed(m, self.b, TO_SLICE - 1)
        scales = delayed(m, Cat(a.scales, b.scales), latency)
        scales = [scales.word_select(n, 8) for n in range(2 * LANES)]
        totalled = delayed(m, sliced, latency, reset=True)
        totals = []
        for index, dot in enumerate(dots):
            row, column = divmod(index, LANES)
            m.submodules[f"dot_{index}"] = dot
            m.d.comb += [
                dot.a.as_value().eq(a.elements[row]),
                dot.b.as_value().eq(b.elements[column]),
                dot.more.eq(sliced.valid & ~sliced.last),
            ]
            totals.append(dot.o)

        # The first rows go on at once, the others from registers.
        at_once = part_rows(self._k_per_cycle)
        count = LANES // at_once
        turn, held = Signal(range(count)), Signal(Step)
        scaled = Signal(Step)
        m.d.comb += scaled.eq(Mux(turn == 0, totalled.as_value(), held.as_value()))
        m.d.comb += scaled.valid.eq((turn != 0) | (totalled.valid & totalled.last))
        m.d.sync += turn.eq(turn + scaled.valid)
        with m.If(turn == 0):
            m.d.sync += held.eq(totalled)
        totals = _taking_turns(m, turn, totals, at_once * LANES)
        scales_a = _taking_turns(m, turn, scales[:LANES], at_once)
        scales_b = _taking_turns(m, turn, [Cat(scales[LANES:])] * count, 1)

        state = Cat(turn, scaled)
        asking = delayed(m, state, PartialScaler.latency - 1, reset=True)
        adding = delayed(m, asking, 1, reset=True)
        writing = delayed(m, adding, TURNAROUND - 1, reset=True)
        for place, at in ((self.place, asking), (self.write_place, writing)):
            m.d.comb += place.row.eq(at[: len(turn)])
            m.d.comb += place.subtile.eq(Step(at[len(turn) :]).subtile)
        asks, adds, writes = (Step(at[len(turn) :]) for at in (asking, adding, writing))
        m.d.comb += [
            self.enable.eq(asks.valid & ~asks.fresh),
            self.write_enable.eq(writes.valid),
            self.ended.eq(writes.valid & writes.ends & (self.write_place.row == count - 1)),
        ]
        for index, total in enumerate(totals):
            row, column = divmod(index, LANES)
            m.submodules[f"scaler_{index}"] = scaler = PartialScaler()
            m.submodules[f"adder_{index}"] = adder = Adder(orders=False)
            m.d.comb += [
                scaler.total.eq(total),
                scaler.scale_a.eq(scales_a[row]),
                scaler.scale_b.eq(scales_b[0].word_select(column, 8)),
                adder.a.eq(self.sums[index]),
                adder.b.eq(scaler.o),
                adder.op.eq(Combine.SUM),
                self.write[index].eq(adder.o),
            ]
            with m.If(adds.fresh):  # +0: where the exponent is 0 the fraction does not count
                m.d.comb += [adder.a.exponent.eq(0), adder.a.sign.eq(0)]
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
