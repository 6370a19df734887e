"""Rows of any width, piece by piece: bits as stated, close to the definition, one pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from kohakutpu.kernels import wide as kernels
from tests.kernels import oracle
from tests.kernels.statements import LOG2_E, Array, exp2, half, number, recip, row_sum, rsqrt, wide

pytestmark = pytest.mark.golden

WIDTHS = [1, 33, 256, 257, 511, 1000, 2048, 20001]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def total(x: Array) -> Array:
    """Sums of pieces, added in order."""
    found = np.zeros((*x.shape[:-1], 1), np.float32)
    for first in range(0, x.shape[-1], kernels.PIECE):
        found = found + row_sum(x[..., first : first + kernels.PIECE])
    return found


def softmax(x: Array) -> Array:
    scaled = wide(x) * number(LOG2_E)
    power = exp2(scaled - wide(x).max(axis=-1, keepdims=True) * number(LOG2_E))
    return half(power * recip(total(power)))


def rmsnorm(x: Array, w: Array) -> Array:
    share = number(1 / x.shape[-1])
    return half(wide(x) * rsqrt(total(wide(x) * share * wide(x)) + number(1e-5)) * wide(w))


def layernorm(x: Array, w: Array, b: Array) -> Array:
    share = number(1 / x.shape[-1])
    centred = wide(x) - total(wide(x)) * share
    spread = total(centred * share * centred)
    return half(centred * rsqrt(spread + number(1e-5)) * wide(w) + wide(b))


CASES: dict[str, tuple[int, Callable[..., Array], Callable[..., Array], float]] = {
    "row_sum": (0, lambda x: half(total(wide(x))[..., 0]), lambda x: x.sum(-1), 1e-4),
    "row_mean": (
        0,
        lambda x: half(total(wide(x))[..., 0] * number(1 / x.shape[-1])),
        lambda x: x.mean(-1),
        1e-5,
    ),
    "row_max": (0, lambda x: x.max(-1), lambda x: x.max(-1), 0),
    "row_min": (0, lambda x: x.min(-1), lambda x: x.min(-1), 0),
    "softmax": (0, softmax, oracle.softmax, 2**-25),
    "rmsnorm": (1, rmsnorm, oracle.rmsnorm, 1e-5),
    "layernorm": (2, layernorm, oracle.layernorm, 1e-3),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_widths(machine: str, width: int, name: str) -> None:
    channels, statement, exact, slack = CASES[name]
    values = [normal(2, 5, width), *(normal(width, seed=s + 1) for s in range(channels))]
    with ktpu.device("golden", machine=machine, poison=True):
        ours = getattr(kernels, name)(*(ktpu.tensor(v) for v in values)).numpy()
    oracle.assert_same_bits(ours, statement(*values))
    oracle.assert_close(ours, exact(*(v.astype(float) for v in values)), 0.6, slack)


def test_special_rows() -> None:
    x = normal(6, 1500)
    x[0, 1400], x[1, 3], x[2, 600] = np.nan, np.inf, -np.inf
    x[3] = -np.inf
    tensor = ktpu.tensor(x)
    oracle.assert_same_bits(kernels.row_max(tensor).numpy(), x.max(-1))
    oracle.assert_same_bits(kernels.row_min(tensor).numpy(), x.min(-1))
    oracle.assert_close(kernels.softmax(tensor).numpy(), oracle.softmax(x), 0.6, 2**-25)


@pytest.mark.parametrize("name", CASES)
def test_interleavings(name: str) -> None:
    channels = CASES[name][0]
    values = [normal(9, 1100), *(normal(1100, seed=s + 1) for s in range(channels))]

    def run(**options: Any) -> bytes:
        with ktpu.device("golden", poison=True, **options) as session:
            found = getattr(kernels, name)(*(ktpu.tensor(v) for v in values)).numpy()
            session.close()
            return found.tobytes()

    want = run(machine="small")
    assert all(run(machine="duo", seed=seed) == want for seed in range(9))


@pytest.mark.parametrize("width", [16383, 16384, 50000])
def test_tensors(width: int, hostile: ktpu.Session) -> None:
    a, w, b = normal(3, width), normal(width, seed=1), normal(width, seed=2)
    x, scale, move = (ktpu.tensor(v) for v in (a, w, b))
    hostile.reset_stats()
    assert (x.max().numpy() == a.max(-1)).all()
    assert hostile.stats().memory_written == 1
    oracle.assert_close(x.sum().numpy(), a.astype(float).sum(-1), 0.6, 1e-3)
    oracle.assert_close(x.softmax().numpy(), oracle.softmax(a), 0.6, 2**-25)
    oracle.assert_close(x.rmsnorm(scale).numpy(), oracle.rmsnorm(a, w), 0.6)
    hostile.reset_stats()
    ours = x.layernorm(scale, move).numpy()
    assert hostile.stats().memory_written == 3 * -(-width // 16)
    oracle.assert_close(ours, oracle.layernorm(a, w, b), 0.6, 1e-3)


def test_rows_that_a_small_machine_does_not_hold() -> None:
    a = normal(2, 12000)
    with ktpu.device("golden", machine="tiny", poison=True):
        ours = ktpu.tensor(a).softmax().numpy()
    oracle.assert_same_bits(ours, softmax(a))
