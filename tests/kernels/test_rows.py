"""Row functions at many widths, and the rows that break careless ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from kohakutpu import kernels
from tests.kernels import oracle

pytestmark = pytest.mark.golden

WIDTHS = [1, 2, 5, 16, 33, 100, 384, 1000, 1024, 4096]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("width", WIDTHS)
def test_widths(width: int) -> None:
    a, w, b = normal(9, width), normal(width, seed=1), normal(width, seed=2)
    x, wt, bt = ktpu.tensor(a), ktpu.tensor(w), ktpu.tensor(b)
    wide = a.astype(float)
    oracle.assert_close(kernels.row_sum(x).numpy(), wide.sum(axis=-1), 0.51, 1e-5)
    oracle.assert_close(kernels.row_mean(x).numpy(), wide.mean(axis=-1), 0.51, 1e-6)
    oracle.assert_same_bits(kernels.row_max(x).numpy(), a.max(axis=-1))
    oracle.assert_same_bits(kernels.row_min(x).numpy(), a.min(axis=-1))
    oracle.assert_close(kernels.softmax(x).numpy(), oracle.softmax(a), 0.51, 2**-26)
    oracle.assert_close(kernels.rmsnorm(x, wt).numpy(), oracle.rmsnorm(a, w), 0.52)
    # At width 2 and 1 the variance can be as small as eps, and an error of x is an error of y.
    oracle.assert_close(kernels.layernorm(x, wt, bt).numpy(), oracle.layernorm(a, w, b), 0.52, 1e-4)


@pytest.mark.parametrize("machine", ["tiny", "duo", "quad"])
def test_bits_do_not_depend_on_the_machine_or_the_block(machine: str) -> None:
    a, w, b = normal(2, 37, 100), normal(100, seed=1), normal(100, seed=2)

    def results(**knobs: int) -> list[np.ndarray]:
        x, wt, bt = ktpu.tensor(a), ktpu.tensor(w), ktpu.tensor(b)
        return [
            kernels.row_sum(x, **knobs).numpy(),
            kernels.softmax(x, **knobs).numpy(),
            kernels.rmsnorm(x, wt, **knobs).numpy(),
            kernels.layernorm(x, wt, bt, **knobs).numpy(),
        ]

    want = results()
    with ktpu.device("golden", machine=machine, poison=True):
        for ours, expected in zip(results(), want, strict=True):
            oracle.assert_same_bits(ours, expected)
    for ours, expected in zip(results(n=4), want, strict=True):
        oracle.assert_same_bits(ours, expected)


def softmax_row(row: Any, width: int = 20) -> np.ndarray:
    values = np.zeros((3, width), np.float16)
    values[1] = np.resize(np.asarray(row, np.float16), width)
    result = kernels.softmax(ktpu.tensor(values)).numpy()
    assert (result[[0, 2]] == np.float16(1 / width)).all()  # the rows around are left alone
    oracle.assert_close(result, oracle.softmax(values), 1, 2**-25)
    return result[1]


@pytest.mark.parametrize("row", [
    [-np.inf], [np.inf], [np.inf, 0], [np.nan], [np.nan, 1, np.inf], [-np.inf, np.nan],
])  # fmt: skip
def test_softmax_rows_that_are_nan(row: list[float]) -> None:
    assert np.isnan(softmax_row(row)).all()


@pytest.mark.parametrize("row", [
    [-200], [-200, -201, -205.5], [-65504], [65504], [-65504, -65472], [65504, -65504],
    [-np.inf, 0], [-np.inf, -65504], [-1000, -1001], [0], [0, 8], [2**-24, -(2**-24)],
    [1000, 1000.5, 999], [-2048, -2047],
])  # fmt: skip
def test_softmax_rows_at_the_edges(row: list[float]) -> None:
    result = softmax_row(row)
    assert abs(result.astype(float).sum() - 1) < 2e-3
    if len(row) == 1:
        assert (result == np.float16(1 / 20)).all()


def test_softmax_of_one_column_is_one() -> None:
    assert (kernels.softmax(ktpu.tensor([[3.0], [-65504.0], [65504.0]])).numpy() == 1).all()


def test_reductions_of_special_rows() -> None:
    a = np.ones((6, 40), np.float16)
    a[0, 3], a[1, 39], a[2, 7] = np.nan, np.inf, -np.inf
    a[3, :2] = np.inf, -np.inf
    a[4] = 65504
    x = ktpu.tensor(a)
    with np.errstate(all="ignore"):
        total = a.astype(np.float32).sum(axis=-1).astype(np.float16)
    oracle.assert_same_bits(kernels.row_sum(x).numpy(), total)
    oracle.assert_same_bits(kernels.row_max(x).numpy(), a.max(axis=-1))
    oracle.assert_same_bits(kernels.row_min(x).numpy(), a.min(axis=-1))
    assert kernels.row_mean(x).numpy()[4] == 65504  # the sum would not fit FP16


@pytest.mark.parametrize("scale", [2.0**-14, 1.0, 30.0, 20000.0])
def test_norms_at_every_scale(scale: float) -> None:
    a = (normal(8, 384).astype(float).clip(-3, 3) * scale).astype(np.float16)
    w, b = normal(384, seed=1), normal(384, seed=2)
    x, wt, bt = ktpu.tensor(a), ktpu.tensor(w), ktpu.tensor(b)
    oracle.assert_close(kernels.rmsnorm(x, wt).numpy(), oracle.rmsnorm(a, w), 0.52)
    oracle.assert_close(kernels.layernorm(x, wt, bt).numpy(), oracle.layernorm(a, w, b), 0.52, 1e-4)


def test_layernorm_of_rows_far_from_zero() -> None:
    a = (1000 + normal(4, 256)).astype(np.float16)
    one, zero = np.ones(256, np.float16), np.zeros(256, np.float16)
    ours = kernels.layernorm(ktpu.tensor(a), ktpu.tensor(one), ktpu.tensor(zero)).numpy()
    oracle.assert_close(ours, oracle.layernorm(a, one, zero), 1, 1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: kernels.softmax(x),
        lambda x: kernels.row_sum(x),
        lambda x: kernels.rmsnorm(x, ktpu.tensor(np.ones(33))),
    ],
)
def test_batches_are_rows(call: Callable[[ktpu.Tensor], ktpu.Tensor]) -> None:
    a = normal(2, 3, 5, 33)
    batched = call(ktpu.tensor(a)).numpy()
    flat = call(ktpu.tensor(a.reshape(30, 33))).numpy()
    assert np.array_equal(batched.reshape(flat.shape), flat)
