"""Elementwise and row functions mean what numpy and math mean, as graphs of primitives."""

import math
from typing import Any

import numpy as np
import pytest

from kohakuaccel.ir.nodes import Value
from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import kernel
from tests.lang.graphs import compute, only_store

M, N = dims("M, N")
RANDOM = np.random.default_rng(7)
X = np.concatenate([RANDOM.normal(0, 3, 200), [0.0, 1.0, -1.0, 20.0, -20.0]]).reshape(5, 41)
Y = RANDOM.normal(0, 3, X.shape)


def graph(function: Any) -> Value:
    """Return the graph of ``function`` of rows of two buffers."""

    @kernel
    def traced(x=L.In(M, N), y=L.In(M, N), z=L.Out(M, N)):
        for r in grid(x.rows(2)):
            z[r] <<= function(x[r], y[r])

    return only_store(traced.trace()).value


def numbers(function: Any, x: Any = X) -> Any:
    return compute(graph(function), {"x": x, "y": Y}, {M: 5, N: 41})


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ERF = np.vectorize(math.erf)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x, y: L.exp2(x), np.exp2),
        (lambda x, y: L.exp(x), np.exp),
        (lambda x, y: L.sigmoid(x), sigmoid),
        (lambda x, y: L.silu(x), lambda x: x * sigmoid(x)),
        (lambda x, y: L.tanh(x), np.tanh),
        (lambda x, y: L.relu(x), lambda x: np.maximum(x, 0)),
        (lambda x, y: L.absolute(x), np.abs),
        (lambda x, y: abs(x), np.abs),
        (lambda x, y: -x, np.negative),
        (lambda x, y: +x, np.positive),
        (lambda x, y: x**3, lambda x: x**3),
        (lambda x, y: x**0, np.ones_like),
        (lambda x, y: L.clamp(x, -1, 2), lambda x: np.clip(x, -1, 2)),
        (lambda x, y: L.where(x < 0, x, 2), lambda x: np.where(x < 0, x, 2)),
        (
            lambda x, y: L.gelu(x),
            lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
    ],
)
def test_functions_of_one_operand(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(numbers(ours), theirs(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x, y: L.log2(x), np.log2),
        (lambda x, y: L.recip(x), np.reciprocal),
        (lambda x, y: 1 / x, np.reciprocal),
        (lambda x, y: L.rsqrt(x), lambda x: x**-0.5),
        (lambda x, y: L.sqrt(x), np.sqrt),
        (lambda x, y: x**0.5, np.sqrt),
        (lambda x, y: x**-0.5, lambda x: x**-0.5),
        (lambda x, y: x**-2, lambda x: x**-2.0),
    ],
)
def test_functions_of_a_positive_operand(ours: Any, theirs: Any) -> None:
    positive = np.abs(X) + 0.25
    np.testing.assert_allclose(numbers(ours, positive), theirs(positive), rtol=1e-12)


def test_erf_within_its_bound() -> None:
    x = np.linspace(-6, 6, 205).reshape(5, 41)
    assert np.abs(numbers(lambda x, y: L.erf(x), x) - ERF(x)).max() < 1.5e-7
    odd = numbers(lambda x, y: L.erf(x), -x) + numbers(lambda x, y: L.erf(x), x)
    assert np.all(odd[x != 0] == 0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x, y: x + y, np.add),
        (lambda x, y: x - y, np.subtract),
        (lambda x, y: x * y, np.multiply),
        (lambda x, y: x / y, np.divide),
        (lambda x, y: L.maximum(x, y), np.maximum),
        (lambda x, y: L.minimum(x, y), np.minimum),
        (lambda x, y: x < y, np.less),
        (lambda x, y: x <= y, np.less_equal),
        (lambda x, y: x > y, np.greater),
        (lambda x, y: x >= y, np.greater_equal),
        (lambda x, y: x == y, np.equal),
        (lambda x, y: x != y, np.not_equal),
        (lambda x, y: x == x, lambda x, y: np.equal(x, x)),
        (lambda x, y: np.float32(1.5) * x - y * np.int64(2), lambda x, y: 1.5 * x - y * 2),
        (lambda x, y: np.float16(2) - x, lambda x, y: 2 - x),
        (lambda x, y: np.float64(2) / x + (np.float32(1) < y), lambda x, y: 2 / x + (1 < y)),
        (lambda x, y: 3 - x + True, lambda x, y: 3 - x + 1),
        (lambda x, y: sum([x, y]), np.add),
    ],
)
def test_operators(ours: Any, theirs: Any) -> None:
    x = np.where(X == 0, 0.5, X)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(numbers(ours, x), theirs(x, Y), rtol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (L.row_sum, np.sum),
        (L.row_max, np.max),
        (L.row_min, np.min),
        (L.row_mean, np.mean),
    ],
)
def test_row_functions(ours: Any, theirs: Any) -> None:
    got = numbers(lambda x, y: ours(x + y))
    np.testing.assert_allclose(got, theirs(X + Y, axis=-1, keepdims=True), rtol=1e-12)


def test_extents_widen() -> None:
    @kernel
    def traced(x=L.In(M, N), w=L.In(N), s=L.In(M, 1), t=L.In(), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            row = L.row_sum(x[r]) * s[r] + t
            assert row.node.extent == "row"
            assert (w * t * 2).node.extent == "channel"
            assert (t * 2).node.extent == "scalar"
            assert (row * w).node.extent == "full"
            assert L.row_max(row * w).node.extent == "row"
            y[r] <<= row * w

    assert only_store(traced.trace()).value.extent == "full"


def test_numbers_alone_are_computed_in_double_precision() -> None:
    value = graph(lambda x, y: x * (L.exp2(0.5) + L.sqrt(2) / L.maximum(3, 4) - L.where(0, 1, 2)))
    assert [node.op for node in value.args] == ["load", "const"]
    assert value.args[1].number == pytest.approx(2**0.5 + 2**0.5 / 4 - 2, abs=1e-15)


def test_dimensions_are_numbers_too() -> None:
    value = graph(lambda x, y: x * (1 / N) + N * 0.5 + N**-0.5 + M // 2 + L.rsqrt(N))
    x = np.ones((5, 41))
    expected = 1 / 41 + 20.5 + 41**-0.5 + 2 + 41**-0.5
    np.testing.assert_allclose(compute(value, {"x": x}, {M: 5, N: 41}), expected, rtol=1e-12)


def test_a_division_by_a_number_is_one_multiplication() -> None:
    value = graph(lambda x, y: x / 3)
    assert (value.op, value.args[1].op, value.args[1].number) == ("mul", "const", 1 / 3)


def test_sharing_in_python_is_sharing_in_the_graph() -> None:
    def shared(x: Any, y: Any) -> Any:
        p = L.exp2(x)
        return p / (p + 1)

    value = graph(shared)
    assert value.args[0] is value.args[1].args[0].args[0]
