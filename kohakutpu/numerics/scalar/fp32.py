"""FP32 operations on bit patterns.

IEEE binary32 with round to nearest even, except that a subnormal input reads as the zero of
its sign, a result that IEEE makes subnormal becomes the zero of its sign, and every NaN
result is 0x7FC00000.
"""

from kohakutpu.numerics.scalar.formats import FP32

ONE = 0x3F800000
ZERO = 0


def canonical(a: int) -> int:
    """Return `a` as an operand is read: subnormals are zeros, there is one NaN."""
    return FP32.nan if FP32.is_nan(a) else FP32.flush(a)


def mul(a: int, b: int) -> int:
    """Return ``a * b``."""
    a, b = canonical(a), canonical(b)
    sign = (a ^ b) & FP32.sign_bit
    if FP32.nan in (a, b):
        return FP32.nan
    if FP32.is_infinite(a) or FP32.is_infinite(b):
        return FP32.nan if 0 in (FP32.magnitude(a), FP32.magnitude(b)) else sign | FP32.infinity
    (sa, ea), (sb, eb) = FP32.unpack(a), FP32.unpack(b)
    return sign | FP32.flush(FP32.pack(sa * sb, ea + eb))


def add(a: int, b: int) -> int:
    """Return ``a + b``."""
    a, b = canonical(a), canonical(b)
    if FP32.nan in (a, b):
        return FP32.nan
    if FP32.is_infinite(a) or FP32.is_infinite(b):
        if FP32.is_infinite(a) and FP32.is_infinite(b) and a != b:
            return FP32.nan
        return a if FP32.is_infinite(a) else b
    if FP32.magnitude(a) == 0 and FP32.magnitude(b) == 0:
        return a & b  # -0 only when both are
    (sa, ea), (sb, eb) = FP32.unpack(a), FP32.unpack(b)
    exponent = min(ea, eb)
    total = (sa << (ea - exponent)) + (sb << (eb - exponent))
    return FP32.flush(FP32.pack(total, exponent))


def muladd(a: int, b: int, c: int) -> int:
    """Return ``a * b + c``, rounded after the multiply and again after the add."""
    return add(mul(a, b), c)


def _order(a: int) -> int:
    """Return an integer that sorts as the number does, -0 just below +0."""
    return -1 - FP32.magnitude(a) if FP32.is_negative(a) else a


def maximum(a: int, b: int) -> int:
    """Return the larger; NaN wins, and +0 is larger than -0."""
    a, b = canonical(a), canonical(b)
    return FP32.nan if FP32.nan in (a, b) else max(a, b, key=_order)


def minimum(a: int, b: int) -> int:
    """Return the smaller; NaN wins, and -0 is smaller than +0."""
    a, b = canonical(a), canonical(b)
    return FP32.nan if FP32.nan in (a, b) else min(a, b, key=_order)


def lt(a: int, b: int) -> int:
    """Return 1.0 if ``a < b``, else 0.0; false with a NaN, and the zeros are equal."""
    a, b = canonical(a), canonical(b)
    return ONE if FP32.nan not in (a, b) and _order(a) < _order(b) and not eq(a, b) else ZERO


def le(a: int, b: int) -> int:
    """Return 1.0 if ``a <= b``, else 0.0; false with a NaN, and the zeros are equal."""
    a, b = canonical(a), canonical(b)
    return ONE if FP32.nan not in (a, b) and (_order(a) < _order(b) or eq(a, b)) else ZERO


def eq(a: int, b: int) -> int:
    """Return 1.0 if ``a == b``, else 0.0; false with a NaN, and the zeros are equal."""
    a, b = canonical(a), canonical(b)
    zeros = FP32.magnitude(a) == FP32.magnitude(b) == 0
    return ONE if FP32.nan not in (a, b) and (a == b or zeros) else ZERO


def select(condition: int, a: int, b: int) -> int:
    """Return `a` where `condition` is anything but a zero (a NaN included), else `b`."""
    return canonical(a if FP32.magnitude(canonical(condition)) else b)


def neg(a: int) -> int:
    """Return `a` with its sign turned."""
    return canonical(canonical(a) ^ FP32.sign_bit)


def absolute(a: int) -> int:
    """Return `a` with its sign cleared."""
    return canonical(FP32.magnitude(canonical(a)))
