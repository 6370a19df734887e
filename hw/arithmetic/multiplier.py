"""FP32 multiplication."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import round_up
from hw.arithmetic.formats import EXPONENT_BIAS, Float32, pack
from hw.arithmetic.pipeline import Stages

HALF = 12  # a 24-bit significand in halves: four products of one hardware multiplier each


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
        """Multiply the halves, add them, normalise, round."""
        m = Module()
        stage = Stages(m)
        a, b = self.a, self.b

        # Of a zero the significand does not matter, so none is masked on the way in.
        sa, sb = Cat(a.fraction, 1), Cat(b.fraction, 1)
        zero = a.is_zero | b.is_zero
        infinite = a.is_infinite | b.is_infinite
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(a.exponent + b.exponent - EXPONENT_BIAS)
        halves = stage(
            nan=a.is_nan | b.is_nan | (zero & infinite),
            infinite=infinite,
            zero=zero,
            sign=a.sign ^ b.sign,
            exponent=exponent,
            low=sa[:HALF] * sb[:HALF],
            left=sa[HALF:] * sb[:HALF],
            right=sa[:HALF] * sb[HALF:],
            high=sa[HALF:] * sb[HALF:],
        )

        outer = Cat(halves.low, halves.high)
        inner = (halves.left + halves.right) << HALF
        whole = stage(halves, product=(outer + inner)[:48])

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
