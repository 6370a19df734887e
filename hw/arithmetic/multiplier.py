"""FP32 multiplication."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import multiply, round_up
from hw.arithmetic.formats import EXPONENT_BIAS, Float32, pack
from hw.arithmetic.pipeline import Stages

# A significand is 18 bits, as much as a hardware multiplier of an ECP5 takes, and 6 more: three
# such multipliers, and a product short enough for logic.
LOW = 6


class Multiplier(wiring.Component):
    """``o = a * b``.

    Members
    -------
    a, b : In(Float32)
        Operands.
    o : Out(Float32)
        The result, `latency` cycles later.
    """

    latency = 4

    def __init__(self) -> None:
        super().__init__({"a": In(Float32), "b": In(Float32), "o": Out(Float32)})

    def elaborate(self, platform: object) -> Module:
        """Multiply the parts, add the products, normalise, round."""
        m = Module()
        stage = Stages(m)
        a, b = self.a, self.b

        # Of a zero the significand does not matter, so none is masked on the way in.
        sa, sb = Cat(a.fraction, 1), Cat(b.fraction, 1)
        zero = a.is_zero | b.is_zero
        infinite = a.is_infinite | b.is_infinite
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(a.exponent + b.exponent - EXPONENT_BIAS)
        parts = stage(
            nan=a.is_nan | b.is_nan | (zero & infinite),
            infinite=infinite,
            zero=zero,
            sign=a.sign ^ b.sign,
            exponent=exponent,
            low=multiply(m, sa[:LOW], sb[:LOW]),
            left=sa[LOW:] * sb[:LOW],
            right=sa[:LOW] * sb[LOW:],
            high=sa[LOW:] * sb[LOW:],
        )

        outer = Cat(parts.low, parts.high)
        inner = (parts.left + parts.right) << LOW
        whole = stage(parts, product=(outer + inner)[:48])

        double = whole.product[47]
        places = Mux(double, whole.product, whole.product << 1)[:48]
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(whole.exponent + double)
        kept = places[24:]
        # IEEE rounds a subnormal result at 2**-149: only 24 ones reach the smallest normal number.
        reaches_normal = (exponent == 0) & kept.all()
        normal = stage(
            whole,
            zero=whole.zero | ((exponent <= 0) & ~reaches_normal),
            exponent=exponent,
            kept=kept,
            increment=reaches_normal | round_up(kept, places[23], places[:23].any()),
        )
        m.d.comb += self.o.eq(stage(o=pack(normal)).o)
        assert stage.count == self.latency
        return m
