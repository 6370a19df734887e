"""FP32 multiplication."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import multiply, round_up
from hw.arithmetic.formats import Float32, choose
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
        # The sum less 127 is the sum and 1, less 128.
        raised = (Cat(Const(1, 1), a.exponent) + Cat(Const(1, 1), b.exponent))[1:]
        top = raised[7:] - 1
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(Cat(raised[:7], top[:3]))
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
        kept = places[24:]
        # IEEE rounds a subnormal result at 2**-149: only 24 ones reach the smallest normal number.
        # The exponent lacks the one of a product of two or more.
        below = whole.exponent < 0
        is_subnormal = Mux(double, whole.exponent == -1, whole.exponent == 0)
        reaches_normal = is_subnormal & kept.all()
        least = below & ~(double & (whole.exponent == -1))
        normal = stage(
            whole,
            zero=whole.zero | ((least | is_subnormal) & ~reaches_normal),
            double=double,
            kept=kept,
            increment=reaches_normal | round_up(kept, places[23], places[:23].any()),
        )
        carries = Cat(normal.increment, Const(0, 22), normal.double)
        code = (Cat(normal.kept[:23], normal.exponent[:8]) + carries)[:31]
        is_large = ~normal.exponent[9] & (
            normal.exponent[8] | (normal.exponent[1:8].all() & (normal.exponent[0] | normal.double))
        )
        huge = normal.infinite | (is_large & ~normal.zero)
        m.d.comb += self.o.eq(stage(o=choose(normal, code, huge)).o)
        assert stage.count == self.latency
        return m
