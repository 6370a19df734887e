"""FP16 to MXINT8: pieces of a block, one a cycle, in; the same elements out.

Elements are normalised first: one that was subnormal gets a smaller exponent instead, so no later
step knows subnormals. A first pass over the block leaves, where the residual is asked for, what a
quantisation at the block's scale would leave; the second pass quantises whatever comes.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import larger, normalise, round_up, shift_right, tree
from hw.arithmetic.formats import Float16
from hw.arithmetic.pipeline import Stages, delayed, kept
from kohakutpu.config import KBLOCK

NAN_SCALE = 0xFF
SCALE_OFFSET = 102  # of a normalised element's exponent to the scale with that power of two
FRACTION_PLACES = 4  # places below the point in the significand of the block's largest element
LARGEST = 127
EXPONENT_BITS = 6


class Normalised(data.Struct):
    """A number ``1.fraction * 2**(exponent - 25)``; 0 where all bits but the sign are.

    ``exponent == 63`` stands for Inf and NaN, 0 for zero alone: a block's largest exponent says all
    about its scale.
    """

    fraction: 10
    exponent: 6
    sign: 1

    SPECIAL = 63

    @property
    def significand(self) -> Value:
        """11 bits, the leading one included; 0 for zero."""
        return Cat(self.fraction, self.exponent.any())


def pass_latency(count: int) -> int:
    """Return how long a piece waits for the rest of its block, and two cycles more."""
    return KBLOCK // count + 2


class BlockLargest(wiring.Component):
    """Passes elements on, each with the largest exponent of its block.

    Parameters
    ----------
    count : int
        Elements a cycle.

    Members
    -------
    i : In(ArrayLayout(Normalised, count))
        A piece; those of a block in consecutive cycles.
    first, last : In(1)
        It is its block's first, last.
    o : Out(ArrayLayout(Normalised, count))
        The same piece, `pass_latency` cycles later.
    largest : Out(6)
        Exponent of the largest element of all of the block's pieces.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        piece = data.ArrayLayout(Normalised, count)
        super().__init__(
            {
                "i": In(piece),
                "first": In(1),
                "last": In(1),
                "o": Out(piece),
                "largest": Out(EXPONENT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Take the largest of each piece in a tree, then of those so far."""
        m = Module()
        stage = Stages(m)
        exponents = [self.i[n].exponent for n in range(self._count)]
        size = min(self._count, 4)
        groups = [tree(m, exponents[n : n + size], larger) for n in range(0, self._count, size)]
        groups = stage(**{f"largest_{n}": group for n, group in enumerate(groups)})
        piece = stage(largest=tree(m, list(vars(groups).values()), larger)).largest
        before, until = Signal(EXPONENT_BITS), Signal(EXPONENT_BITS)
        m.d.comb += until.eq(larger(Mux(delayed(m, self.first, 2), 0, before), piece))
        m.d.sync += before.eq(until)
        with m.If(delayed(m, self.last, 2)):
            m.d.sync += self.largest.eq(until)
        m.d.comb += self.o.eq(kept(m, "waiting", self.i, pass_latency(self._count)))
        return m


class Quantiser(wiring.Component):
    """Quantises blocks of 32 FP16 elements.

    Parameters
    ----------
    count : int
        Elements a cycle: 2, 4, 8 or 16. A block has ``32 / count`` pieces.

    Members
    -------
    valid : In(1)
        There is a piece; those of a block come in consecutive cycles.
    number : In
        Which one of its block.
    word : In(ArrayLayout(Float16, count))
        Its elements.
    residual : In(1)
        Quantise what the leading term leaves; the same for all pieces of a block.
    o_valid : Out(1)
        There are elements: `latency` cycles after each second piece.
    o_number, o_last : Out, Out(1)
        Which of the block's ``16 / count`` parts they are; the last one.
    elements : Out(ArrayLayout(signed(8), 2 * count))
        -127 to 127.
    scale : Out(8)
        The block's scale, E8M0; 0xFF, with elements of 0, where there was an Inf or NaN.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        bits = (KBLOCK // count - 1).bit_length()
        super().__init__(
            {
                "valid": In(1),
                "number": In(bits),
                "word": In(data.ArrayLayout(Float16, count)),
                "residual": In(1),
                "o_valid": Out(1),
                "o_number": Out(max(bits - 1, 1)),
                "o_last": Out(1),
                "elements": Out(data.ArrayLayout(signed(8), 2 * count)),
                "scale": Out(8),
            }
        )

    @property
    def latency(self) -> int:
        """Clock edges from a part's second piece to the part."""
        return 2 + 2 * pass_latency(self._count) + RESIDUAL_LATENCY + QUANTISE_LATENCY

    def elaborate(self, platform: object) -> Module:
        """Normalise, leave the residual, quantise, put two pieces together."""
        m = Module()
        stage = Stages(m)
        words = stage(word=Cat(_normalised(m, self.word[n]) for n in range(self._count)))

        def passed(since: int, elements: Value) -> BlockLargest:
            number = delayed(m, self.number, since)
            part = BlockLargest(self._count)
            m.d.comb += [
                part.i.eq(elements),
                part.first.eq(number == 0),
                part.last.eq(number.all()),
            ]
            return part

        m.submodules.first_pass = first_pass = passed(stage.count, words.word)
        to_residual = stage.count + pass_latency(self._count)
        wanted = delayed(m, self.residual, to_residual)
        left = _residual(m, first_pass.o, first_pass.largest, wanted)
        to_second = to_residual + RESIDUAL_LATENCY
        m.submodules.second_pass = second_pass = passed(to_second, left)
        elements, scale = _quantised(m, second_pass.o, second_pass.largest)

        to_end = to_second + pass_latency(self._count) + QUANTISE_LATENCY
        number = delayed(m, self.number, to_end)
        there = delayed(m, self.valid, to_end, reset=True)
        half = len(self.elements.as_value()) // 2
        m.d.sync += [
            self.elements.eq(Cat(self.elements.as_value()[half:], elements)),
            self.scale.eq(scale),
            self.o_valid.eq(there & number[0]),
            self.o_number.eq(number[1:]),
            self.o_last.eq(number.all()),
        ]
        assert to_end + 1 == self.latency
        return m


RESIDUAL_LATENCY = 4
QUANTISE_LATENCY = 3


def _normalised(m: Module, element: data.View) -> Value:
    """Return an FP16 number as `Normalised`."""
    places, count = normalise(m, element.fraction, (8, 4, 2, 1))
    subnormal = Mux(element.fraction.any(), Cat(Const(0, 1), places[:9], (10 - count)[:6]), 0)
    normal = Cat(element.fraction, (element.exponent + 10)[:6])
    special = Cat(element.fraction, Const(Normalised.SPECIAL, 6))
    magnitude = Mux(element.exponent == 31, special, Mux(element.exponent == 0, subnormal, normal))[
        :16
    ]
    return Cat(magnitude, element.sign)


def _residual(m: Module, word: data.View, largest: Value, wanted: Value) -> Value:
    """Return what quantising `word` leaves, exactly, or `word` itself.

    The quantised element is the significand without its ``distance + 4`` last places, rounded.
    What is left are those places, or what they lack to the next power of two, sign turned.
    """
    results = []
    keeps = ~wanted | _is_special(largest)
    for n in range(len(word)):
        stage = Stages(m)
        start = stage(element=word[n], keeps=keeps, distance=(largest - word[n].exponent)[:6])
        quotient, guard, sticky = _shifted(m, start.element, start.distance)
        dropped = Cat(
            Const(1, 1).replicate(FRACTION_PLACES),
            *(start.distance > place for place in range(11 - FRACTION_PLACES)),
        )
        # At the largest code there is no rounding up.
        up = round_up(quotient, guard, sticky) & (quotient != LARGEST)
        cut = stage(start, up=up, dropped=dropped, low=start.element.significand & dropped)
        rest = stage(cut, rest=Mux(cut.up, -cut.low & cut.dropped, cut.low)[:11])
        places, count = normalise(m, rest.rest, (8, 4, 2, 1))
        exponent = (rest.element.exponent - count)[:6]
        left = Mux(rest.rest.any(), Cat(places[:10], exponent, rest.element.sign ^ rest.up), 0)
        results.append(stage(o=Mux(rest.keeps, rest.element.as_value(), left)[:17]).o)
        assert stage.count == RESIDUAL_LATENCY
    return Cat(results)


def _quantised(m: Module, word: data.View, largest: Value) -> tuple[Value, Value]:
    """Return the elements and the scale."""
    results = []
    special = delayed(m, _is_special(largest), QUANTISE_LATENCY - 1)
    for n in range(len(word)):
        stage = Stages(m)
        start = stage(element=word[n], distance=(largest - word[n].exponent)[:6])
        quotient, guard, sticky = _shifted(m, start.element, start.distance)
        up = round_up(quotient, guard, sticky) & (quotient != LARGEST)
        shifted = stage(sign=start.element.sign, quotient=quotient, up=up)
        magnitude = (shifted.quotient + shifted.up)[:7]
        element = Mux(shifted.sign, -magnitude, magnitude)[:8]
        results.append(stage(o=Mux(special, 0, element)[:8]).o)
        assert stage.count == QUANTISE_LATENCY
    scale = Mux(_is_special(largest), NAN_SCALE, Mux(largest == 0, 0, largest + SCALE_OFFSET))[:8]
    return Cat(results), delayed(m, scale, QUANTISE_LATENCY)


def _is_special(largest: Value) -> Value:
    return largest == Normalised.SPECIAL


def _shifted(m: Module, element: data.View, distance: Value) -> tuple[Value, Value, Value]:
    """Return quotient, guard and sticky of a significand moved to the block's scale."""
    significand = element.significand
    places, lost = shift_right(m, significand[FRACTION_PLACES - 1 :], distance)
    return places[1:], places[0], lost | significand[: FRACTION_PLACES - 1].any()
