"""Kernels at the edges of what the language says: nothing to read, nothing to sum, huge numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu import lang as L
from kohakutpu.lang import kernel
from tests.kernels import oracle

pytestmark = pytest.mark.golden
M, K, N = dims("M, K, N")


@kernel
def constant_rows(x=L.In(M, N), y=L.Out(M, N), *, n=None):
    for r in grid(x.rows(n)):
        y[r] <<= 2.5


@kernel
def constant_parts(x=L.In(...), y=L.Out(...), *, n=None):
    for e in grid(x.parts(n)):
        y[e] <<= -1


@pytest.mark.parametrize("n", [None, 16])
def test_an_argument_that_only_says_the_split(n: int | None) -> None:
    x = ktpu.tensor(np.full((37, 20), np.nan))
    assert (constant_rows(x, n=n).numpy() == 2.5).all()
    assert (constant_parts(x, n=n).numpy() == -1).all()


def test_a_sum_over_nothing() -> None:
    x, w = ktpu.zeros((9, 0)), ktpu.zeros((5, 0))
    for call in (kernels.matmul, kernels.linear_relu):
        oracle.assert_same_bits(call(x, w).numpy(), np.zeros((9, 5), np.float16))
    bias = ktpu.tensor(np.arange(5))
    fused = kernels.linear_bias(x, w, bias).numpy()
    oracle.assert_same_bits(fused, np.tile(np.arange(5, dtype=np.float16), (9, 1)))


def elementwise(value: Callable[[Any], Any]) -> Callable[[], ktpu.Tensor]:
    @kernel
    def body(x=L.In(M, N), y=L.Out(M, N), *, n=None):
        for r in grid(x.rows(n)):
            y[r] <<= value(x[r])

    return lambda: body(ktpu.tensor(np.ones((3, 5))))


@pytest.mark.parametrize("number", [1e39, -1e300, 10**400, np.float64(4e38), 2.0**128])
def test_numbers_beyond_fp32(number: Any) -> None:
    with pytest.raises(KernelError, match="beyond FP32"):
        elementwise(lambda x: x + number)()


def test_numbers_beyond_fp32_once_the_shapes_are_known() -> None:
    with pytest.raises(KernelError, match="beyond FP32") as caught:
        elementwise(lambda x: x * 10.0 ** (13 * M))()
    assert caught.value.loc is not None
    assert caught.value.loc.source == "x * 10.0 ** (13 * M)"


def test_infinity_and_the_largest_number_are_fine() -> None:
    assert (elementwise(lambda x: x - np.inf)().numpy() == -np.inf).all()
    largest = float(np.finfo(np.float32).max)
    assert (elementwise(lambda x: x * largest * 2.0**-120)().numpy() == 256).all()


def test_tables_beyond_fp32() -> None:
    @kernel
    def masked(x=L.In(M, 4), y=L.Out(M, 4), *, n=None, named=False):
        big = L.table([1.0, -1e300, np.inf, 1e30], dtype="fp32" if named else None)
        for r in grid(x.rows(n)):
            y[r] <<= x[r] * big

    x = ktpu.tensor(np.ones((2, 4)))
    with pytest.raises(KernelError, match="finite number beyond FP32"):
        masked(x)
    assert masked(x, named=True).numpy().tolist() == [[1, -np.inf, np.inf, np.inf]] * 2


def test_a_batch_of_one_and_of_many() -> None:
    @kernel
    def layer(x=L.In(..., M, K), w=L.In(N, K), y=L.Out(..., M, N)):
        for i, j in grid(x.tiles(None), w.tiles(None)):
            acc = L.tile()
            for k in sweep(x.chunks32(None)):
                acc += x[i, k] @ w[j, k]
            y[i, j] <<= L.relu(acc)

    rng = np.random.default_rng(0)
    w = rng.standard_normal((6, 33)).astype(np.float16)
    for batch in ((), (1,), (50,), (2, 1, 2, 3)):
        x = rng.standard_normal((*batch, 5, 33)).astype(np.float16)
        want = np.maximum(oracle.matmul(x.reshape(-1, 33), w), np.float16(0))
        ours = layer(ktpu.tensor(x), ktpu.tensor(w)).numpy()
        oracle.assert_same_bits(ours, want.reshape(*batch, 5, 6))
