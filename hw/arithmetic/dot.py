"""The product of two MX blocks: an exact integer sum, then one FP32 partial."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import normalise
from hw.arithmetic.formats import EXPONENT_BIAS, Float32, pack
from hw.arithmetic.pipeline import Stages, delayed
from kohakutpu.config import KBLOCK

SUM_BITS = 21  # 32 * (-128)**2 = 2**19 is the largest magnitude, and may be positive
SCALE_BIAS = 266  # 127 of each scale, 6 of each element's fraction
NAN_SCALE = 0xFF


class BlockDot(wiring.Component):
    """Sums the 32 products of a block pair, ``k_per_cycle`` of them a cycle.

    Slices of a pair come in consecutive cycles. ``o`` is their sum `latency` cycles after the last.

    Parameters
    ----------
    k_per_cycle : int
        Elements a slice: 4, 8, 16 or 32.

    Members
    -------
    a, b : In(ArrayLayout(signed(8), k_per_cycle))
        Elements; -128 is allowed.
    more : In(1)
        The next slice belongs to the same pair.
    o : Out(signed(21))
        The sum.

    Raises
    ------
    ValueError
        If `k_per_cycle` is not one of those.
    """

    def __init__(self, k_per_cycle: int) -> None:
        if k_per_cycle not in (4, 8, 16, KBLOCK):
            raise ValueError(f"k_per_cycle must be 4, 8, 16 or {KBLOCK}, not {k_per_cycle!r}")
        self._k_per_cycle = k_per_cycle
        elements = data.ArrayLayout(signed(8), k_per_cycle)
        super().__init__(
            {
                "a": In(elements),
                "b": In(elements),
                "more": In(1),
                "o": Out(signed(SUM_BITS)),
            }
        )

    @property
    def k_per_cycle(self) -> int:
        """Elements a slice."""
        return self._k_per_cycle

    @property
    def latency(self) -> int:
        """Clock edges from a slice to the sum with it."""
        return self._k_per_cycle.bit_length()

    def elaborate(self, platform: object) -> Module:
        """Multiply and add in a tree, accumulate.

        Every sum has a register: of sums of sums Yosys makes rows of full adders, which take two
        LUTs a bit where a carry chain takes one. Products have none: a register behind an adder is
        part of it, one behind a multiplier has wires of its own.
        """
        m = Module()
        stage = Stages(m)
        values: list[Value] = [self.a[i] * self.b[i] for i in range(self.k_per_cycle)]
        while len(values) > 1:
            values = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
            values = list(vars(stage(**{f"sum_{i}": v for i, v in enumerate(values)})).values())
        # Two registers: that one of them is cleared saves a choice in front of the sum.
        before = Signal(signed(SUM_BITS), reset_less=True)
        total = before + values[0]
        more = delayed(m, self.more, stage.count, reset=True)
        m.d.sync += [self.o.eq(total), before.eq(Mux(more, total, 0))]
        assert stage.count + 1 == self.latency
        return m


class PartialScaler(wiring.Component):
    """``o = total * 2**(scale_a + scale_b - 266)``.

    Exact, but for the ends of the range: a zero with the sign of the sum below the normal
    numbers, an infinity above them. NaN where a scale is 0xFF.

    Members
    -------
    total : In(signed(21))
        A block's sum.
    scale_a, scale_b : In(8)
        Scales of the two blocks, E8M0.
    o : Out(Float32)
        The partial, `latency` cycles later.
    """

    latency = 3

    def __init__(self) -> None:
        super().__init__(
            {
                "total": In(signed(SUM_BITS)),
                "scale_a": In(8),
                "scale_b": In(8),
                "o": Out(Float32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Split off the sign, normalise, pack."""
        m = Module()
        stage = Stages(m)
        negative = self.total < 0
        exponent = Signal(signed(11))
        top = SUM_BITS - 2  # the highest bit of a magnitude
        m.d.comb += exponent.eq(self.scale_a + self.scale_b - (SCALE_BIAS - EXPONENT_BIAS - top))
        split = stage(
            nan=(self.scale_a == NAN_SCALE) | (self.scale_b == NAN_SCALE),
            sign=negative,
            magnitude=Mux(negative, -self.total, self.total)[: top + 1],
            exponent=exponent,
        )

        places, count = normalise(m, split.magnitude, (16, 8, 4, 2, 1))
        exponent = Signal(signed(11))
        m.d.comb += exponent.eq(split.exponent - count)
        normal = stage(
            split,
            zero=~places[top] | (exponent <= 0),
            infinite=Const(0, 1),
            exponent=exponent,
            kept=Cat(Const(0, 23 - top), places),
            increment=Const(0, 1),
        )
        m.d.comb += self.o.eq(stage(o=pack(normal)).o)
        assert stage.count == self.latency
        return m
