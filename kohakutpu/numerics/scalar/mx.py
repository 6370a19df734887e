"""MXINT8 blocks: 32 elements of 8 bits that share a power of two.

FP16 codes go in. An element ``e`` under a scale ``s`` is worth ``e * 2**(s - 133)``: E8M0 has a
bias of 127, and an element has 6 bits of fraction.
"""

from collections.abc import Sequence
from fractions import Fraction

from kohakutpu.numerics.scalar import fp32
from kohakutpu.numerics.scalar.formats import FP16, FP32

BLOCK = 32
NAN_SCALE = 0xFF
ELEMENT_BIAS = 133  # 127 of the scale, 6 of the element's fraction

Block = tuple[list[int], int]


def _quantise(values: Sequence[Fraction]) -> Block:
    largest = max(abs(value) for value in values)
    if largest == 0:
        return [0] * len(values), 0
    exponent = 0  # floor(log2(largest))
    while Fraction(2) ** exponent > largest:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= largest:
        exponent += 1
    # round() on a Fraction takes ties to even.
    elements = [round(value * Fraction(2) ** (6 - exponent)) for value in values]
    return [max(-127, min(127, element)) for element in elements], exponent + 127


def quantise_block(codes: Sequence[int], residual: bool = False) -> Block:
    """Quantise one block of FP16 codes.

    Parameters
    ----------
    codes : sequence of int
        32 FP16 codes.
    residual : bool
        Quantise what the leading term leaves instead.

    Returns
    -------
    (list of int, int)
        32 elements and the scale.
    """
    if any(FP16.magnitude(code) >= FP16.infinity for code in codes):
        return [0] * len(codes), NAN_SCALE
    unpacked = [FP16.unpack(code) for code in codes]
    values = [Fraction(significand) * Fraction(2) ** exponent for significand, exponent in unpacked]
    leading = _quantise(values)
    if not residual:
        return leading
    return _quantise([v - d for v, d in zip(values, dequantise_block(leading), strict=True)])


def dequantise_block(block: Block) -> list[Fraction]:
    """Return the exact values of a block whose scale is not the NaN."""
    elements, scale = block
    return [element * Fraction(2) ** (scale - ELEMENT_BIAS) for element in elements]


def partial(a: Block, b: Block) -> int:
    """Return the FP32 code of the product of two blocks.

    The 32 products are summed exactly. Below the normal range the result is a zero of the sign
    of the sum, above it an infinity; a NaN scale makes it NaN.
    """
    (ea, sa), (eb, sb) = a, b
    if NAN_SCALE in (sa, sb):
        return FP32.nan
    total = sum(x * y for x, y in zip(ea, eb, strict=True))
    return FP32.flush(FP32.pack(total, sa + sb - 2 * ELEMENT_BIAS))


def contract(accumulator: int, a: Sequence[Block], b: Sequence[Block]) -> int:
    """Add the products of block pairs to an FP32 accumulator, in ascending order."""
    for left, right in zip(a, b, strict=True):
        accumulator = fp32.add(accumulator, partial(left, right))
    return accumulator


def pack_region(entries: Sequence[Sequence[Block]]) -> bytes:
    """Return entries of 4 lanes in packed order: elements of all, then scales of all.

    Parameters
    ----------
    entries : sequence of sequence of Block
        Each entry is its 4 lanes.

    Returns
    -------
    bytes
        ``4 * n`` words of elements, ``ceil(n / 8)`` words of scales, the tail zero.
    """
    elements = b"".join(bytes(e & 0xFF for e in lane[0]) for entry in entries for lane in entry)
    scales = bytes(lane[1] for entry in entries for lane in entry)
    return elements + scales + bytes(-len(scales) % 32)
