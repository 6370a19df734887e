"""FP16 and FP32 as layouts, and what every operation asks of an operand."""

from amaranth.hdl import Cat, Const, Mux, Value
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


def pack(
    sign: Value,
    exponent: Value,
    kept: Value,
    increment: Value,
    *,
    zero: Value,
    infinite: Value | None = None,
    nan: Value | None = None,
) -> Value:
    """Round and pack an FP32 result.

    Parameters
    ----------
    sign : Value
        Of the result.
    exponent : Value
        Biased, signed; 255 or more is an infinity. Where it is below 1, `zero` must be set.
    kept : Value
        24 bits of significand, the top one set.
    increment : Value
        Whether to round up. A carry runs into the exponent, as it should.
    zero, infinite, nan : Value
        The result is a zero, an infinity, NaN; later ones win.

    Returns
    -------
    Value
        32 bits.
    """
    code = (Cat(kept[:23], exponent[:8]) + increment)[:31]
    code = Mux(exponent >= 255, INFINITY, code)[:31]
    code = Mux(zero, 0, code)[:31]
    if infinite is not None:
        code = Mux(infinite, INFINITY, code)[:31]
    result = Cat(code, sign)
    return result if nan is None else Mux(nan, Const(NAN, 32), result)
