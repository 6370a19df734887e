"""The seed functions ``exp2 log2 recip rsqrt``: one table, one quadratic, one rounding."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import multiply, normalise_to, round_up, shift_right
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
    """A row of the tables: magnitudes, since a whole table has the same signs."""

    c0: unsigned(28)
    c1: unsigned(21)
    c2: unsigned(8)


# Each of these is a memory, and read when it is needed: only its address goes along.
EARLY = ("c1", "c2")
LATE = ("c0",)

# Whose coefficients are negative, in P = C0 + (C1 + C2 * t) * t; a logarithm has a negative C2.
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
    """Return one row as the memories hold it; see `rom`."""
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

    latency = 12

    def __init__(self) -> None:
        super().__init__({"i": In(Float32), "op": In(Seed), "o": Out(Float32)})

    def elaborate(self, platform: object) -> Module:
        """Reduce the range, look up, evaluate, normalise, round."""
        m = Module()
        stage = Stages(m)
        total = self._evaluate(m, stage, self._reduce(m, stage))

        # No logarithm but 0 is below 2**-24: five steps reach the leading one.
        magnitude, places = normalise_to(m, total.total, (16, 8), 32)
        coarse = stage(total, magnitude=magnitude, places=places)

        magnitude, places = normalise_to(m, coarse.magnitude, (4, 2, 1), 25)
        exponent = Signal(signed(11))
        top = TOTAL_BITS - 2 - UNIT + EXPONENT_BIAS
        m.d.comb += exponent.eq(coarse.exponent + top - Cat(places, coarse.places))
        kept = magnitude[2:]
        normal = stage(
            coarse,
            # The largest reciprocal below 2**-126 is a whole place away: no rounding reaches it.
            zero=coarse.zero | ~magnitude[-1] | (exponent <= 0),
            exponent=exponent,
            kept=kept,
            increment=round_up(kept, magnitude[1], magnitude[0]),
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
        counts = ~i.is_zero
        keep = counts & ~distance[5:].any()
        places, lost = shift_right(m, Cat(Const(0, 7), i.fraction, 1), distance[:5], keep)
        first = stage(
            i=i,
            op=self.op,
            far=far,
            steps=places[:30] ^ i.sign.replicate(30),
            lost=counts & (lost | distance[5:].any()),
        )

        i = first.i
        # Rounding down: of a negative number, what was lost counts one more step down.
        steps = (Cat(first.steps, i.sign) + (i.sign & ~first.lost))[:31]
        whole = steps[23:].as_signed()
        power = Signal(signed(9))
        m.d.comb += power.eq(i.exponent - EXPONENT_BIAS)

        code, exponent, sign = Signal(23), Signal(signed(9)), Signal()
        nan, infinite, zero, flips = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [nan.eq(i.is_nan), code.eq(i.fraction)]
        with m.Switch(first.op):
            with m.Case(Seed.EXP2):
                m.d.comb += [code.eq(steps), exponent.eq(whole)]
                m.d.comb += infinite.eq(first.far & ~i.sign)
                m.d.comb += zero.eq(first.far & i.sign)
            with m.Case(Seed.LOG2):
                m.d.comb += exponent.eq(power)
                m.d.comb += nan.eq(i.is_nan | (i.sign & ~i.is_zero))
                m.d.comb += infinite.eq(i.is_zero | i.is_infinite)
                # The logarithm of a number below 1 is negative, and computed as its magnitude.
                m.d.comb += [flips.eq(power < 0), sign.eq(power < 0)]
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
            flips=flips,
            exponent=exponent,
            segment=code[OFFSET_BITS:],
            offset=code[:OFFSET_BITS],
        )

    def _evaluate(self, m: Module, stage: Stages, reduced: SimpleNamespace) -> SimpleNamespace:
        """Return the magnitude of ``C0 + C1 * t + C2 * t**2``, for a logarithm plus its exponent.

        All of it is exact. Where a number has to be negated it is inverted, and the one that is
        missing goes into a carry.
        """
        addressed = stage(reduced, address=Cat(reduced.segment, reduced.op))
        c = _looked_up(m, EARLY, addressed.address)
        found = stage(addressed)
        curved = stage(found, c1=c["c1"], bend=multiply(m, found.offset, c["c2"]))

        # C1 falls for some, C2 for the logarithm, or with `flips` the other one: never both.
        falls = _is_any(curved.op, VALUE_FALLS) | curved.flips
        bends_down = (curved.op == Seed.LOG2) & ~curved.flips
        base = Cat(Const(0, C1_PLACE), curved.c1, Const(0, 1)) ^ falls.replicate(32)
        bend = Cat(curved.bend, Const(0, 32 - len(curved.bend))) ^ bends_down.replicate(32)
        slope = (Cat(Const(1, 1), base) + Cat(falls | bends_down, bend))[1:33]
        sloped = stage(curved, slope=slope)

        low, high = sloped.slope[:16], sloped.slope[16:].as_signed()
        halves = stage(sloped, low=low * sloped.offset, high=high * sloped.offset)
        c = _looked_up(m, LATE, halves.address)
        upper = (halves.high + halves.low[16:])[:32]
        whole = stage(halves, product=Cat(halves.low[:16], upper))

        # C0 counts from `C0_PLACE` on. That of a logarithm stays below 1, so its exponent just
        # stands in front of it.
        c0 = c["c0"]
        in_front = Cat(c0[: UNIT - C0_PLACE], whole.exponent[:8])
        start = Mux(whole.op == Seed.LOG2, in_front, c0)[: TOTAL_BITS - C0_PLACE]
        start = start ^ whole.flips.replicate(len(start))
        product = whole.product[C0_PLACE:].as_signed()
        upper = (Cat(Const(1, 1), start) + Cat(whole.flips, product).as_signed())[1:]
        total = Cat(whole.product[:C0_PLACE], upper)[: TOTAL_BITS - 1]
        exponent = Mux(whole.op == Seed.LOG2, 0, whole.exponent)
        return stage(whole, total=total, exponent=exponent)


def _looked_up(m: Module, parts: tuple[str, ...], address: Value) -> data.View:
    """Return those parts of the row at an address, a clock edge later."""
    shape = data.StructLayout({part: Coefficients.as_shape()[part].shape for part in parts})
    rows = [{part: row[part] for part in parts} for row in rom()]
    m.submodules["_".join(("rom", *parts))] = memory = Memory(
        shape=shape, depth=len(rows), init=rows
    )
    port = memory.read_port()
    m.d.comb += [port.en.eq(1), port.addr.eq(address)]
    return port.data


def _is_any(op: Value, choices: tuple[Seed, ...]) -> Value:
    return Cat(op == choice for choice in choices).any()
