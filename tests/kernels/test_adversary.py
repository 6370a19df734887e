"""Fifty ways to interleave the engines give one result: no synchronisation is missing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu.kernels.broadcast import kernel_for

pytestmark = pytest.mark.golden

# Operand shapes: small, with several instances and ragged edges, and work for all pairs of `duo`.
CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "matmul": ((37, 70), (21, 70)),
    "batched_matmul": ((2, 9, 40), (2, 7, 40)),
    "linear": ((2, 17, 40), (21, 40)),
    "linear_silu": ((37, 40), (21, 40)),
    "linear_gelu": ((37, 40), (21, 40)),
    "linear_relu": ((37, 40), (21, 40)),
    "linear_bias": ((37, 40), (21, 40), (21,)),
    "linear_residual": ((37, 40), (21, 40), (37, 21)),
    "linear_bias_residual": ((2, 17, 40), (21, 40), (21,), (2, 17, 21)),
    "swiglu": ((37, 40), (21, 40), (21, 40)),
    "geglu": ((2, 17, 40), (21, 40), (21, 40)),
    "row_sum": ((9, 33),),
    "row_max": ((9, 33),),
    "row_min": ((9, 33),),
    "row_mean": ((9, 33),),
    "softmax": ((9, 33),),
    "rmsnorm": ((9, 33), (33,)),
    "layernorm": ((9, 33), (33,), (33,)),
    "mlp": ((17, 40), (70, 40), (21, 70)),
    "gated_mlp": ((17, 40), (70, 40), (70, 40), (21, 70)),
    "attention": ((2, 9, 40), (2, 70, 40), (2, 70, 21)),
    "group_norm": ((2, 3, 5, 33), (3, 5), (3, 5)),
    "rope": ((2, 9, 33), (2, 9, 33), (9, 33), (9, 33)),
    "where": ((9, 33),) * 3,
    **{name: ((9, 33),) * 2 for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    **{
        name: ((9, 33),)
        for name in ("neg", "abs", "exp2", "log2", "recip", "rsqrt", "silu", "gelu", "relu")
    },
}
MACHINES = {name: "duo" if i % 2 else "small" for i, name in enumerate(CASES)}


def arrays(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def bits(call: Callable[..., Any], values: list[np.ndarray], **options: object) -> bytes:
    with ktpu.device("golden", **options) as session:  # pyright: ignore[reportArgumentType]
        try:
            found = call(*(ktpu.tensor(x) for x in values))
            results = found if isinstance(found, tuple) else (found,)
            return b"".join(result.numpy().tobytes() for result in results)
        finally:
            if "seed" in options:
                session.close()


def check(call: Callable[..., ktpu.Tensor], values: list[np.ndarray], machine: str) -> None:
    want = bits(call, values, machine=machine, poison=True)
    for seed in range(50):
        assert bits(call, values, machine=machine, seed=seed, poison=True) == want, f"seed {seed}"


def test_the_whole_library_is_here() -> None:
    assert set(CASES) == set(kernels.__all__)


@pytest.mark.parametrize("name", CASES)
def test_library(name: str) -> None:
    kernel = getattr(kernels, name)
    cut = {"gm": 2, "gn": 2, "nk": 1, "block": 8, "hidden": 32, "columns": 8, "block_q": 4}
    cut |= {"block_k": 32, "n": 4 if kernel.trace().dims else 32}
    knobs = {knob: size for knob, size in cut.items() if knob in kernel.knobs}
    check(lambda *x: kernel(*x, **knobs), arrays(CASES[name]), MACHINES[name])


@pytest.mark.parametrize(
    ("forms", "shapes"),
    [
        (("full", "channel"), ((2, 9, 33), (33,))),
        (("column", "channel"), ((9, 1), (33,))),
        (("part", "scalar"), ((9, 33), ())),
    ],
)
def test_broadcasts(forms: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> None:
    kernel = kernel_for("sub", forms)
    check(lambda *x: kernel(*x, n=32 if "part" in forms else 4), arrays(shapes), "duo")


def test_high_precision() -> None:
    check(
        lambda x, w: kernels.matmul(x, w, precision="high", gm=2, gn=2, nk=1),
        arrays(((17, 70), (9, 70))),
        "small",
    )
