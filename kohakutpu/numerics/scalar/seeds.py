"""The seed functions on FP32 bit patterns.

Range reduction, one quadratic evaluated exactly, one rounding to FP32. A subnormal input reads
as the zero of its sign, and a subnormal result becomes one.
"""

from kohakutpu.numerics import seed_tables
from kohakutpu.numerics.quadratic import OFFSET_BITS, SEGMENTS, Quadratic
from kohakutpu.numerics.scalar.formats import FP32
from kohakutpu.numerics.scalar.fp32 import canonical

BIAS = 127
FRACTION_BITS = 23


def polynomial(table: Quadratic, code: int) -> int:
    """Return ``P`` of a table: the segment is the low 7 bits of `code` above 16 of offset."""
    segment, offset = divmod(code, 1 << OFFSET_BITS)
    return table.evaluate(segment % SEGMENTS, offset)


def exp2(x: int) -> int:
    """Return ``2**x``: +0 below -126, +Inf from 128 on."""
    x = canonical(x)
    if x == FP32.nan:
        return x
    if FP32.is_infinite(x):
        return 0 if FP32.is_negative(x) else x
    significand, exponent = FP32.unpack(x)
    # x in steps of 2**-23, rounded down.
    shift = exponent + FRACTION_BITS
    steps = significand << shift if shift >= 0 else significand >> -shift
    whole = steps >> FRACTION_BITS
    if whole < -126:
        return 0
    if whole >= 128:
        return FP32.infinity
    table = seed_tables.EXP2
    return FP32.pack(polynomial(table, steps), whole - table.unit)


def log2(x: int) -> int:
    """Return the logarithm to base 2: -Inf of both zeros, NaN below them."""
    x = canonical(x)
    if FP32.magnitude(x) == 0:
        return FP32.sign_bit | FP32.infinity
    if x == FP32.nan or FP32.is_negative(x):
        return FP32.nan
    if x == FP32.infinity:
        return x
    table = seed_tables.LOG2
    whole = (x >> FRACTION_BITS) - BIAS
    return FP32.pack((whole << table.unit) + polynomial(table, x), -table.unit)


def recip(x: int) -> int:
    """Return ``1 / x``, with the sign of `x` on zeros and infinities too."""
    x = canonical(x)
    if x == FP32.nan:
        return x
    sign = x & FP32.sign_bit
    if FP32.magnitude(x) == 0:
        return sign | FP32.infinity
    if FP32.is_infinite(x):
        return sign
    table = seed_tables.RECIP
    whole = (FP32.magnitude(x) >> FRACTION_BITS) - BIAS
    return sign | FP32.flush(FP32.pack(polynomial(table, x), -whole - table.unit))


def rsqrt(x: int) -> int:
    """Return ``1 / sqrt(x)``: an infinity of the sign of a zero, NaN below zero.

    The index holds the last bit of the exponent field and 6 bits of the fraction; the last of the
    other 17 bits of the fraction is dropped.
    """
    x = canonical(x)
    if FP32.magnitude(x) == 0:
        return x | FP32.infinity
    if x == FP32.nan or FP32.is_negative(x):
        return FP32.nan
    if x == FP32.infinity:
        return 0
    table = seed_tables.RSQRT
    half = ((x >> FRACTION_BITS) - BIAS) >> 1
    return FP32.pack(polynomial(table, x >> 1), -half - table.unit)
