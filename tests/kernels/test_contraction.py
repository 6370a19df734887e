"""Contractions against the definition of the numbers, to the bit, with NaN in the padding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohakutpu import api as ktpu
from kohakutpu import kernels
from tests.kernels import oracle

pytestmark = pytest.mark.golden

SIZES = st.sampled_from([1, 3, 4, 7, 16, 31, 32, 33, 48, 100, 129, 256])
EPILOGUES = ["silu", "gelu", "relu"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


@settings(max_examples=40)
@given(SIZES, SIZES, SIZES)
@example(256, 256, 256)
@example(129, 33, 100)
@example(1, 1, 1)
def test_all_sizes(m: int, k: int, n: int) -> None:
    a, b = normal(m, k), normal(n, k, seed=1)
    with ktpu.device("golden", machine="small", poison=True):
        ours = kernels.matmul(ktpu.tensor(a), ktpu.tensor(b)).numpy()
    oracle.assert_same_bits(ours, oracle.matmul(a, b))


@pytest.mark.parametrize("kind", ["wide", "subnormal", "specials", "zeros"])
def test_hard_values(kind: str) -> None:
    rng = np.random.default_rng(3)
    a, b = normal(33, 129), normal(20, 129, seed=1)
    if kind == "wide":
        a, b = (x * np.exp2(rng.integers(-12, 6, x.shape)).astype(np.float16) for x in (a, b))
    elif kind == "subnormal":
        a = (a.astype(float) * 2.0**-24).astype(np.float16)
        b = (b.astype(float) * 2.0**-20).astype(np.float16)
    elif kind == "zeros":
        a[:, 32:64] = 0
        b[3] = -0.0
    else:
        a[4, 40], a[9, 100], b[2, 128] = np.nan, np.inf, -np.inf
    ours = kernels.matmul(ktpu.tensor(a), ktpu.tensor(b)).numpy()
    oracle.assert_same_bits(ours, oracle.matmul(a, b))
    if kind == "specials":
        assert np.isnan(ours[[4, 9]]).all()
        assert np.isnan(ours[:, 2]).all()
        assert np.isfinite(np.delete(np.delete(ours, [4, 9], 0), 2, 1)).all()


def test_overflow_of_the_result_is_inf() -> None:
    a = np.full((2, 64), 300, np.float16)
    ours = kernels.matmul(ktpu.tensor(a), ktpu.tensor(np.stack([a[0], -a[0]]))).numpy()
    assert ours.tolist() == [[np.inf, -np.inf]] * 2


def test_ones_are_exact() -> None:
    one = ktpu.tensor(np.ones((5, 1024)))
    for precision in ("default", "high"):
        assert (ktpu.matmul(one, one, precision=precision).numpy() == 1024).all()


@pytest.mark.parametrize(("m", "k", "n"), [(33, 100, 20), (64, 1024, 64)])
def test_precision(m: int, k: int, n: int) -> None:
    a, b = normal(m, k), normal(n, k, seed=1)
    exact = a.astype(float) @ b.astype(float).T
    scale = np.sqrt(np.mean(exact**2))
    for precision, bound in (("default", 1.3e-2), ("left", 1e-2), ("high", 3e-4)):
        ours = kernels.matmul(ktpu.tensor(a), ktpu.tensor(b), precision=precision).numpy()
        oracle.assert_same_bits(ours, oracle.matmul(a, b, precision))
        assert np.sqrt(np.mean((ours - exact) ** 2)) / scale <= bound


@pytest.mark.parametrize("knobs", [
    {"gm": 1, "gn": 1, "nk": 1}, {"gm": 2, "gn": 1, "nk": 2}, {"gm": 3, "gn": 5, "nk": 3},
    {"gm": 16, "gn": 4, "nk": 1}, {"gm": 1, "gn": 20, "nk": 8}, {"gm": 8}, {"nk": 5},
])  # fmt: skip
@pytest.mark.parametrize("precision", ["default", "left", "high"])
def test_bits_do_not_depend_on_knobs(knobs: dict[str, int], precision: str) -> None:
    a, b = normal(50, 300), normal(37, 300, seed=1)
    want = oracle.matmul(a, b, precision)
    x, w = ktpu.tensor(a), ktpu.tensor(b)
    oracle.assert_same_bits(kernels.matmul(x, w, precision=precision, **knobs).numpy(), want)


@pytest.mark.parametrize("machine", ["tiny", "small", "duo", "quad"])
def test_bits_do_not_depend_on_the_machine(machine: str) -> None:
    a, b, bias = normal(70, 200), normal(90, 200, seed=1), normal(90, seed=2)
    with ktpu.device("golden", machine=machine, poison=True):
        x, w = ktpu.tensor(a), ktpu.tensor(b)
        oracle.assert_same_bits(kernels.matmul(x, w).numpy(), oracle.matmul(a, b))
        batch = ktpu.tensor(np.stack([a, a[::-1], 2 * a]))
        want = [oracle.matmul(part, b) for part in (a, a[::-1], 2 * a)]
        oracle.assert_same_bits(kernels.batched_matmul(batch, w).numpy(), np.stack(want))
        fused = kernels.linear_bias(x, w, ktpu.tensor(bias)).numpy()
        plain = oracle.matmul(a, b).astype(np.float32) + bias.astype(np.float32)
        oracle.assert_same_bits(fused, plain.astype(np.float16))


@pytest.mark.parametrize("batches", [((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (1, 3))])
def test_batches(batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = normal(*batches[0], 7, 40), normal(*batches[1], 9, 40, seed=1)
    ours = kernels.batched_matmul(ktpu.tensor(a), ktpu.tensor(b)).numpy()
    shape = np.broadcast_shapes(*batches)
    x, y = np.broadcast_to(a, (*shape, 7, 40)), np.broadcast_to(b, (*shape, 9, 40))
    assert ours.shape == (*shape, 7, 9)
    for index in np.ndindex(*shape):
        oracle.assert_same_bits(ours[index], oracle.matmul(x[index], y[index]))


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 40, 3), (33, 100, 129), (128, 64, 256)])
def test_fused_is_unfused(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, w = ktpu.tensor(normal(m, k)), ktpu.tensor(normal(n, k, seed=1))
    bias = ktpu.tensor(normal(n, seed=2))
    product = kernels.matmul(x, w)
    for name in EPILOGUES:
        fused = getattr(kernels, f"linear_{name}")(x, w)
        oracle.assert_same_bits(fused.numpy(), getattr(kernels, name)(product).numpy())
    oracle.assert_same_bits(kernels.linear_bias(x, w, bias).numpy(), (product + bias).numpy())


@pytest.mark.parametrize("name", EPILOGUES)
def test_the_product_of_a_fused_layer_stays_off_memory(name: str, hostile: ktpu.Session) -> None:
    x, w = ktpu.tensor(normal(64, 64)), ktpu.tensor(normal(64, 64, seed=1))
    written: dict[str, int] = {}
    runs: dict[str, Any] = {
        "matmul": kernels.matmul,
        "fused": getattr(kernels, f"linear_{name}"),
    }
    for what, kernel in runs.items():
        hostile.reset_stats()
        kernel(x, w)
        written[what] = hostile.stats().memory_written
    assert written["fused"] == written["matmul"]
