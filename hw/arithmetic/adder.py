"""FP32 addition; maximum and minimum through the same datapath."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import normalise, round_up, shift_right
from hw.arithmetic.formats import Float32, pack
from hw.arithmetic.pipeline import Stages


class Combine(enum.Enum, shape=2):
    """How two numbers become one."""

    SUM = 0
    MAX = 1
    MIN = 2


class Adder(wiring.Component):
    """``o = a + b``, or the larger or smaller of them.

    A maximum is the winner plus zero: the first stage, which puts the larger magnitude first
    anyway, also picks the winner. So a reduction needs no second pipeline for it.

    Members
    -------
    a, b : In(Float32)
        Operands.
    op : In(Combine)
        What to do with them.
    o : Out(Float32)
        The result, `latency` cycles later.
    """

    latency = 6

    def __init__(self) -> None:
        super().__init__({"a": In(Float32), "b": In(Float32), "op": In(Combine), "o": Out(Float32)})

    def elaborate(self, platform: object) -> Module:
        """Order, align, add, normalise in two stages, round."""
        m = Module()
        stage = Stages(m)
        a, b = self.a, self.b

        is_sum = self.op == Combine.SUM
        swap = a.magnitude < b.magnitude
        a_is_larger = Mux(a.sign != b.sign, b.sign, swap == a.sign)
        take_b = Mux(is_sum, swap, a_is_larger == (self.op == Combine.MIN))
        large, small = Signal(Float32), Signal(Float32)
        m.d.comb += large.eq(Mux(take_b, b, a))
        m.d.comb += small.eq(Mux(is_sum, Mux(take_b, a, b), Cat(Const(0, 31), large.sign)))
        distance = Mux(take_b, b.exponent - a.exponent, a.exponent - b.exponent)[:8]
        ordered = stage(
            nan=a.is_nan | b.is_nan | (large.is_infinite & small.is_infinite & (a.sign ^ b.sign)),
            infinite=large.is_infinite,
            sign=large.sign,
            zero_sign=large.sign & small.sign,
            subtract=large.sign ^ small.sign,
            exponent=large.exponent,
            distance=distance,
            large=large.significand,
            small=small.significand,
        )

        # Two places below the significand and a sticky one are enough to round any sum.
        places, lost = shift_right(m, Cat(Const(0, 2), ordered.small), ordered.distance[:5])
        far = ordered.distance[5:].any()
        aligned = stage(
            ordered,
            large=Cat(Const(0, 3), ordered.large),
            small=Mux(far, ordered.small.any(), Cat(lost, places))[:27],
        )

        total = Mux(aligned.subtract, aligned.large - aligned.small, aligned.large + aligned.small)
        added = stage(aligned, total=total[:28])
        total, places = normalise(m, added.total, (16, 8))
        coarse = stage(added, total=total, places=places)

        total, places = normalise(m, coarse.total, (4, 2, 1))
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(coarse.exponent + 1 - Cat(places, coarse.places))
        normal = stage(
            coarse,
            # No sum that is not normal was rounded: both terms count multiples of 2**-149.
            zero=~total[27] | (exponent <= 0),
            sign=Mux(total[27], coarse.sign, coarse.zero_sign),
            exponent=exponent,
            kept=total[4:],
            increment=round_up(total[4:], total[3], total[:3].any()),
        )
        m.d.comb += self.o.eq(stage(o=pack(normal)).o)
        assert stage.count == self.latency
        return m
