"""Unary kernels on every FP16 code, at every shape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from kohakutpu import kernels
from tests.kernels import oracle

pytestmark = pytest.mark.golden

CODES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, 1024)


def wide(function: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    def apply(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function(x.astype(float))

    return apply


# Name: reference, ulps of FP16 beyond which no result may lie, absolute slack.
UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "neg": (wide(np.negative), 0, 0),
    "abs": (wide(np.abs), 0, 0),
    "relu": (wide(lambda x: np.maximum(x, 0)), 0, 0),
    "exp2": (wide(np.exp2), 0.51, 0),
    "log2": (wide(np.log2), 0.51, 2**-20),
    "recip": (wide(lambda x: 1 / x), 0.51, 0),
    "rsqrt": (wide(lambda x: 1 / np.sqrt(x)), 0.51, 0),
    "silu": (oracle.silu, 0.52, 2**-25),
    "gelu": (oracle.gelu, 0.6, 2**-25),
}


@pytest.mark.parametrize("name", UNARY)
def test_every_fp16_code(name: str) -> None:
    reference, ulps, absolute = UNARY[name]
    ours = getattr(kernels, name)(ktpu.tensor(CODES)).numpy()
    oracle.assert_close(ours, reference(CODES), ulps, absolute)


@pytest.mark.parametrize("name", ["silu", "relu", "recip"])
@pytest.mark.parametrize("shape", [(), (1,), (15,), (16,), (17,), (3, 5), (2, 3, 4, 33), (1, 9000)])
@pytest.mark.parametrize("machine", ["tiny", "duo"])
def test_any_rank(name: str, shape: tuple[int, ...], machine: str) -> None:
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    with ktpu.device("golden", machine=machine, poison=True):
        ours = getattr(kernels, name)(ktpu.tensor(a)).numpy()
    reference, ulps, absolute = UNARY[name]
    oracle.assert_close(ours, np.asarray(reference(a)), ulps, absolute)


@pytest.mark.parametrize("n", [16, 64, 112, 2048])
def test_the_block_changes_no_bit(n: int) -> None:
    a = CODES[:8, :1000].copy()
    x = ktpu.tensor(a)
    assert np.array_equal(
        kernels.silu(x, n=n).numpy().view(np.uint16), kernels.silu(x).numpy().view(np.uint16)
    )
    oracle.assert_same_bits(kernels.add(x, x, n=n).numpy(), (x + x).numpy())
