"""The seed functions ``exp2 log2 recip rsqrt``: one table, one quadratic, one rounding."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import normalise, round_up, shift_right
from hw.arithmetic.formats import EXPONENT_BIAS, Float32, pack
from hw.arithmetic.pipeline import Stages, delayed
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
    """A row of the ROM: magnitudes; `SIGNS` has the signs, which are those of a whole table."""

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
        reduced = self._reduce(m, stage)
        total = self._evaluate(m, stage, reduced)

        negative = total.total < 0
        split = stage(
            sign=negative,
            magnitude=Mux(negative, -total.total, total.total)[: TOTAL_BITS - 1],
        )
        coarse, places = normalise(m, split.magnitude, (32, 16, 8))
        coarse = stage(sign=split.sign, places=places, magnitude=coarse)
        fine, places = normalise(m, coarse.magnitude, (4, 2, 1))

        fate_at = stage.count - 2  # from the second stage, where it was decided
        nan, infinite, zero, sign, exponent = (
            delayed(m, value, fate_at)
            for value in (
                reduced.nan,
                reduced.infinite,
                reduced.zero,
                reduced.sign,
                Mux(reduced.op == Seed.LOG2, 0, reduced.exponent),
            )
        )
        biased = Signal(signed(11))
        top = TOTAL_BITS - 2 - UNIT + EXPONENT_BIAS
        m.d.comb += biased.eq(exponent + top - Cat(places, coarse.places))
        kept = fine[-24:]
        normal = stage(
            nan=nan,
            infinite=infinite,
            # The largest reciprocal below 2**-126 is a whole place away: no rounding reaches it.
            zero=zero | ~fine[-1] | (biased <= 0),
            sign=Mux(infinite, sign, sign | coarse.sign),
            exponent=biased,
            kept=kept,
            increment=round_up(kept, fine[-25], fine[:-25].any()),
        )
        result = pack(
            normal.sign,
            normal.exponent,
            normal.kept,
            normal.increment,
            zero=normal.zero,
            infinite=normal.infinite,
            nan=normal.nan,
        )
        m.d.comb += self.o.eq(stage(o=result).o)
        assert stage.count == self.latency
        return m

    def _reduce(self, m: Module, stage: Stages) -> object:
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

    def _evaluate(self, m: Module, stage: Stages, reduced: object) -> object:
        """Return ``C0 +- (C1 +- C2 * t) * t``, exactly, plus the exponent for a logarithm."""
        m.submodules.rom = memory = Memory(
            shape=Coefficients, depth=len(TABLES) * SEGMENTS, init=rom()
        )
        port = memory.read_port()
        m.d.comb += [port.en.eq(1), port.addr.eq(Cat(reduced.segment, reduced.op))]
        found = stage(op=reduced.op, exponent=reduced.exponent, t=reduced.offset)
        found = stage(**vars(found), c=port.data)
        squared = stage(**vars(found), c2t=found.c.c2 * found.t)

        base = Value.shift_left(squared.c.c1, C1_PLACE)
        grows = _is_any(squared.op, SLOPE_GROWS)
        slope = Mux(grows, base + squared.c2t, base - squared.c2t)[:31]
        sloped = stage(
            op=squared.op, exponent=squared.exponent, t=squared.t, c0=squared.c.c0, slope=slope
        )

        halves = stage(
            op=sloped.op,
            exponent=sloped.exponent,
            c0=sloped.c0,
            low=sloped.slope[:16] * sloped.t,
            high=sloped.slope[16:] * sloped.t,
        )
        product = stage(
            op=halves.op,
            exponent=halves.exponent,
            c0=halves.c0,
            product=(halves.low + (halves.high << 16))[:47],
        )

        start = Signal(signed(TOTAL_BITS))
        place = Const(0, C0_PLACE)
        is_log = product.op == Seed.LOG2
        # Of a logarithm C0 stays below 1, so the exponent just stands in front of it.
        m.d.comb += start.eq(
            Mux(
                is_log,
                Cat(place, product.c0[: UNIT - C0_PLACE], product.exponent[:8]),
                Cat(place, product.c0),
            )
        )
        falls = _is_any(product.op, VALUE_FALLS)
        total = Mux(falls, start - product.product, start + product.product)
        return stage(total=total[:TOTAL_BITS].as_signed())


def _is_any(op: Value, choices: tuple[Seed, ...]) -> Value:
    return Cat(op == choice for choice in choices).any()
