"""Library kernels on the hardware: the whole memory equals the golden machine's after every run."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.sim import model
from kohakutpu import api as ktpu
from kohakutpu import devices, kernels
from kohakutpu.config import preset
from kohakutpu.kernels import wide
from kohakutpu.kernels.attention import kernel_for
from tests.hw.top import twin

pytestmark = pytest.mark.cocotb

# Machine, and seed of random stalls on every channel of memory.
MACHINES = [
    ("tiny", 0),
    ("tiny", 7),
    pytest.param(("small", 0), marks=pytest.mark.slow),
    pytest.param(("small", 7), marks=pytest.mark.slow),
]


@cache
def library(machine: str) -> Path:
    return model.build(preset(machine))


@pytest.fixture(params=MACHINES, ids=lambda param: f"{param[0]}-{param[1]}")
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    name, stalls = request.param
    kind = devices.Kind(
        "both", partial(twin.Twin, library=library(name)), {"stalls": int}, twin.no_options
    )
    monkeypatch.setitem(devices.KINDS, "twin", kind)
    with ktpu.device("twin", machine=name, stalls=stalls) as session:
        yield session
        session.close()


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def t(*shape: int, seed: int = 0) -> ktpu.Tensor:
    return ktpu.tensor(normal(*shape, seed=seed))


MATMULS = [(1, 1, 1), (4, 32, 4), (5, 33, 7), (16, 64, 16), (33, 100, 20), (64, 64, 64),
           (7, 256, 129), (130, 48, 36)]  # fmt: skip


@pytest.mark.parametrize("shape", MATMULS, ids=str)
def test_matmul(both: Any, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    kernels.matmul(t(m, k), t(n, k, seed=1)).numpy()


def test_matmul_variants(both: Any) -> None:
    kernels.matmul(t(20, 70), t(24, 70, seed=1), precision="high").numpy()
    kernels.batched_matmul(t(3, 9, 40), t(3, 17, 40, seed=1)).numpy()


def test_matmul_of_hard_values(both: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = normal(33, 129), normal(20, 129, seed=1)
    a *= np.exp2(rng.integers(-12, 6, a.shape)).astype(np.float16)
    a[3] = (a[3].astype(float) * 2.0**-20).astype(np.float16)
    a[4, 40], a[9, 100], b[2, 128], b[3] = np.nan, np.inf, -np.inf, -0.0
    for precision in ("default", "high"):
        kernels.matmul(ktpu.tensor(a), ktpu.tensor(b), precision=precision).numpy()


LAYERS = [kernels.linear_silu, kernels.linear_gelu, kernels.linear_relu]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda kernel: kernel.name)
def test_layers(both: Any, layer: Callable[..., Any]) -> None:
    for m, k, n in ((1, 1, 1), (17, 70, 33), (40, 64, 48)):
        layer(t(m, k), t(n, k, seed=1)).numpy()


def test_layer_with_bias(both: Any) -> None:
    kernels.linear_bias(t(17, 70), t(33, 70, seed=1), t(33, seed=2)).numpy()


def test_layers_with_residual(both: Any) -> None:
    x, w, bias, rest = t(17, 70), t(33, 70, seed=1), t(33, seed=2), t(17, 33, seed=3)
    kernels.linear(t(2, 5, 40), t(9, 40), activation="tanh").numpy()
    kernels.linear_residual(x, w, rest, activation="silu").numpy()
    kernels.linear_bias_residual(x, w, bias, rest, residual_first=True).numpy()


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
def test_gated_layers(both: Any, name: str) -> None:
    for m, k, n in ((1, 1, 1), (17, 70, 33)):
        getattr(kernels, name)(t(m, k), t(n, k, seed=1), t(n, k, seed=2)).numpy()


BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
UNARY = ["neg", "abs", "exp2", "log2", "recip", "rsqrt", "silu", "gelu", "relu"]
SHAPES = [(1,), (5, 7), (3, 100), (2, 3, 33)]


@pytest.mark.parametrize("name", BINARY)
def test_pairs(both: Any, name: str) -> None:
    for shape in SHAPES:
        getattr(kernels, name)(t(*shape), t(*shape, seed=1)).numpy()


@pytest.mark.parametrize("name", UNARY)
def test_single(both: Any, name: str) -> None:
    for shape in SHAPES:
        getattr(kernels, name)(t(*shape)).numpy()
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    getattr(kernels, name)(ktpu.tensor(every)).numpy()


def test_where(both: Any) -> None:
    for shape in SHAPES:
        kernels.where(t(*shape, seed=2), t(*shape), t(*shape, seed=1)).numpy()


ROWS = ["row_sum", "row_max", "row_min", "row_mean", "softmax"]


@pytest.mark.parametrize("name", ROWS)
def test_rows(both: Any, name: str) -> None:
    for shape in ((1, 1), (9, 2), (5, 33), (2, 3, 100), (37, 384)):
        getattr(kernels, name)(t(*shape)).numpy()


def test_norms(both: Any) -> None:
    for shape in ((1, 1), (9, 16), (2, 3, 100)):
        w, b = t(shape[-1], seed=1), t(shape[-1], seed=2)
        kernels.rmsnorm(t(*shape), w).numpy()
        kernels.layernorm(t(*shape), w, b).numpy()


def test_group_norm(both: Any) -> None:
    for shape in ((1, 1, 1), (2, 3, 5, 33)):
        w, b = t(*shape[-3:-1], seed=1), t(*shape[-3:-1], seed=2)
        kernels.group_norm(t(*shape), w, b).numpy()


def test_convolution(both: Any) -> None:
    x, w, bias = t(1, 6, 5, 16), t(7, 3, 3, 16, seed=1), t(7, seed=2)
    ktpu.conv2d(x, w, bias, padding=1, activation="silu").numpy()
    ktpu.conv2d(t(2, 5, 5, 3), t(4, 2, 2, 3, seed=1), stride=2).numpy()
    ktpu.conv2d(x, t(6, 1, 1, 16, seed=1), stride=2).numpy()


def test_rotary(both: Any) -> None:
    tables = ktpu.rope_tables(9, 24)
    ktpu.rope(t(2, 9, 24), *tables).numpy()
    ktpu.rope(t(3, 6), *ktpu.rope_tables(3, 6, dtype="fp16")).numpy()


def test_rows_in_pieces(both: Any) -> None:
    w = t(600, seed=1)
    wide.row_sum(t(5, 600)).numpy()
    wide.softmax(t(3, 600)).numpy()
    wide.layernorm(t(3, 600), w, w).numpy()


def test_attention(both: Any) -> None:
    q, k, v = t(2, 9, 40), t(2, 70, 40, seed=1), t(2, 70, 20, seed=2)
    kernels.attention(q, k, v, block_q=8, block_k=32).numpy()
    ktpu.attention(q, k, v, causal=True, precision="high").numpy()
    keys, bias = t(2, 70, seed=3), t(1, 9, 70, seed=4)
    ktpu.attention(q, k, v, keys=keys.relu(), bias=bias).numpy()
    kernel_for()(t(40, 33), t(40, 33), t(40, 33), block_q=32, block_k=32, causal=True).numpy()


def test_two_layers(both: Any) -> None:
    x, up, down = t(9, 40), t(70, 40, seed=1), t(20, 70, seed=2)
    kernels.mlp(x, up, down, block=8, hidden=32, columns=16).numpy()
    ktpu.mlp(x, up, down, gate=t(70, 40, seed=3), up_bias=t(70), residual=t(9, 20)).numpy()
