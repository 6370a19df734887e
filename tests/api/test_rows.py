import numpy as np
import pytest

from kohakuaccel.errors import CallError
from kohakutpu import api as ktpu
from tests.kernels.oracle import assert_close, assert_same_bits, layernorm, rmsnorm, softmax

pytestmark = pytest.mark.golden
SHAPES = [(), (1,), (7,), (3, 5), (1, 1), (2, 3, 5), (2, 2, 3, 17)]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions(shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    x = ktpu.tensor(a)
    wide = a.astype(float) if shape else a.astype(float)[None]
    for name in ("sum", "mean"):
        result = getattr(x, name)()
        assert result.shape == shape[:-1]
        assert_close(result.numpy(), np.asarray(getattr(wide, name)(axis=-1)), 0.51, 1e-6)
    for name in ("max", "min"):
        result = getattr(x, name)().numpy()
        assert_same_bits(result, np.asarray(getattr(wide, name)(axis=-1)).astype(np.float16))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_functions(shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    w, b = normal(*shape[-1:], seed=1), normal(*shape[-1:], seed=2)
    x, wt, bt = ktpu.tensor(a), ktpu.tensor(w), ktpu.tensor(b)
    row = a if shape else a[None]
    assert_close(x.softmax().numpy(), softmax(row).reshape(shape), 1)
    assert_close(x.rmsnorm(wt).numpy(), rmsnorm(row, w).reshape(shape), 1, 1e-6)
    assert_close(x.layernorm(wt, bt).numpy(), layernorm(row, w, b).reshape(shape), 1, 1e-3)


def test_eps() -> None:
    a = np.full((2, 16), 0.001, np.float16)
    one = np.ones(16, np.float16)
    x, w = ktpu.tensor(a), ktpu.tensor(one)
    assert_close(x.rmsnorm(w, eps=0.25).numpy(), rmsnorm(a, one, 0.25), 1)
    assert_close(x.layernorm(w, w, eps=0.25).numpy(), layernorm(a, one, one, 0.25), 1)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5), (2, 0, 5), (2, 3, 0)])
def test_without_elements(shape: tuple[int, ...]) -> None:
    x = ktpu.zeros(shape)
    channel = ktpu.zeros(shape[-1:])
    for result in (x.softmax(), x.rmsnorm(channel), x.layernorm(channel, channel)):
        assert result.numpy().shape == shape
    assert np.array_equal(x.sum().numpy(), np.zeros(shape[:-1]))
    means = x.mean().numpy()
    assert means.shape == shape[:-1]
    assert np.isnan(means).all()
    if shape[-1]:
        assert x.max().shape == shape[:-1]
    else:
        with pytest.raises(CallError, match="max of rows without elements"):
            x.max()
        with pytest.raises(CallError, match="min of rows without elements"):
            x.min()


def test_long_rows() -> None:
    x, c = ktpu.zeros((2, 16384)), ktpu.full(16384, 2)
    assert (x.softmax().numpy() == 2.0**-14).all()
    assert (c.rmsnorm(c).numpy() == 2).all()
    assert (x.layernorm(c, c).numpy() == 2).all()
    assert c.max().numpy() == 2


def test_channels_that_do_not_fit() -> None:
    x = ktpu.zeros((3, 5))
    with pytest.raises(CallError, match=r"rmsnorm: w has shape \(3,\)"):
        x.rmsnorm(ktpu.zeros(3))
    with pytest.raises(CallError, match=r"layernorm: b has shape \(5, 1\)"):
        x.layernorm(ktpu.zeros(5), ktpu.zeros((5, 1)))
    with pytest.raises(CallError, match="ndarray"):
        x.rmsnorm(np.ones(5))  # pyright: ignore[reportArgumentType]
