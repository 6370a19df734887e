"""Operands that find bugs: every class of exponent, the edges of significands, and random ones."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.integer[Any]]

EXPONENTS = (0, 1, 2, 24, 64, 102, 103, 112, 113, 125, 126, 127, 128, 142, 143, 150, 253, 254, 255)
FRACTIONS = (0, 1, 0x2AAAAA, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF)
RANDOM = 1 << 20


def boundary() -> Codes:
    """Every exponent class with every edge fraction, both signs."""
    return np.array(
        [
            sign << 31 | exponent << 23 | fraction
            for sign, exponent, fraction in itertools.product((0, 1), EXPONENTS, FRACTIONS)
        ],
        np.uint32,
    )


def boundary_pairs() -> tuple[Codes, Codes]:
    """Every pair of boundary operands."""
    left, right = np.meshgrid(boundary(), boundary())
    return left.ravel(), right.ravel()


def random_codes(seed: int, count: int = RANDOM) -> Codes:
    """Uniform in the code, so every exponent is as likely as another."""
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


def random_near(codes: Codes, seed: int, spread: int = 27) -> Codes:
    """Random numbers whose exponents are within `spread` of `codes`: sums that interact."""
    rng = np.random.default_rng(seed)
    exponent = (codes >> 23 & 0xFF).astype(np.int64) + rng.integers(-spread, spread + 1, codes.size)
    fraction = rng.integers(0, 1 << 23, codes.size)
    fraction >>= rng.integers(0, 24, codes.size)  # short ones cancel and tie
    fraction <<= rng.integers(0, 12, codes.size)
    sign = rng.integers(0, 2, codes.size)
    code = sign << 31 | np.clip(exponent, 0, 255) << 23 | fraction & 0x7FFFFF
    return code.astype(np.uint32)


def assert_same(actual: NDArray, expected: NDArray, *operands: NDArray) -> None:
    """Compare codes; the first difference is shown with its operands, in hexadecimal."""
    wrong = np.flatnonzero(actual != expected)
    if wrong.size:
        n = wrong[0]
        shown = " ".join(f"{operand[n]:08x}" for operand in operands)
        raise AssertionError(
            f"{wrong.size} of {actual.size} differ; first at {n}: operands {shown}: "
            f"{actual[n]:08x}, should be {expected[n]:08x}"
        )


def each(function: Callable[..., int], *operands: Codes) -> Codes:
    """Apply a scalar reference to every element."""
    return np.array(
        [function(*codes) for codes in zip(*(o.tolist() for o in operands), strict=True)], np.uint32
    )
