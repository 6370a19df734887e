"""Layers in one pass: every activation, bias and residual on either side, gates; equal bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakuaccel.errors import CallError, KernelError
from kohakutpu import api as ktpu
from kohakutpu import kernels
from tests.kernels import oracle
from tests.kernels.statements import ACTIVATIONS, Array, half, wide

pytestmark = pytest.mark.golden

SHAPES = [(1, 1, 1), (3, 33, 5), (37, 100, 21), (64, 64, 96)]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def product(a: Array, b: Array, precision: str = "default") -> Array:
    """The product as the vector core sees it: FP16, batch axes of `a` kept."""
    flat = oracle.matmul(a.reshape(-1, a.shape[-1]), b, precision)
    return wide(flat.reshape(*a.shape[:-1], len(b)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_activations(shape: tuple[int, int, int], activation: str) -> None:
    m, k, n = shape
    a, b = normal(m, k), normal(n, k, seed=1)
    ours = kernels.linear(ktpu.tensor(a), ktpu.tensor(b), activation=activation).numpy()
    oracle.assert_same_bits(ours, half(ACTIVATIONS[activation](product(a, b))))


def test_products_of_every_magnitude() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    codes = codes[np.isfinite(codes)].reshape(-1, 1)
    a, b = codes, np.ones((1, 1), np.float16)
    for name in ("silu", "gelu", "tanh"):
        ours = kernels.linear(ktpu.tensor(a), ktpu.tensor(b), activation=name).numpy()
        oracle.assert_same_bits(ours, half(ACTIVATIONS[name](product(a, b))))


@pytest.mark.parametrize("activation", ["none", "silu", "relu"])
@pytest.mark.parametrize("bias_first", [True, False])
@pytest.mark.parametrize("residual_first", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 1), (37, 100, 21)])
def test_bias_and_residual(
    shape: tuple[int, int, int], residual_first: bool, bias_first: bool, activation: str
) -> None:
    m, k, n = shape
    a, b, bias, rest = normal(m, k), normal(n, k, seed=1), normal(n, seed=2), normal(m, n, seed=3)
    act = ACTIVATIONS[activation]
    value = product(a, b)
    both = value
    value = value + wide(bias) if bias_first else value
    both = act(value + wide(rest) if residual_first else value)
    both = both if bias_first else both + wide(bias)
    both = both if residual_first else both + wide(rest)
    tensors = [ktpu.tensor(x) for x in (a, b, bias, rest)]
    ours = kernels.linear_bias_residual(
        *tensors, activation=activation, bias_first=bias_first, residual_first=residual_first
    )
    oracle.assert_same_bits(ours.numpy(), half(both))


@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("first", [True, False])
def test_one_of_them(first: bool, activation: str) -> None:
    a, b, bias, rest = normal(9, 40), normal(7, 40, seed=1), normal(7, seed=2), normal(9, 7, seed=3)
    x, w, act = ktpu.tensor(a), ktpu.tensor(b), ACTIVATIONS[activation]
    plain = product(a, b)
    for kernel, other, name in (
        (kernels.linear_bias, bias, "bias_first"),
        (kernels.linear_residual, rest, "residual_first"),
    ):
        ours = kernel(x, w, ktpu.tensor(other), activation=activation, **{name: first}).numpy()
        want = act(plain + wide(other)) if first else act(plain) + wide(other)
        oracle.assert_same_bits(ours, half(want))


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
@pytest.mark.parametrize("shape", [*SHAPES, (128, 256, 200)])
def test_gates(shape: tuple[int, int, int], name: str) -> None:
    m, k, n = shape
    a, g, u = normal(m, k), normal(n, k, seed=1), normal(n, k, seed=2)
    ours = getattr(kernels, name)(*(ktpu.tensor(x) for x in (a, g, u))).numpy()
    act = ACTIVATIONS["silu" if name == "swiglu" else "gelu"]
    oracle.assert_same_bits(ours, half(act(product(a, g)) * product(a, u)))


def test_gates_at_high_precision() -> None:
    a, g, u = normal(20, 70), normal(13, 70, seed=1), normal(13, 70, seed=2)
    ours = kernels.swiglu(*(ktpu.tensor(x) for x in (a, g, u)), precision="high").numpy()
    gate, up = product(a, g, "high"), product(a, u, "high")
    oracle.assert_same_bits(ours, half(ACTIVATIONS["silu"](gate) * up))
    exact_gate, exact_up = (a.astype(float) @ w.astype(float).T for w in (g, u))
    exact = oracle.silu(exact_gate) * exact_up
    assert np.sqrt(np.mean((ours - exact) ** 2) / np.mean(exact**2)) <= 6e-4


CALLS: dict[str, tuple[Callable[..., Any], int, Callable[..., Array]]] = {
    "linear": (kernels.linear, 1, lambda p, act, *_: act(p[0])),
    "linear_residual": (kernels.linear_residual, 1, lambda p, act, rest: act(p[0]) + wide(rest)),
    "swiglu": (kernels.swiglu, 2, lambda p, act, *_: act(p[0]) * p[1]),
}


@pytest.mark.parametrize("batch", [(1,), (3,), (2, 1, 2)])
@pytest.mark.parametrize("name", CALLS)
def test_batches_share_a_weight(name: str, batch: tuple[int, ...]) -> None:
    kernel, count, statement = CALLS[name]
    a, rest = normal(*batch, 7, 40), normal(*batch, 7, 9, seed=5)
    weights = [normal(9, 40, seed=seed + 1) for seed in range(count)]
    operands = [a, *weights, *([rest] if name == "linear_residual" else [])]
    knobs = {} if name == "swiglu" else {"activation": "silu"}
    ours = kernel(*(ktpu.tensor(x) for x in operands), **knobs).numpy()
    want = statement([product(a, w) for w in weights], ACTIVATIONS["silu"], rest)
    oracle.assert_same_bits(ours, half(want))


@pytest.mark.parametrize("knobs", [{"gm": 1, "gn": 1, "nk": 1}, {"gm": 3, "gn": 2, "nk": 2}])
@pytest.mark.parametrize("machine", ["tiny", "small", "duo"])
def test_bits_depend_on_neither_knobs_nor_machine(machine: str, knobs: dict[str, int]) -> None:
    a, g, u, rest = normal(50, 130), normal(37, 130), normal(37, 130, seed=1), normal(50, 37)
    with ktpu.device("golden", machine=machine, poison=True):
        x, gate, up, r = (ktpu.tensor(v) for v in (a, g, u, rest))
        ours = kernels.swiglu(x, gate, up, **knobs).numpy()
        oracle.assert_same_bits(ours, half(ACTIVATIONS["silu"](product(a, g)) * product(a, u)))
        ours = kernels.linear_residual(x, gate, r, activation="gelu", **knobs).numpy()
        oracle.assert_same_bits(ours, half(ACTIVATIONS["gelu"](product(a, g)) + wide(rest)))


def words(*shape: int) -> int:
    """Words of memory that an FP16 tensor takes."""
    return int(np.prod(shape[:-1])) * -(-shape[-1] // 16)


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
def test_gates_write_no_intermediate(name: str, hostile: ktpu.Session) -> None:
    m, k, n = 96, 128, 192
    operands = [ktpu.tensor(normal(*shape)) for shape in ((m, k), (n, k), (n, k))]
    kernel = getattr(kernels, name)
    plan = kernel.plan(*operands)
    assert len(plan.stages) == 1
    hostile.reset_stats()
    kernel(*operands)
    assert hostile.stats().memory_written == words(m, n)


def test_a_layer_writes_its_result_alone(hostile: ktpu.Session) -> None:
    m, k, n = 64, 96, 80
    shapes = ((m, k), (n, k), (n,), (m, n))
    operands = [ktpu.tensor(normal(*shape)) for shape in shapes]
    hostile.reset_stats()
    kernels.linear_bias_residual(*operands, activation="silu")
    assert hostile.stats().memory_written == words(m, n)


def test_an_activation_that_does_not_exist() -> None:
    x, w = ktpu.tensor(normal(4, 4)), ktpu.tensor(normal(4, 4))
    with pytest.raises(KernelError, match="no activation 'swish'") as caught:
        kernels.linear(x, w, activation="swish")
    assert "'silu'" in str(caught.value)
    assert caught.value.loc is not None


def test_a_residual_of_another_shape() -> None:
    x, w, r = (ktpu.tensor(normal(*shape)) for shape in ((4, 8), (5, 8), (4, 6)))
    with pytest.raises(CallError, match="N = 5 from `w` axis 0 but 6 from `residual`"):
        kernels.linear_residual(x, w, r)
