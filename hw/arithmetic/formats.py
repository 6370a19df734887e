"""FP16 and FP32 as layouts, and what every operation asks of an operand."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Mux, Value
from amaranth.lib import data

EXPONENT_BIAS = 127
NAN = 0x7FC00000
INFINITY = 0x7F800000
HALF_NAN = 0x7E00
HALF_INFINITY = 0x7C00


class Float32(data.Struct):
    """IEEE binary32."""

    fraction: 23
    exponent: 8
    sign: 1

    @property
    def magnitude(self) -> Value:
        """All but the sign; sorts as the absolute value does."""
        return self.as_value()[:31]

    @property
    def is_zero(self) -> Value:
        """Zero as an operand: subnormals are."""
        return self.exponent == 0

    @property
    def is_nan(self) -> Value:
        """Any NaN."""
        return (self.exponent == 255) & self.fraction.any()

    @property
    def is_infinite(self) -> Value:
        """Either infinity."""
        return (self.exponent == 255) & ~self.fraction.any()

    @property
    def significand(self) -> Value:
        """24 bits, the leading one included; 0 for a zero."""
        return Mux(self.is_zero, 0, Cat(self.fraction, 1))[:24]

    @property
    def canonical(self) -> Value:
        """The code as an operand is read: subnormals are zeros, there is one NaN."""
        flushed = Cat(Mux(self.is_zero, 0, self.fraction)[:23], self.exponent, self.sign)
        return Mux(self.is_nan, NAN, flushed)


class Float16(data.Struct):
    """IEEE binary16."""

    fraction: 10
    exponent: 5
    sign: 1


def pack(result: SimpleNamespace) -> Value:
    """Round and pack an FP32 result.

    Parameters
    ----------
    result : SimpleNamespace
        ``sign``; ``exponent``, biased and signed, of which 255 or more is an infinity and less
        than 1 must come with ``zero``; ``kept``, 24 bits of significand with the top one set;
        ``increment``, whether to round up, whose carry runs into the exponent, as it should;
        ``zero``, ``infinite``, ``nan``: what the result is instead, later ones winning.

    Returns
    -------
    Value
        32 bits.
    """
    code = (Cat(result.kept[:23], result.exponent[:8]) + result.increment)[:31]
    huge = result.infinite | ((result.exponent >= 255) & ~result.zero)
    return choose(result, code, huge)


def choose(result: SimpleNamespace, code: Value, infinite: Value) -> Value:
    """Put a special result in the place of a rounded one.

    Written so that what is constant becomes the reset of the register that takes it.

    Parameters
    ----------
    result : SimpleNamespace
        ``sign``, ``zero`` and ``nan`` as in `pack`.
    code : Value
        31 bits, rounded, if the result is an ordinary one.
    infinite : Value
        It is an infinity instead; this wins against ``zero``.

    Returns
    -------
    Value
        32 bits.
    """
    special = result.nan | infinite | result.zero
    fraction = Mux(special, 0, code[:22])[:22]
    top = Mux(result.nan, 1, Mux(special, 0, code[22]))[0]
    exponent = Mux(result.nan | infinite, 255, Mux(result.zero, 0, code[23:]))[:8]
    return Cat(fraction, top, exponent, Mux(result.nan, 0, result.sign)[0])
