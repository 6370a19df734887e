"""FP32 addition; maximum and minimum through the same datapath."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import normalise, round_up, shift_right, wire
from hw.arithmetic.formats import Float32, choose
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

    Parameters
    ----------
    orders : bool
        Whether it can do more than add; if not, `op` must be ``SUM``.

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

    def __init__(self, orders: bool = True) -> None:
        self._orders = orders
        super().__init__({"a": In(Float32), "b": In(Float32), "op": In(Combine), "o": Out(Float32)})

    def elaborate(self, platform: object) -> Module:
        """Order, align, add, normalise in two stages, round."""
        m = Module()
        stage = Stages(m)
        a, b = self.a, self.b

        swap = wire(m, a.magnitude < b.magnitude, "swap")
        take_b, alone, poison = swap, Const(0, 1), Const(0, 1)
        if self._orders:
            is_sum = self.op == Combine.SUM
            a_is_larger = Mux(a.sign != b.sign, b.sign, swap == a.sign)
            take_b = Mux(is_sum, swap, a_is_larger == (self.op == Combine.MIN))
            take_b = wire(m, take_b, "take_b")
            alone, poison = ~is_sum, ~is_sum & (a.is_nan | b.is_nan)
        large, small = Signal(Float32), Signal(Float32)
        m.d.comb += [large.eq(Mux(take_b, b, a)), small.eq(Mux(take_b, a, b))]
        small_sign = Mux(alone, large.sign, small.sign)
        # ``~(a - b - 1)`` is ``b - a``: one subtraction does for either order.
        difference = (Cat(Const(1, 1), a.exponent) + Cat(~swap, ~b.exponent))[1:9]
        ordered = stage(
            poison=poison,
            sign=large.sign,
            small_sign=small_sign,
            subtract=large.sign ^ small_sign,
            exponent=large.exponent,
            distance=difference ^ swap.replicate(8),
            large=large.fraction,
            small=small.fraction,
            missing=alone | small.is_zero,
        )

        # Two places below the significand and a sticky one are enough to round any sum.
        significand = Cat(Const(0, 2), ordered.small, Const(1, 1))
        far = ordered.distance[5:].any()
        keep = ~(far | ordered.missing)
        places, lost = shift_right(m, significand, ordered.distance[:5], keep)
        addend = Cat((far | lost) & ~ordered.missing, places)
        is_special = ordered.exponent.all()
        # Of a zero the fraction may be anything: what it leads to is below the normal numbers.
        counts = ordered.exponent.any()
        opposite = ordered.subtract & (ordered.distance == 0)
        aligned = stage(
            ordered,
            nan=ordered.poison | (is_special & (ordered.large.any() | opposite)),
            infinite=is_special,
            sign=ordered.sign & (ordered.small_sign | counts),
            zero_sign=ordered.sign & ordered.small_sign,
            large=Cat(ordered.large, counts),
            small=addend ^ ordered.subtract.replicate(27),
        )

        # The place of the sticky bit is free for the one that completes a complement.
        total = Cat(aligned.subtract, Const(0, 2), aligned.large) + aligned.small
        carry = total[27] & ~aligned.subtract
        added = stage(aligned, total=Cat(total[:27], carry))
        total, places = normalise(m, added.total, (16, 8))
        coarse = stage(added, total=total, places=places)

        total, places = normalise(m, coarse.total, (4, 2, 1))
        # Less one: the leading one of the significand will count one.
        exponent = Signal(signed(9))
        m.d.comb += exponent.eq(coarse.exponent - Cat(places, coarse.places))
        normal = stage(
            coarse,
            # No sum that is not normal was rounded: both terms count multiples of 2**-149.
            zero=~total[27] | (exponent < 0),
            sign=Mux(total[27], coarse.sign, coarse.zero_sign),
            exponent=exponent[:8],
            kept=total[4:],
            increment=round_up(total[4:], total[3], total[:3].any()),
        )
        leading = Cat(normal.increment, Const(0, 22), Const(1, 1))
        code = (Cat(normal.kept[:23], normal.exponent) + leading)[:31]
        huge = normal.infinite | (normal.exponent[1:].all() & ~normal.zero)
        m.d.comb += self.o.eq(stage(o=choose(normal, code, huge)).o)
        assert stage.count == self.latency
        return m
