"""The vector pipe: ``unary(f(a, b, c))`` of a beat a cycle, without stalls."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Adder, Combine
from hw.arithmetic.comparator import Choice, Comparator
from hw.arithmetic.converters import Widener
from hw.arithmetic.formats import Float32
from hw.arithmetic.multiplier import Multiplier
from hw.arithmetic.pipeline import delayed, kept
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


class Control(data.Struct):
    """What a beat's lanes do, on its way beside them."""

    halves: 3
    is_mac: 1
    choice: Choice
    is_seed: 1
    seed: Seed
    is_abs: 1
    is_neg: 1


class VectorPipe(wiring.Component):
    """A lane for each element of a beat: widen, multiply and add or compare, then the unary.

    Parameters
    ----------
    lanes : int
        Elements of a beat.

    Members
    -------
    valid : In(1)
        There is a beat.
    source_0, source_1, source_2 : In(ArrayLayout(32, lanes))
        ``a b c``, of FP32.
    half_0, half_1, half_2 : In(ArrayLayout(16, lanes))
        The same of FP16.
    is_half_0, is_half_1, is_half_2 : In(1)
        Which of the two it is. What comes from far away as FP32 waits for no conversion.
    f, unary : In
        What becomes of it, as encoded.
    o_valid, o : Out(1), Out(ArrayLayout(Float32, lanes))
        Results, `latency` cycles later.
    """

    latency = Widener.latency + Multiplier.latency + Adder.latency + SeedUnit.latency + 1

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        beat, halves = data.ArrayLayout(32, lanes), data.ArrayLayout(16, lanes)
        super().__init__(
            {
                "valid": In(1),
                "f": In(RECORD.by_name["f"].kind.width),
                "unary": In(RECORD.by_name["unary"].kind.width),
                "o_valid": Out(1),
                "o": Out(data.ArrayLayout(Float32, lanes)),
            }
            | {f"source_{n}": In(beat) for n in range(3)}
            | {f"half_{n}": In(halves) for n in range(3)}
            | {f"is_half_{n}": In(1) for n in range(3)}
        )

    def elaborate(self, platform: object) -> Module:
        """Build the lanes; every path through one takes the same time."""
        m = Module()
        control = self._control(m)
        widened = delayed(m, control, Widener.latency)
        ordered = delayed(m, widened, Multiplier.latency)
        combined = delayed(m, ordered, Adder.latency)
        finished = delayed(m, combined, SeedUnit.latency)
        m.d.comb += self.o_valid.eq(delayed(m, self.valid, self.latency, reset=True))
        for n in range(self._lanes):
            a, b, c = (self._operand(m, control, source, n) for source in range(3))
            m.submodules[f"multiplier_{n}"] = multiplier = Multiplier()
            m.submodules[f"adder_{n}"] = adder = Adder(orders=False)
            m.submodules[f"comparator_{n}"] = comparator = Comparator()
            m.submodules[f"seed_{n}"] = unit = SeedUnit()
            # What was compared goes through the adder, with the zero that changes nothing.
            compared = delayed(m, comparator.o, Multiplier.latency - Comparator.latency)
            summand = delayed(m, c, Multiplier.latency)
            m.d.comb += [
                multiplier.a.eq(a),
                multiplier.b.eq(b),
                adder.a.eq(Mux(ordered.is_mac, multiplier.o.as_value(), MINUS_ZERO)),
                adder.b.eq(Mux(ordered.is_mac, summand.as_value(), compared.as_value())),
                adder.op.eq(Combine.SUM),
                comparator.a.eq(a),
                comparator.b.eq(b),
                comparator.c.eq(c),
                comparator.op.eq(widened.choice),
            ]
            value, signed = adder.o, Signal(Float32)
            sign = Mux(combined.is_abs, 0, value.sign ^ combined.is_neg)
            m.d.comb += [
                unit.i.eq(value),
                unit.op.eq(combined.seed),
                signed.eq(value),
                signed.sign.eq(Mux(value.is_nan, value.sign, sign)),  # the NaN has no sign
            ]
            plain = kept(m, f"plain_{n}", signed, SeedUnit.latency)
            result = Mux(finished.is_seed, unit.o.as_value(), plain.as_value())
            m.d.comb += self.o[n].eq(delayed(m, result, 1))
        return m

    def _control(self, m: Module) -> data.View:
        control = Signal(Control)
        m.d.comb += [
            control.is_mac.eq(self.f == code(RECORD, "f", "mac")),
            control.is_abs.eq(self.unary == code(RECORD, "unary", "abs")),
            control.is_neg.eq(self.unary == code(RECORD, "unary", "neg")),
        ]
        for n in range(3):
            m.d.comb += control.halves[n].eq(getattr(self, f"is_half_{n}"))
        with m.Switch(self.f):
            for name, value in CHOICES.items():
                with m.Case(code(RECORD, "f", name)):
                    m.d.comb += control.choice.eq(value)
        with m.Switch(self.unary):
            for name, value in SEEDS.items():
                with m.Case(code(RECORD, "unary", name)):
                    m.d.comb += [control.seed.eq(value), control.is_seed.eq(1)]
        return control

    def _operand(self, m: Module, control: data.View, source: int, lane: int) -> data.View:
        m.submodules[f"widener_{source}_{lane}"] = widener = Widener()
        m.d.comb += [
            widener.is_half.eq(control.halves[source]),
            widener.half.eq(getattr(self, f"half_{source}")[lane]),
            widener.i.eq(getattr(self, f"source_{source}")[lane]),
        ]
        return widener.o
