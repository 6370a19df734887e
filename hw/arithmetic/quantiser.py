"""FP16 to MXINT8: a word a cycle in, a block every second word out.

A block is two words. They are paired first, so that from there on the second follows the first
in the very next cycle, and everything behind has a fixed latency. Elements are then normalised:
one that was subnormal gets a smaller exponent instead, so no later step knows subnormals. A first
pass over the block leaves, where the residual is asked for, what a quantisation at the block's
scale would leave; the second pass quantises whatever comes.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.bits import larger, normalise, round_up, shift_right, tree
from hw.arithmetic.formats import Float16
from hw.arithmetic.pipeline import Stages, delayed
from kohakutpu.config import KBLOCK, WORD_BYTES

ELEMENTS = WORD_BYTES // 2  # of a word: half a block
NAN_SCALE = 0xFF
SCALE_OFFSET = 102  # of a normalised element's exponent to the scale with that power of two
FRACTION_PLACES = 4  # places below the point in the significand of the block's largest element
LARGEST = 127


class Normalised(data.Struct):
    """A number ``1.fraction * 2**(exponent - 25)``; 0 where all bits but the sign are.

    ``exponent == 63`` stands for Inf and NaN. Magnitudes sort as plain numbers.
    """

    fraction: 10
    exponent: 6
    sign: 1

    SPECIAL = 63

    @property
    def magnitude(self) -> Value:
        """All but the sign."""
        return self.as_value()[:16]

    @property
    def significand(self) -> Value:
        """11 bits, the leading one included; 0 for zero."""
        return Cat(self.fraction, self.exponent.any())


Word = data.ArrayLayout(Normalised, ELEMENTS)


class BlockLargest(wiring.Component):
    """Passes words on, each with the largest magnitude of its block.

    Members
    -------
    i : In(ArrayLayout(Normalised, 16))
        A word; the two of a block in consecutive cycles.
    second : In(1)
        It is the second of its block.
    o : Out(ArrayLayout(Normalised, 16))
        The same word, `latency` cycles later.
    largest : Out(16)
        Magnitude of the largest element of both words.
    """

    latency = 4

    def __init__(self) -> None:
        super().__init__({"i": In(Word), "second": In(1), "o": Out(Word), "largest": Out(16)})

    def elaborate(self, platform: object) -> Module:
        """Take the largest of each word in a tree, then of the two."""
        m = Module()
        stage = Stages(m)
        magnitudes = [self.i[n].magnitude for n in range(ELEMENTS)]
        quarters = [tree(m, magnitudes[n : n + 4], larger) for n in range(0, ELEMENTS, 4)]
        quarters = stage(**{f"largest_{n}": quarter for n, quarter in enumerate(quarters)})
        word = stage(largest=tree(m, list(vars(quarters).values()), larger))
        previous = stage(largest=word.largest)
        with m.If(delayed(m, self.second, 2)):
            m.d.sync += self.largest.eq(larger(previous.largest, word.largest))
        m.d.comb += self.o.eq(delayed(m, self.i, self.latency))
        return m


class Quantiser(wiring.Component):
    """Quantises blocks of 32 FP16 elements.

    Words come in order, with or without gaps between them; a block is the first and third and
    so on word together with the one after it.

    Members
    -------
    valid : In(1)
        There is a word.
    word : In(ArrayLayout(Float16, 16))
        16 elements.
    residual : In(1)
        With the second word of a block: quantise what the leading term leaves.
    o_valid : Out(1)
        There is a block: `latency` cycles after its second word.
    elements : Out(ArrayLayout(signed(8), 32))
        Its elements, -127 to 127.
    scale : Out(8)
        Its scale, E8M0; 0xFF, with elements of 0, where there was an Inf or NaN.
    """

    latency = 19

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": In(1),
                "word": In(data.ArrayLayout(Float16, ELEMENTS)),
                "residual": In(1),
                "o_valid": Out(1),
                "elements": Out(data.ArrayLayout(signed(8), KBLOCK)),
                "scale": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Pair, normalise, leave the residual, quantise, put the halves together."""
        m = Module()
        stage = Stages(m)
        paired, second, residual = self._pair(m)
        words = stage(word=Cat(_normalised(m, paired[n]) for n in range(ELEMENTS)))

        m.submodules.first_pass = first_pass = BlockLargest()
        m.d.comb += [first_pass.i.eq(words.word), first_pass.second.eq(delayed(m, second, 1))]
        to_residual = 1 + first_pass.latency
        left = _residual(m, first_pass.o, first_pass.largest, delayed(m, residual, to_residual))

        m.submodules.second_pass = second_pass = BlockLargest()
        to_second = to_residual + RESIDUAL_LATENCY
        m.d.comb += [second_pass.i.eq(left), second_pass.second.eq(delayed(m, second, to_second))]
        elements, scale = _quantised(m, second_pass.o, second_pass.largest)

        to_end = to_second + second_pass.latency + QUANTISE_LATENCY
        done = delayed(m, second, to_end, reset=True)
        half = len(self.elements.as_value()) // 2
        m.d.sync += self.elements.eq(Cat(self.elements.as_value()[half:], elements))
        m.d.sync += [self.scale.eq(scale), self.o_valid.eq(done)]
        assert PAIR_LATENCY + to_end + 1 == self.latency
        return m

    def _pair(self, m: Module) -> tuple[data.View, Value, Value]:
        """Return a word, whether it is a block's second, and whether its residual is wanted."""
        waits = Signal()
        layout = self.word.shape()
        first, last, out = Signal(layout), Signal(layout), Signal(layout)
        starts, second, residual = Signal(), Signal(), Signal()
        m.d.sync += [starts.eq(0), second.eq(starts), out.eq(last)]
        with m.If(self.valid):
            m.d.sync += waits.eq(~waits)
            with m.If(waits):
                m.d.sync += [out.eq(first), last.eq(self.word)]
                m.d.sync += [starts.eq(1), residual.eq(self.residual)]
            with m.Else():
                m.d.sync += first.eq(self.word)
        return out, second, residual


PAIR_LATENCY = 2  # from the second word to the second word
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
    for n in range(ELEMENTS):
        stage = Stages(m)
        start = stage(element=word[n], keeps=keeps, distance=(largest[10:] - word[n].exponent)[:6])
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
    """Return 16 elements and the scale."""
    results = []
    special = delayed(m, _is_special(largest), QUANTISE_LATENCY - 1)
    for n in range(ELEMENTS):
        stage = Stages(m)
        start = stage(element=word[n], distance=(largest[10:] - word[n].exponent)[:6])
        quotient, guard, sticky = _shifted(m, start.element, start.distance)
        up = round_up(quotient, guard, sticky) & (quotient != LARGEST)
        shifted = stage(sign=start.element.sign, quotient=quotient, up=up)
        magnitude = (shifted.quotient + shifted.up)[:7]
        element = Mux(shifted.sign, -magnitude, magnitude)[:8]
        results.append(stage(o=Mux(special, 0, element)[:8]).o)
        assert stage.count == QUANTISE_LATENCY
    scale = Mux(_is_special(largest), NAN_SCALE, Mux(largest == 0, 0, largest[10:] + SCALE_OFFSET))[
        :8
    ]
    return Cat(results), delayed(m, scale, QUANTISE_LATENCY)


def _is_special(largest: Value) -> Value:
    return largest[10:] == Normalised.SPECIAL


def _shifted(m: Module, element: data.View, distance: Value) -> tuple[Value, Value, Value]:
    """Return quotient, guard and sticky of a significand moved to the block's scale."""
    significand = element.significand
    places, lost = shift_right(m, significand[FRACTION_PLACES - 1 :], distance)
    return places[1:], places[0], lost | significand[: FRACTION_PLACES - 1].any()
