# pyright: reportUnusedExpression=false, reportOperatorIssue=false
"""Operators against numpy: add, sub, mul, max, min round once in FP32, so bits are numpy's."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from kohakutpu import kernels
from tests.kernels.oracle import assert_close, assert_same_bits

pytestmark = pytest.mark.golden


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As `numpy.maximum`, which leaves open what the larger of two zeros is: here it is +0."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return -larger(-a, -b)


EXACT: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply),
    "maximum": (ktpu.maximum, larger),
    "minimum": (ktpu.minimum, smaller),
}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def expected(function: Callable[..., Any], *operands: Any) -> np.ndarray:
    wide = [np.asarray(x, np.float32) for x in operands]
    with np.errstate(all="ignore"):
        return np.asarray(function(*wide)).astype(np.float16)


SHAPES = [
    ((), ()), ((1,), (1,)), ((5,), (5,)), ((3, 5), (3, 5)), ((2, 3, 4), (2, 3, 4)),
    ((3, 5), ()), ((), (3, 5)), ((3, 5), (1,)), ((1, 1), (3, 5)), ((5,), (1, 1)),
    ((3, 5), (5,)), ((5,), (3, 5)), ((3, 5), (1, 5)), ((3, 5), (3, 1)), ((3, 1), (3, 5)),
    ((3, 1), (1, 5)), ((3, 1), (5,)), ((1, 17), (4, 1)),
    ((2, 3, 5), (3, 5)), ((2, 3, 5), (2, 1, 5)), ((2, 3, 5), (2, 3, 1)), ((2, 3, 5), (2, 1, 1)),
    ((2, 1, 1), (2, 3, 5)), ((2, 3, 5), (1, 3, 1)), ((2, 1, 5), (1, 3, 5)), ((2, 3, 1), (1, 1, 5)),
    ((2, 1, 5), (1, 3, 1)), ((2, 3, 1), (2, 1, 1)), ((2, 1), (1, 1)), ((4, 1), (4, 1)),
    ((2, 1, 3, 1, 5), (1, 4, 1, 2, 1)), ((2, 3, 4, 5), (3, 1, 5)), ((1, 3, 1, 33), (2, 1, 2, 1)),
    ((0, 3), (3,)), ((3, 1), (3, 0)), ((0,), ()),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_broadcasting(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    for name in ("sub", "maximum"):
        ours, theirs = EXACT[name]
        result = ours(ktpu.tensor(a), ktpu.tensor(b))
        assert result.shape == np.broadcast_shapes(left, right)
        assert_same_bits(result.numpy(), expected(theirs, a, b))


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("right", [(6, 20), (20,), (6, 1), ()])
def test_every_operation(name: str, right: tuple[int, ...]) -> None:
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 65504, -65504, 2**-24]
    a, b = normal(6, 20), normal(*right, seed=1)
    a[0, :8] = special
    a[1:, 0] = special[:5]
    if b.size > 5:
        b.reshape(-1)[:5] = special[:5]
    ours, theirs = EXACT[name]
    for x, y in ((a, b), (b, a)):
        result = ours(ktpu.tensor(x), ktpu.tensor(y)).numpy()
        assert_same_bits(result, expected(theirs, x, y))


@pytest.mark.parametrize(
    "number", [2, 0.1, -3.5, True, np.float32(0.3), np.int8(-4), np.float64(7)]
)
@pytest.mark.parametrize("shape", [(3, 7), (1,), (1, 1), ()])
def test_numbers_take_part_in_fp32(number: Any, shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    x = ktpu.tensor(a)
    value = np.float32(number)
    for name, (ours, theirs) in EXACT.items():
        assert_same_bits(ours(x, number).numpy(), expected(theirs, a, value)), name
        assert_same_bits(ours(number, x).numpy(), expected(theirs, value, a)), name
    assert_same_bits(
        ktpu.where(x, x, number).numpy(), np.where(a != 0, a, np.float16(value)).astype(np.float16)
    )


def test_a_number_as_fp16_would_give_other_bits() -> None:
    a = normal(3, 7)
    assert (
        expected(np.multiply, a, 0.1).tolist() != expected(np.multiply, a, np.float16(0.1)).tolist()
    )


def test_numbers_do_not_compile_again() -> None:
    x = ktpu.tensor(normal(4, 4))
    (x * 0.5).numpy()
    before = ktpu.stats().compiles
    for number in np.linspace(-1, 1, 7):
        (x * number).numpy()
        (number * x).numpy()
    assert ktpu.stats().compiles == before + 1  # the one with the number on the left


@pytest.mark.parametrize("right", [(6, 20), (20,), (6, 1), ()])
def test_division(right: tuple[int, ...]) -> None:
    a, b = normal(6, 20), normal(*right, seed=1)
    x, y = ktpu.tensor(a), ktpu.tensor(b)
    with np.errstate(divide="ignore"):
        assert_close((x / y).numpy(), a.astype(float) / b, 0.51)
        assert_close((y / x).numpy(), b / a.astype(float), 0.51)
    if right == ():
        assert_close((1 / x).numpy(), 1 / a.astype(float), 0.51)
        assert_close((x / 3).numpy(), a.astype(float) / 3, 0.51)


def test_division_at_the_edges() -> None:
    a = np.array([1, -1, 0, np.inf, np.inf, np.nan, 1, 65504], np.float16)
    b = np.array([0, 0, 0, np.inf, 2, 1, np.inf, 2**-24], np.float16)
    with np.errstate(all="ignore"):
        want = (a.astype(np.float32) / b.astype(np.float32)).astype(np.float16)
    assert_same_bits((ktpu.tensor(a) / ktpu.tensor(b)).numpy(), want)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lambda x: -x, np.negative),
        (abs, np.abs),
        (lambda x: +x, np.positive),
    ],
)
def test_sign(function: Any, reference: Any) -> None:
    a = normal(3, 5)
    a[0] = [0.0, -0.0, np.inf, -np.inf, 65504]
    assert_same_bits(function(ktpu.tensor(a)).numpy(), reference(a))


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (ktpu.exp2, np.exp2),
        (ktpu.neg, np.negative),
        (ktpu.abs, np.abs),
        (ktpu.log2, np.log2),
        (ktpu.recip, np.reciprocal),
        (ktpu.rsqrt, lambda x: 1 / np.sqrt(x)),
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5), (2, 3, 20)])
def test_functions(function: Any, reference: Any, shape: tuple[int, ...]) -> None:
    a = np.abs(normal(*shape)) + np.float16(0.01)
    result = function(ktpu.tensor(a))
    assert result.shape == shape
    assert_close(result.numpy(), np.asarray(reference(a.astype(float))), 0.51, 2**-20)


CONDITIONS = [(6, 20), (20,), (6, 1), (), (2, 6, 20)]


@pytest.mark.parametrize("shapes", list(itertools.product(CONDITIONS[:4], repeat=3))[::5], ids=str)
def test_where(shapes: tuple[tuple[int, ...], ...]) -> None:
    c, a, b = (normal(*shape, seed=i) for i, shape in enumerate(shapes))
    c = np.where(c > 0, c, 0).astype(np.float16)
    if c.size > 1:
        c.reshape(-1)[0] = np.nan
    result = ktpu.where(*(ktpu.tensor(x) for x in (c, a, b)))
    assert_same_bits(result.numpy(), np.where(c != 0, a, b))


def test_where_with_numbers_and_batches() -> None:
    c, a = normal(2, 6, 20) > 0, normal(6, 1)
    assert_same_bits(
        ktpu.where(ktpu.tensor(c), ktpu.tensor(a), -np.inf).numpy(), np.where(c, a, -np.inf)
    )
    assert_same_bits(ktpu.where(ktpu.tensor(c), 1, 0).numpy(), np.where(c, 1, 0).astype(np.float16))


@settings(max_examples=25)
@given(st.data())
def test_any_shapes(data: st.DataObject) -> None:
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(
            num_shapes=data.draw(st.integers(2, 3)), max_dims=4, max_side=5
        )
    ).input_shapes
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    with ktpu.device("golden", machine="small", poison=True):
        tensors = [ktpu.tensor(array) for array in arrays]
        if len(shapes) == 3:
            ours = ktpu.where(*tensors)
            want = np.where(arrays[0] != 0, arrays[1], arrays[2])
        else:
            ours, want = tensors[0] - tensors[1], expected(np.subtract, *arrays)
        assert_same_bits(ours.numpy(), want)


def test_a_wide_channel() -> None:
    a, b = normal(3, 20000), normal(20000, seed=1)
    assert_same_bits((ktpu.tensor(a) + ktpu.tensor(b)).numpy(), expected(np.add, a, b))
    assert_same_bits(
        (ktpu.tensor(a) * ktpu.tensor(b[:3, None])).numpy(), expected(np.multiply, a, b[:3, None])
    )


def test_refusals() -> None:
    x = ktpu.tensor(np.ones((3, 4)))
    with pytest.raises(CallError, match=r"add: shapes \(3, 4\) and \(4, 3\)") as caught:
        x + ktpu.tensor(np.ones((4, 3)))
    assert "x + ktpu.tensor(np.ones((4, 3)))" in str(caught.value)
    for call in (
        lambda: x + np.ones((3, 4)),
        lambda: np.ones((3, 4)) + x,
        lambda: x * "a",
        lambda: ktpu.maximum(x, [1, 2]),  # pyright: ignore[reportArgumentType]
        lambda: x - 1j,
        lambda: ktpu.exp2(np.ones(3)),  # pyright: ignore[reportArgumentType]
        lambda: x @ np.ones((3, 4)),
        lambda: np.ones((3, 4)) @ x,
    ):
        with pytest.raises(CallError, match="neither a tensor nor a real number"):
            call()
    for number in (1e39, -(10**400)):
        with pytest.raises(CallError, match="beyond FP32"):
            x * number
    with pytest.raises(CallError, match="relu: an operand is of type int, not a tensor"):
        kernels.relu(3)
    with pytest.raises(CallError, match="no operand is a tensor"):
        ktpu.maximum(1, 2)
    with pytest.raises(TypeError):
        x // 2
