"""The vector pipe: ``unary(f(a, b, c))`` of a beat a cycle, without stalls."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Adder, Combine
from hw.arithmetic.comparator import Choice, Comparator
from hw.arithmetic.converters import Widener
from hw.arithmetic.formats import Float16, Float32
from hw.arithmetic.multiplier import Multiplier
from hw.arithmetic.pipeline import delayed
from hw.arithmetic.seeds import Seed, SeedUnit
from hw.common.interfaces import code
from hw.vector.check import RECORD

ONE = 0x3F800000
MINUS_ZERO = 0x80000000
ABSENT = (ONE, ONE, MINUS_ZERO)
"""What a source that is not there counts as: ``x * 1`` and ``x + -0`` are x, whatever x is."""

CHOICES = {
    "max": Choice.MAX,
    "min": Choice.MIN,
    "lt": Choice.LT,
    "le": Choice.LE,
    "eq": Choice.EQ,
    "select": Choice.SELECT,
}
SEEDS = {"exp2": Seed.EXP2, "log2": Seed.LOG2, "recip": Seed.RECIP, "rsqrt": Seed.RSQRT}


class VectorPipe(wiring.Component):
    """A lane for each element of a beat: widen, multiply and add or compare, then the unary.

    How long a beat takes depends on the operation, so nothing may be on its way when `f` or
    `unary` changes.

    Parameters
    ----------
    lanes : int
        Elements of a beat.

    Members
    -------
    valid : In(1)
        There is a beat.
    source_0, source_1, source_2 : In(ArrayLayout(32, lanes))
        ``a b c``: FP32, or FP16 in the low halves where `half_0` ... says so.
    f, unary : In
        As encoded.
    o_valid, o : Out(1), Out(ArrayLayout(Float32, lanes))
        Results, in order.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        beat = data.ArrayLayout(32, lanes)
        super().__init__(
            {
                "valid": In(1),
                "f": In(RECORD.by_name["f"].kind.width),
                "unary": In(RECORD.by_name["unary"].kind.width),
                "o_valid": Out(1),
                "o": Out(data.ArrayLayout(Float32, lanes)),
            }
            | {f"source_{n}": In(beat) for n in range(3)}
            | {f"half_{n}": In(1) for n in range(3)}
        )

    def elaborate(self, platform: object) -> Module:
        """Build the lanes, and a valid bit beside them."""
        m = Module()
        is_mac = self.f == code(RECORD, "f", "mac")
        choice, seed = Signal(Choice), Signal(Seed)
        with m.Switch(self.f):
            for name, value in CHOICES.items():
                with m.Case(code(RECORD, "f", name)):
                    m.d.comb += choice.eq(value)
        is_seed = Signal()
        with m.Switch(self.unary):
            for name, value in SEEDS.items():
                with m.Case(code(RECORD, "unary", name)):
                    m.d.comb += [seed.eq(value), is_seed.eq(1)]
        is_abs = self.unary == code(RECORD, "unary", "abs")
        is_neg = self.unary == code(RECORD, "unary", "neg")

        valid = delayed(m, self.valid, Widener.latency, reset=True)
        compared = delayed(m, valid, Comparator.latency, reset=True)
        # Only the chain in use gets beats: the others must be empty when the operation changes.
        to_add = Multiplier.latency + Adder.latency - Comparator.latency
        added = delayed(m, compared & is_mac, to_add, reset=True)
        combined = Mux(is_mac, added, compared)
        seeded = delayed(m, combined & is_seed, SeedUnit.latency, reset=True)
        m.d.comb += self.o_valid.eq(delayed(m, Mux(is_seed, seeded, combined), 1, reset=True))

        for n in range(self._lanes):
            a, b, c = (self._operand(m, source, n) for source in range(3))
            m.submodules[f"multiplier_{n}"] = multiplier = Multiplier()
            m.submodules[f"adder_{n}"] = adder = Adder()
            m.submodules[f"comparator_{n}"] = comparator = Comparator()
            m.submodules[f"seed_{n}"] = unit = SeedUnit()
            m.d.comb += [
                multiplier.a.eq(a),
                multiplier.b.eq(b),
                adder.a.eq(multiplier.o),
                adder.b.eq(delayed(m, c, Multiplier.latency)),
                adder.op.eq(Combine.SUM),
                comparator.a.eq(a),
                comparator.b.eq(b),
                comparator.c.eq(c),
                comparator.op.eq(choice),
            ]
            value, result = Signal(Float32), Signal(Float32, reset_less=True)
            m.d.comb += [
                value.eq(Mux(is_mac, adder.o.as_value(), comparator.o.as_value())),
                unit.i.eq(value),
                unit.op.eq(seed),
                self.o[n].eq(result),
            ]
            signed = Mux(is_abs, 0, value.sign ^ is_neg)
            changes = (is_abs | is_neg) & ~value.is_nan  # the NaN has no sign
            m.d.sync += result.eq(Mux(is_seed, unit.o.as_value(), value.as_value()))
            with m.If(~is_seed & changes):
                m.d.sync += result.sign.eq(signed)
        return m

    def _operand(self, m: Module, source: int, lane: int) -> data.View:
        m.submodules[f"widener_{source}_{lane}"] = widener = Widener()
        raw = getattr(self, f"source_{source}")[lane]
        plain = delayed(m, raw, Widener.latency)
        operand = Signal(Float32, name=f"operand_{source}_{lane}")
        is_half = getattr(self, f"half_{source}")
        m.d.comb += [
            widener.i.eq(Float16(raw[:16])),
            operand.eq(Mux(is_half, widener.o.as_value(), plain)),
        ]
        return operand
