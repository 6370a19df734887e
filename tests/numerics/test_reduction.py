from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakutpu.numerics import fp32, reduction
from kohakutpu.numerics.scalar import reduction as scalar
from tests.numerics import samples

WIDTHS = [1, 2, 5, 15, 16, 17, 33, 100, 112, 127, 128, 129, 144, 384, 1000]
NAMES = ("row_sum", "row_max", "row_min")

KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "ordinary": lambda rng, n: rng.standard_normal(n),
    "tiny": lambda rng, n: rng.standard_normal(n) * 2.0**-124,
    "tiny without sign": lambda rng, n: np.abs(rng.standard_normal(n)) * 2.0**-124,
    "subnormal": lambda rng, n: rng.choice([0, -0.0, 1e-40, -1e-40, -1], n),
    "zeros": lambda rng, n: rng.choice([0.0, -0.0], n, p=[0.02, 0.98]),
    "large": lambda rng, n: rng.uniform(-1, 1, n) * 3e38,
    "infinite": lambda rng, n: rng.choice([1.0, np.inf], n),
}


def bits(values: Any) -> samples.Codes:
    return fp32.canonical(values).view(np.uint32)


def check(x: np.ndarray) -> None:
    for name in NAMES:
        got = bits(getattr(reduction, name)(x))
        expected = [getattr(scalar, name)(row) for row in x.view(np.uint32).tolist()]
        samples.assert_same(got, np.array(expected, np.uint32), np.arange(len(x)))


@pytest.mark.parametrize("width", WIDTHS)
def test_against_the_scalar(width: int) -> None:
    rng = np.random.default_rng(width)
    for kind in KINDS.values():
        check(np.asarray(kind(rng, 4 * width)).astype(np.float32).reshape(4, width))
    check(samples.floats(samples.random_codes(rng, 4 * width)).reshape(4, width))


def test_order_by_hand() -> None:
    """2**24 swallows a 1 that comes alone, but not a pair of them."""
    big = 2.0**24

    def total(**elements: float) -> float:
        row = np.zeros((1, 200), np.float32)
        for name, value in elements.items():
            row[0, int(name[1:])] = value
        return float(reduction.row_sum(row)[0])

    assert total(e0=big, e1=1, e2=1) == big  # (0 + 1) + (2 + 3): one at a time
    assert total(e0=big, e2=1, e3=1) == big + 2  # the pair 2 + 3 first
    assert total(e0=big, e16=1, e17=1) == big + 2  # groups 0 and 1: different accumulators
    assert total(e0=big, e16=1, e32=1) == big  # accumulators (0 + 1) + (2 + 3)
    assert total(e0=big, e32=1, e48=1) == big + 2
    assert total(e0=big, e128=1, e32=1) == big  # group 8 goes to accumulator 0
    assert total(e0=1, e128=1, e16=big) == big + 2  # which has added it before meeting another


def test_nothing_is_minus_zero() -> None:
    for width in (1, 16, 17, 130):
        zeros = np.full((1, width), -0.0, np.float32)
        assert bits(reduction.row_sum(zeros)).tolist() == [0x80000000]
        zeros[0, -1] = 0.0
        assert bits(reduction.row_sum(zeros)).tolist() == [0]


def test_bits_do_not_depend_on_the_rows() -> None:
    x = np.random.default_rng(50).standard_normal((300, 70)).astype(np.float32)
    for name in NAMES:
        function = getattr(reduction, name)
        whole = function(x)
        np.testing.assert_array_equal(whole[17:18], function(x[17:18]))
        np.testing.assert_array_equal(whole, function(np.asfortranarray(x)))
        np.testing.assert_array_equal(whole, function(x, clean=True))
        assert function(x[:0]).shape == (0,)


def test_one_bad_row_leaves_the_others() -> None:
    x = np.random.default_rng(51).standard_normal((3, 40)).astype(np.float32)
    expected = reduction.row_sum(x)
    x[1, 3:5] = np.inf, -np.inf
    got = reduction.row_sum(x)
    np.testing.assert_array_equal(got[[0, 2]], expected[[0, 2]])
    assert np.isnan(got[1])


def test_bad_input_is_refused() -> None:
    with pytest.raises(TypeError, match="float32, not float64"):
        reduction.row_sum(np.ones((2, 2)))  # type: ignore[arg-type]
    for shape in ((3,), (2, 0), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"\[rows, cols\] with at least one column"):
            reduction.row_max(np.ones(shape, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("width", [4096, 2000, 1024])
def test_wide_rows(width: int) -> None:
    rng = np.random.default_rng(width)
    for kind in KINDS.values():
        check(np.asarray(kind(rng, 20 * width)).astype(np.float32).reshape(20, width))
