"""Library kernels on the hardware: the whole memory equals the golden machine's after every run."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.sim.model import Variant
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu.kernels import wide
from kohakutpu.kernels.attention import kernel_for
from tests.hw.top import shapes

pytestmark = pytest.mark.cocotb


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def t(*shape: int, seed: int = 0) -> ktpu.Tensor:
    return ktpu.tensor(normal(*shape, seed=seed))


@pytest.mark.parametrize("name", kernels.__all__)
def test_library(both: Any, name: str) -> None:
    kernel = getattr(kernels, name)
    for number, case in enumerate(shapes.cases()):
        kernel(*(ktpu.tensor(values) for values in shapes.arrays(kernel, number, case)))


def test_forty_shapes_of_every_kernel() -> None:
    for name in kernels.__all__:
        kernel = getattr(kernels, name)
        assert len({tuple(shapes.operands(kernel, case)) for case in shapes.cases()}) >= 40, name


def test_long_contractions(both: Any) -> None:
    kernels.matmul(t(33, 700), t(20, 700, seed=1)).numpy()
    kernels.matmul(t(20, 70), t(24, 70, seed=1), precision="high").numpy()


def test_matmul_of_hard_values(both: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = normal(33, 129), normal(20, 129, seed=1)
    a *= np.exp2(rng.integers(-12, 6, a.shape)).astype(np.float16)
    a[3] = (a[3].astype(float) * 2.0**-20).astype(np.float16)
    a[4, 40], a[9, 100], b[2, 128], b[3] = np.nan, np.inf, -np.inf, -0.0
    for precision in ("default", "high"):
        kernels.matmul(ktpu.tensor(a), ktpu.tensor(b), precision=precision).numpy()


def test_layers_with_other_epilogues(both: Any) -> None:
    x, w, bias, rest = t(17, 70), t(33, 70, seed=1), t(33, seed=2), t(17, 33, seed=3)
    kernels.linear(t(2, 5, 40), t(9, 40), activation="tanh").numpy()
    kernels.linear_residual(x, w, rest, activation="silu").numpy()
    kernels.linear_bias_residual(x, w, bias, rest, residual_first=True).numpy()


UNARY = ["neg", "abs", "exp2", "log2", "recip", "rsqrt", "silu", "gelu", "relu"]


@pytest.mark.parametrize("name", UNARY)
def test_every_half(both: Any, name: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    getattr(kernels, name)(ktpu.tensor(every)).numpy()


def test_reductions_of_hard_values(both: Any) -> None:
    x = normal(8, 100)
    x[1, 40], x[2, 30], x[3, 30], x[4] = np.nan, np.inf, -np.inf, -0.0
    x[5, 3:5] = np.inf, -np.inf
    for name in ("row_sum", "row_max", "row_min", "row_mean", "softmax"):
        getattr(kernels, name)(ktpu.tensor(x)).numpy()


def test_convolution(both: Any) -> None:
    x, w, bias = t(1, 6, 5, 16), t(7, 3, 3, 16, seed=1), t(7, seed=2)
    ktpu.conv2d(x, w, bias, padding=1, activation="silu").numpy()
    ktpu.conv2d(t(2, 5, 5, 3), t(4, 2, 2, 3, seed=1), stride=2).numpy()
    ktpu.conv2d(x, t(6, 1, 1, 16, seed=1), stride=2).numpy()


def test_rotary(both: Any) -> None:
    tables = ktpu.rope_tables(9, 24)
    ktpu.rope(t(2, 9, 24), *tables).numpy()
    ktpu.rope(t(3, 6), *ktpu.rope_tables(3, 6, dtype="fp16")).numpy()


def test_transposition(both: Any) -> None:
    t(9, 22).T.numpy()
    t(2, 5, 3).transpose(0, 2, 1).numpy()


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
    kernel_for()(t(40, 33), t(40, 33), t(40, 16), block_q=32, block_k=32, causal=True).numpy()


def test_two_layers(both: Any) -> None:
    x, up, down = t(9, 40), t(70, 40, seed=1), t(20, 70, seed=2)
    kernels.mlp(x, up, down, block=8, hidden=32, columns=16).numpy()
    ktpu.mlp(x, up, down, gate=t(70, 40, seed=3), up_bias=t(70), residual=t(9, 20)).numpy()


@pytest.mark.parametrize("both", [("small", 0, Variant.FAST)], indirect=True)
def test_transformer_block(both: Any) -> None:
    example = Path(__file__).parents[3] / "examples/kohakutpu/03_transformer.py"
    parts: Any = runpy.run_path(str(example))
    arrays = parts["weights"](np.random.default_rng(0))
    weights = parts["Weights"](**{name: ktpu.tensor(array) for name, array in arrays.items()})
    tables = ktpu.rope_tables(parts["LENGTH"], parts["HEAD"])
    parts["block"](t(1, parts["LENGTH"], parts["WIDTH"]), weights, *tables).numpy()
