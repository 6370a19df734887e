"""FP32 bit patterns that arithmetic gets wrong: every exponent's edges, special values, random."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]

SIGN = np.uint32(0x80000000)
FRACTIONS = np.array(
    [0, 1, 2, 0x3FFFFF, 0x400000, 0x400001, 0x555555, 0x7FFFFE, 0x7FFFFF], np.uint32
)
# Zeros, subnormals, the ends of the normal range, one and its neighbours, Inf, NaN of all kinds,
# where a product or a sum of two starts to underflow or to overflow.
SPECIAL = np.array(
    [
        0, 1, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0xC000000, 0xC800000, 0xD800000,
        0x1F800000, 0x20000000, 0x33800000, 0x34000000, 0x3F000000, 0x3F7FFFFF, 0x3F800000,
        0x3F800001, 0x40000000, 0x5F000000, 0x5F800000, 0x7F000000, 0x7F7FFFFF, 0x7F800000,
        0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF,
    ],
    np.uint32,
)  # fmt: skip


def edges() -> Codes:
    """Every exponent, subnormal to NaN, with its extreme fractions, in both signs."""
    exponents = np.arange(256, dtype=np.uint32) << np.uint32(23)
    positive = np.concatenate([SPECIAL, (exponents[:, None] | FRACTIONS).reshape(-1)])
    return np.concatenate([positive, positive | SIGN])


def random_codes(rng: np.random.Generator, count: int) -> Codes:
    """Half uniform over all codes, half with an exponent within a few of an edge."""
    codes = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    near = rng.choice(
        np.array([0, 1, 2, 3, 24, 25, 63, 64, 126, 127, 128, 190, 253, 254, 255]), count
    )
    crafted = codes & np.uint32(0x807FFFFF) | near.astype(np.uint32) << np.uint32(23)
    return np.where(rng.random(count) < 0.5, codes, crafted)


def pairs(rng: np.random.Generator, count: int) -> tuple[Codes, Codes]:
    """All pairs of special values, edges next to random ones, near-opposites, random pairs."""
    special = np.concatenate([SPECIAL, SPECIAL | SIGN])
    a, b = (m.reshape(-1) for m in np.meshgrid(special, special))
    some, more = edges(), random_codes(rng, count)
    other = random_codes(rng, count)
    step = rng.integers(0, 4, count, dtype=np.uint32)
    other = np.where(rng.random(count) < 0.2, (more ^ SIGN) + step, other)
    return (
        np.concatenate([a, some, more]),
        np.concatenate([b, random_codes(rng, len(some)), other]),
    )


def each(function: Callable[..., int], *operands: NDArray[Any]) -> Codes:
    """Apply a scalar function on codes, element by element."""
    rows = zip(*(operand.tolist() for operand in operands), strict=True)
    return np.array([function(*row) for row in rows], np.uint32)


def floats(codes: Any) -> NDArray[np.float32]:
    return np.asarray(codes, np.uint32).view(np.float32)


def assert_same(actual: NDArray[Any], expected: NDArray[Any], *operands: NDArray[Any]) -> None:
    """Equal, or say which operands the first difference has."""
    bad = np.flatnonzero(actual != expected)
    if bad.size:
        at = int(bad[0])
        given = ", ".join(f"{int(operand[at]):08X}" for operand in operands)
        raise AssertionError(
            f"{bad.size} of {len(actual)} differ; of ({given}): {int(actual[at]):08X}, "
            f"expected {int(expected[at]):08X}"
        )
