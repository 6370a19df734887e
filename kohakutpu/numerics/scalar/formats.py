"""IEEE 754 binary formats as integers: a bit pattern in, sign, significand and exponent out."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Binary:
    """An IEEE binary interchange format.

    Parameters
    ----------
    exponent_bits : int
        Width of the biased exponent field.
    fraction_bits : int
        Width of the trailing significand field; the leading bit is implied.
    """

    exponent_bits: int
    fraction_bits: int

    @cached_property
    def sign_bit(self) -> int:
        """The mask of the sign."""
        return 1 << (self.exponent_bits + self.fraction_bits)

    @cached_property
    def infinity(self) -> int:
        """The code of +Inf; a magnitude above it is a NaN."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @cached_property
    def nan(self) -> int:
        """The one NaN the machine makes: quiet, positive, empty payload."""
        return self.infinity | 1 << (self.fraction_bits - 1)

    @cached_property
    def smallest_normal(self) -> int:
        """The code of the smallest positive normal number."""
        return 1 << self.fraction_bits

    @cached_property
    def smallest_exponent(self) -> int:
        """Log2 of the smallest positive subnormal number."""
        return 2 - (1 << (self.exponent_bits - 1)) - self.fraction_bits

    def magnitude(self, bits: int) -> int:
        """Return `bits` without its sign."""
        return bits & (self.sign_bit - 1)

    def is_nan(self, bits: int) -> bool:
        """Return whether `bits` is any NaN."""
        return self.magnitude(bits) > self.infinity

    def is_infinite(self, bits: int) -> bool:
        """Return whether `bits` is +Inf or -Inf."""
        return self.magnitude(bits) == self.infinity

    def is_negative(self, bits: int) -> bool:
        """Return whether the sign of `bits` is set."""
        return bool(bits & self.sign_bit)

    def flush(self, bits: int) -> int:
        """Return `bits`, or the zero of its sign when it is subnormal."""
        if self.magnitude(bits) < self.smallest_normal:
            return bits & self.sign_bit
        return bits

    def unpack(self, bits: int) -> tuple[int, int]:
        """Return ``(significand, exponent)``: a finite `bits` is ``significand * 2**exponent``.

        The significand carries the sign; both zeros give 0.
        """
        assert self.magnitude(bits) < self.infinity, f"0x{bits:x} is not finite"
        field, fraction = divmod(self.magnitude(bits), self.smallest_normal)
        significand = fraction if field == 0 else fraction + self.smallest_normal
        exponent = self.smallest_exponent + max(field - 1, 0)
        return (-significand if self.is_negative(bits) else significand), exponent

    def pack(self, significand: int, exponent: int) -> int:
        """Return the code nearest to ``significand * 2**exponent``, ties to even.

        Subnormal results are kept, results past the largest number are infinite, and an
        exact zero is +0.
        """
        sign = self.sign_bit if significand < 0 else 0
        significand = abs(significand)
        if significand == 0:
            return 0
        # The weight of the result's last place: `fraction_bits` below its leading bit, but
        # never below the last place of a subnormal.
        last = max(
            exponent + significand.bit_length() - 1 - self.fraction_bits, self.smallest_exponent
        )
        dropped = last - exponent
        if dropped <= 0:
            kept = significand << -dropped
        else:
            kept, rest = divmod(significand, 1 << dropped)
            half = 1 << (dropped - 1)
            kept += rest > half or (rest == half and kept & 1)
        # A significand with its leading bit counts one in the exponent field by itself, and so
        # does the carry of a rounding up to the next power of two.
        code = ((last - self.smallest_exponent) << self.fraction_bits) + kept
        return sign | min(code, self.infinity)


FP16 = Binary(exponent_bits=5, fraction_bits=10)
FP32 = Binary(exponent_bits=8, fraction_bits=23)


def widen(bits: int) -> int:
    """Return the FP32 code of an FP16 code: exact, every NaN becomes 0x7FC00000."""
    return _convert(bits, FP16, FP32)


def narrow(bits: int) -> int:
    """Return the FP16 code nearest to an FP32 code, ties to even; every NaN is 0x7E00."""
    return _convert(bits, FP32, FP16)


def _convert(bits: int, source: Binary, target: Binary) -> int:
    sign = target.sign_bit if source.is_negative(bits) else 0
    if source.is_nan(bits):
        return target.nan
    if source.is_infinite(bits):
        return sign | target.infinity
    return sign | target.pack(*source.unpack(bits))
