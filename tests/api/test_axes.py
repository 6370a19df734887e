"""Reductions along any axes, comparisons and clamping, against numpy."""

import itertools
from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from tests.kernels.oracle import assert_same_bits

pytestmark = pytest.mark.golden

SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 5), (4, 1), (1, 6), (2, 3, 20), (2, 1, 3, 5)]
SPECIAL = np.asarray([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 6e-8], np.float16)


def whole(*shape: int) -> np.ndarray:
    """Small integers, so that sums are exact in any order."""
    return np.random.default_rng(shape or 1).integers(-9, 10, shape).astype(np.float16)


def axis_choices(ndim: int) -> list[Any]:
    every: list[Any] = [None]
    for count in range(ndim + 1):
        every += itertools.combinations(range(ndim), count)
    return every + [axis - ndim for axis in range(ndim)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(shape: tuple[int, ...], keepdims: bool) -> None:
    array = whole(*shape)
    x = ktpu.tensor(array)
    for axis in axis_choices(len(shape)):
        for name in ("sum", "max", "min"):
            ours = getattr(x, name)(axis, keepdims).numpy()
            expected = getattr(np, name)(array, axis=axis, keepdims=keepdims)
            assert_same_bits(ours, np.asarray(expected, np.float16) + np.float16(0))
        ours = x.mean(axis, keepdims=keepdims).numpy()
        expected = np.mean(array.astype(np.float32), axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-6)


def test_the_default_is_the_last_axis() -> None:
    array = whole(3, 4)
    x = ktpu.tensor(array)
    assert_same_bits(x.sum().numpy(), array.sum(-1))
    assert_same_bits(x.max(keepdims=True).numpy(), array.max(-1, keepdims=True))


def test_bits_are_those_of_a_row() -> None:
    array = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float16)
    x, turned = ktpu.tensor(array), ktpu.tensor(array.T)
    assert_same_bits(x.sum(0).numpy(), turned.sum().numpy())
    assert_same_bits(x.sum(None).numpy(), ktpu.tensor(array.reshape(-1)).sum().numpy())


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 1, 2), None])
def test_reductions_of_nothing(axis: Any) -> None:
    array = np.ones((2, 0, 3), np.float16)
    x = ktpu.tensor(array)
    assert_same_bits(x.sum(axis).numpy(), np.asarray(array.sum(axis)))
    with np.errstate(all="ignore"), pytest.warns() if 0 != axis != 2 else np.errstate():
        assert_same_bits(x.mean(axis).numpy(), np.asarray(array.mean(axis)))
    if axis in (0, 2):
        assert_same_bits(x.max(axis).numpy(), array.max(axis))
    else:
        with pytest.raises(CallError, match="max of rows without elements"):
            x.max(axis)


COMPARISONS = {
    "<": (lambda a, b: a < b, np.less),
    "<=": (lambda a, b: a <= b, np.less_equal),
    ">": (lambda a, b: a > b, np.greater),
    ">=": (lambda a, b: a >= b, np.greater_equal),
    "==": (lambda a, b: a == b, np.equal),
    "!=": (lambda a, b: a != b, np.not_equal),
}


@pytest.mark.parametrize("symbol", COMPARISONS)
def test_comparisons(symbol: str) -> None:
    ours, theirs = COMPARISONS[symbol]
    for a, b in ((SPECIAL, SPECIAL[:, None]), (SPECIAL, SPECIAL[::-1]), (SPECIAL[:, None], 1.5)):
        x = ktpu.tensor(a)
        y: Any = ktpu.tensor(b) if isinstance(b, np.ndarray) else b
        expected = theirs(a, b).astype(np.float16)
        assert_same_bits(ours(x, y).numpy(), expected)
    assert_same_bits(ours(1.5, ktpu.tensor(SPECIAL)).numpy(), theirs(1.5, SPECIAL).astype("f2"))


def test_equality_is_of_elements_and_a_key_of_identity() -> None:
    x, y = ktpu.tensor([1.0, 2.0]), ktpu.tensor([1.0, 2.0])
    assert (x == y).numpy().tolist() == [1.0, 1.0]
    assert {x: 1, y: 2}[x] == 1
    with pytest.raises(CallError, match="the truth of a tensor is not known"):
        bool(x == y)
    for foreign in (None, "text", [1.0, 2.0], np.ones(2)):
        with pytest.raises(CallError, match="neither a tensor nor a real number"):
            _ = x == foreign


def test_clamp() -> None:
    array = np.arange(-6, 6, dtype=np.float16)
    x = ktpu.tensor(array)
    assert_same_bits(ktpu.clamp(x, -2, 3).numpy(), np.clip(array, -2, 3))
    assert_same_bits(x.clamp(high=0).numpy(), np.minimum(array, 0))
    assert_same_bits(x.clamp(low=0).numpy(), np.maximum(array, 0))
    assert x.clamp() is x
    bound = ktpu.tensor(np.full((2, 1), 1.0))
    assert x.clamp(low=bound).shape == (2, 12)


def test_where_selects_by_a_comparison() -> None:
    array = np.random.default_rng(2).normal(size=(4, 9)).astype(np.float16)
    x = ktpu.tensor(array)
    assert_same_bits(ktpu.where(x > 0, x, x * 0.5).numpy(), np.where(array > 0, array, array / 2))
