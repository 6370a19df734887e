"""The seed functions ``exp2 log2 recip rsqrt``: one table, one quadratic, one rounding."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import multiply, normalise, round_up, shift_right
from hw.arithmetic.formats import EXPONENT_BIAS, Float32, pack
from hw.arithmetic.pipeline import Stages
from kohakutpu.numerics import seed_tables
from kohakutpu.numerics.quadratic import OFFSET_BITS, SEGMENTS, Quadratic

UNIT = 53  # one step of the polynomial is 2**-53, whatever the table counts in
C0_PLACE = 26  # places from the unit of C0 to that step; and from that of C1 * t
C1_PLACE = 10
TOTAL_BITS = UNIT + 8  # a logarithm has 8 bits above its point, sign included


class Seed(enum.Enum, shape=2):
    """Which function."""

    EXP2 = 0
    LOG2 = 1
    RECIP = 2
    RSQRT = 3


TABLES = {
    Seed.EXP2: seed_tables.EXP2,
    Seed.LOG2: seed_tables.LOG2,
    Seed.RECIP: seed_tables.RECIP,
    Seed.RSQRT: seed_tables.RSQRT,
}


class Coefficients(data.Struct):
    """A row of the ROM: magnitudes, since a whole table has the same signs."""

    c0: unsigned(28)
    c1: unsigned(21)
    c2: unsigned(8)


# What is done with C1 and C2 to reach P = C0 +- (C1 +- C2 * t) * t.
SLOPE_GROWS = (Seed.EXP2,)
VALUE_FALLS = (Seed.RECIP, Seed.RSQRT)


def rom() -> list[dict[str, int]]:
    """Return the rows of all tables in the order of `Seed`, brought to one unit.

    Raises
    ------
    ValueError
        If a coefficient has another sign than the datapath assumes, or too many bits.
    """
    return [row(op, table, segment) for op, table in TABLES.items() for segment in range(SEGMENTS)]


def row(op: Seed, table: Quadratic, segment: int) -> dict[str, int]:
    """Return one row as the ROM holds it; see `rom`."""
    spare = UNIT - table.unit
    outer = -1 if op in VALUE_FALLS else 1
    inner = 1 if op in SLOPE_GROWS else -1
    c0, c1, c2 = table.rows[segment]
    values = {
        "c0": c0 << (table.c0_shift + spare - C0_PLACE),
        "c1": outer * c1 << (table.c1_shift + spare - C1_PLACE),
        "c2": outer * inner * c2 << spare,
    }
    for name, value in values.items():
        width = Coefficients.as_shape()[name].width
        if not 0 <= value < 1 << width:
            raise ValueError(
                f"table {table.name}, segment {segment}: {name} is {value}, not {width} bits "
                f"without sign"
            )
    return values


class SeedUnit(wiring.Component):
    """``o = exp2(i)``, ``log2(i)``, ``1 / i`` or ``1 / sqrt(i)``.

    Members
    -------
    i : In(Float32)
        Operand.
    op : In(Seed)
        Which function.
    o : Out(Float32)
        The result, `latency` cycles later.
    """

    latency = 13

    def __init__(self) -> None:
        super().__init__({"i": In(Float32), "op": In(Seed), "o": Out(Float32)})

    def elaborate(self, platform: object) -> Module:
        """Reduce the range, look up, evaluate, normalise, round."""
        m = Module()
        stage = Stages(m)
        total = self._evaluate(m, stage, self._reduce(m, stage))

        negative = total.total < 0
        magnitude = Mux(negative, -total.total, total.total)[: TOTAL_BITS - 1]
        split = stage(
            total,
            # Of a special result the sign is settled, and the total nobody's business.
            sign=total.sign | (negative & ~total.infinite),
            magnitude=magnitude,
            exponent=Mux(total.op == Seed.LOG2, 0, total.exponent),
        )
        magnitude, places = normalise(m, split.magnitude, (32, 16, 8))
        coarse = stage(split, magnitude=magnitude, places=places)

        magnitude, places = normalise(m, coarse.magnitude, (4, 2, 1))
        exponent = Signal(signed(11))
        top = TOTAL_BITS - 2 - UNIT + EXPONENT_BIAS
        m.d.comb += exponent.eq(coarse.exponent + top - Cat(places, coarse.places))
        kept = magnitude[-24:]
        normal = stage(
            coarse,
            # The largest reciprocal below 2**-126 is a whole place away: no rounding reaches it.
            zero=coarse.zero | ~magnitude[-1] | (exponent <= 0),
            exponent=exponent,
            kept=kept,
            increment=round_up(kept, magnitude[-25], magnitude[:-25].any()),
        )
        m.d.comb += self.o.eq(stage(o=pack(normal)).o)
        assert stage.count == self.latency
        return m

    def _reduce(self, m: Module, stage: Stages) -> SimpleNamespace:
        """Find segment, offset and exponent; settle what no polynomial gives."""
        i = self.i
        # |i| below 128 as 7 bits before the point and 23 behind it.
        far = i.exponent >= EXPONENT_BIAS + 7
        distance = (EXPONENT_BIAS + 7 - i.exponent)[:8]
        places, lost = shift_right(m, Cat(Const(0, 7), i.significand), distance[:5])
        gone = distance[5:].any()
        first = stage(
            i=i,
            op=self.op,
            far=far,
            steps=Mux(gone, 0, places)[:30],
            lost=Mux(gone, i.significand.any(), lost),
        )

        i = first.i
        # Rounding down: of a negative number, what was lost counts one more step down.
        steps = Mux(i.sign, ~Cat(first.steps, 0) + ~first.lost, first.steps)[:31]
        whole = steps[23:].as_signed()
        power = Signal(signed(9))
        m.d.comb += power.eq(i.exponent - EXPONENT_BIAS)

        code, exponent, sign = Signal(23), Signal(signed(9)), Signal()
        nan, infinite, zero = Signal(), Signal(), Signal()
        m.d.comb += [nan.eq(i.is_nan), code.eq(i.fraction)]
        with m.Switch(first.op):
            with m.Case(Seed.EXP2):
                m.d.comb += [code.eq(steps), exponent.eq(whole)]
                m.d.comb += infinite.eq(first.far & ~i.sign)
                m.d.comb += zero.eq(first.far & i.sign)
            with m.Case(Seed.LOG2):
                m.d.comb += exponent.eq(power)
                m.d.comb += nan.eq(i.is_nan | (i.sign & ~i.is_zero))
                m.d.comb += [infinite.eq(i.is_zero | i.is_infinite), sign.eq(i.is_zero)]
            with m.Case(Seed.RECIP):
                m.d.comb += [exponent.eq(-power), sign.eq(i.sign)]
                m.d.comb += [infinite.eq(i.is_zero), zero.eq(i.is_infinite)]
            with m.Case(Seed.RSQRT):
                m.d.comb += [
                    code.eq(Cat(i.fraction[1:], i.exponent[0])),
                    exponent.eq(-(power >> 1)),
                ]
                m.d.comb += nan.eq(i.is_nan | (i.sign & ~i.is_zero))
                m.d.comb += [infinite.eq(i.is_zero), zero.eq(i.is_infinite), sign.eq(i.sign)]
        return stage(
            op=first.op,
            nan=nan,
            infinite=infinite,
            zero=zero,
            sign=sign,
            exponent=exponent,
            segment=code[OFFSET_BITS:],
            offset=code[:OFFSET_BITS],
        )

    def _evaluate(self, m: Module, stage: Stages, reduced: SimpleNamespace) -> SimpleNamespace:
        """Return ``C0 +- (C1 +- C2 * t) * t``, exactly, plus the exponent for a logarithm."""
        m.submodules.rom = memory = Memory(
            shape=Coefficients, depth=len(TABLES) * SEGMENTS, init=rom()
        )
        port = memory.read_port()
        m.d.comb += [port.en.eq(1), port.addr.eq(Cat(reduced.segment, reduced.op))]
        addressed = stage(reduced)
        found = stage(addressed, c=port.data)
        curved = stage(found, bend=multiply(m, found.offset, found.c.c2))

        base = Cat(Const(0, C1_PLACE), curved.c.c1)
        grows = _is_any(curved.op, SLOPE_GROWS)
        slope = Mux(grows, base + curved.bend, base - curved.bend)[:31]
        sloped = stage(curved, slope=slope)

        low, high = sloped.slope[:16], sloped.slope[16:]
        halves = stage(sloped, low=low * sloped.offset, high=high * sloped.offset)
        whole = stage(halves, product=(halves.low + (halves.high << 16))[:47])

        start = Signal(signed(TOTAL_BITS))
        place, c0 = Const(0, C0_PLACE), whole.c.c0
        # Of a logarithm C0 stays below 1, so the exponent just stands in front of it.
        log_start = Cat(place, c0[: UNIT - C0_PLACE], whole.exponent[:8])
        m.d.comb += start.eq(Mux(whole.op == Seed.LOG2, log_start, Cat(place, c0)))
        falls = _is_any(whole.op, VALUE_FALLS)
        total = Mux(falls, start - whole.product, start + whole.product)
        return stage(whole, total=total[:TOTAL_BITS].as_signed())


def _is_any(op: Value, choices: tuple[Seed, ...]) -> Value:
    return Cat(op == choice for choice in choices).any()
