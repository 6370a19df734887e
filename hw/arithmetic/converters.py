"""FP16 to FP32 and back."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import normalise, round_up, shift_right
from hw.arithmetic.formats import HALF_INFINITY, HALF_NAN, Float16, Float32
from hw.arithmetic.pipeline import Stages

REBIAS = 127 - 15


class Widener(wiring.Component):
    """``o = i``, exactly: FP16 to FP32; or FP32 as it is.

    Members
    -------
    is_half : In(1)
        Which of the operands counts.
    half : In(Float16)
        FP16, subnormals included.
    i : In(32)
        FP32.
    o : Out(Float32)
        The same number, `latency` cycles later; of FP16 every NaN is 0x7FC00000.
    """

    latency = 1

    def __init__(self) -> None:
        super().__init__({"is_half": In(1), "half": In(Float16), "i": In(32), "o": Out(Float32)})

    def elaborate(self, platform: object) -> Module:
        """Move the fields; normalise a subnormal."""
        m = Module()
        stage = Stages(m)
        i = self.half
        normal = Cat(i.fraction, (i.exponent + REBIAS)[:8])
        places, count = normalise(m, i.fraction, (8, 4, 2, 1))
        subnormal = Cat(Const(0, 1), places[:9], (REBIAS - count)[:8])
        is_special = i.exponent == 31
        is_nan = is_special & i.fraction.any()
        magnitude = Mux(
            is_special,
            Cat(Const(0, 9), is_nan, Const(255, 8)),
            Mux(i.exponent != 0, normal, Mux(i.fraction.any(), subnormal, 0)),
        )[:18]
        wide = Cat(magnitude, i.sign & ~is_nan)
        low = Mux(self.is_half, 0, self.i[:13])[:13]
        m.d.comb += self.o.eq(stage(o=Cat(low, Mux(self.is_half, wide, self.i[13:]))).o)
        assert stage.count == self.latency
        return m


class Narrower(wiring.Component):
    """``o = i`` rounded to FP16: to nearest, ties to even, subnormals kept.

    Members
    -------
    i : In(Float32)
        Operand.
    o : Out(Float16)
        The nearest FP16 number, `latency` cycles later; every NaN is 0x7E00.
    """

    latency = 2

    def __init__(self) -> None:
        super().__init__({"i": In(Float32), "o": Out(Float16)})

    def elaborate(self, platform: object) -> Module:
        """Shift to FP16's places, round."""
        m = Module()
        stage = Stages(m)
        i = self.i
        # 11 places, a guard and a sticky one; then those that a subnormal result lacks.
        places = Cat(i.significand[:12].any(), i.significand[12:])
        is_normal = i.exponent > REBIAS
        missing = Mux(is_normal, 0, REBIAS + 1 - i.exponent)[:8]
        shifted, lost = shift_right(m, places, missing[:4])
        far = missing[4:].any()
        placed = stage(
            nan=i.is_nan,
            overflow=i.exponent >= REBIAS + 31,
            sign=i.sign,
            # The leading one of a normal number counts one in the exponent field by itself.
            exponent=Mux(is_normal, i.exponent - (REBIAS + 1), 0)[:5],
            kept=Mux(far, 0, shifted[2:])[:11],
            guard=shifted[1] & ~far,
            sticky=shifted[0] | lost | far,
        )

        increment = round_up(placed.kept, placed.guard, placed.sticky)
        code = ((placed.exponent << 10) + placed.kept + increment)[:15]
        magnitude = Mux(placed.overflow, HALF_INFINITY, code)[:15]
        o = stage(o=Mux(placed.nan, HALF_NAN, Cat(magnitude, placed.sign)))
        m.d.comb += self.o.eq(o.o)
        assert stage.count == self.latency
        return m
