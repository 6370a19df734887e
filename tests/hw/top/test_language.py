"""What tensors and kernels of one's own become, on the hardware: copies, fused kernels, states.

On `tiny` by default; on the others in the slow run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.tests import fused, right, test_fused_shapes
from hw.sim.model import Variant
from kohakuaccel.lang import dims, grid, sweep, units
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel
from tests.hw.top.test_kernels import normal, t
from tests.kernels import test_columns, test_moved_rows, test_one_axis

OTHERS = [("tiny", 7), ("small", 0), ("duo", 7)]
RUNS = [
    ("tiny", 0, Variant.FAST),
    *(pytest.param((*run, Variant.FAST), marks=pytest.mark.slow) for run in OTHERS),
]
pytestmark = [pytest.mark.cocotb, pytest.mark.parametrize("both", RUNS, indirect=True)]
M, K, N = dims("M, K, N")


def test_elements_change_places(both: Any) -> None:
    x, wide = t(6, 21), ktpu.tensor(normal(4, 9).astype(np.float32), dtype="fp32")
    x[:, ::2].numpy()
    x[::-1, 3:].numpy()
    x[:, 5].numpy()
    x.reshape(9, 14).numpy()
    x.reshape(2, 3, 21).transpose(0, 2, 1).numpy()
    ktpu.concat([x, x[:, ::-1]], axis=1).numpy()
    ktpu.concat([x, x], axis=0).sum(axis=0).numpy()
    wide[:, 1::3].numpy()
    wide.T.numpy()


def test_operands_of_different_shapes(both: Any) -> None:
    x, column, row, one = t(2, 5, 19), t(5, 1), t(19), t()
    (x + column).numpy()
    (x * row).numpy()
    (column - row).numpy()
    ktpu.where(x > column, x / one, 0.5).numpy()
    ktpu.maximum(x, one).numpy()
    (x <= 0.25).numpy()
    (x != x).numpy()


def test_operations_that_share_a_kernel(both: Any) -> None:
    x, w, bias = t(2, 9, 40), t(21, 40, seed=1), t(21, seed=2)
    (x @ w).silu().numpy()
    (x @ w + bias).relu().numpy()
    abs(ktpu.maximum(x @ w, -0.5)).numpy()
    (-(t(3, 7) + t(3, 7, seed=1))).relu().numpy()
    ktpu.matmul(x, t(2, 21, 40), precision="high").gelu().numpy()
    assert both.stats().fused > 0


@pytest.mark.parametrize("case", test_fused_shapes.CASES, ids=lambda case: case[0].name)
@pytest.mark.parametrize("shape", [(20, 70), (3, 33), (1, 1)], ids=str)
def test_grids_that_carry_something(
    both: Any, case: tuple[Kernel, Any, Callable[..., Any]], shape: tuple[int, int]
) -> None:
    made, _, shapes = case
    made(*(t(*each, seed=n) for n, each in enumerate(shapes(*shape))))


@pytest.mark.parametrize("case", right.CASES, ids=lambda case: case[0].name)
@pytest.mark.parametrize(
    "shape",
    [(20, 70), *(pytest.param(s, marks=pytest.mark.slow) for s in [(3, 33), (1, 1)])],
    ids=str,
)
def test_values_on_the_right(
    both: Any, case: tuple[Kernel, Any, Callable[..., Any]], shape: tuple[int, int]
) -> None:
    made, _, shapes = case
    args = [t(*each, seed=n) for n, each in enumerate(shapes(*shape))]
    if made is right.dequantised:
        args[2] = ktpu.tensor(normal(shape[1]).astype(np.float32), dtype="fp32")
    made(*args)
    if "precision" in made.knobs:
        made(*args, precision="high")


def test_other_attention(both: Any) -> None:
    q, k, v = t(20, 40), t(70, 40, seed=1), t(70, 20, seed=2)
    fused.biased(q, k, v, t(20, 70, seed=3), t(70, seed=4)).numpy()
    fused.causal(t(70, 40), t(70, 40, seed=1), v).numpy()
    kernels.attention(q, k, v, block_q=256, block_k=64).numpy()  # with smaller blocks on `tiny`
    ktpu.attention(t(1, 5, 24), t(1, 9, 24), t(1, 9, 530)).numpy()  # in two pieces there


def test_layers_with_channels(both: Any) -> None:
    ktpu.rope(t(2, 5, 12), *ktpu.rope_tables(5, 12), interleaved=True).numpy()
    ktpu.group_norm(t(2, 6, 4, 5), 3, t(6, seed=1), t(6, seed=2)).numpy()
    ktpu.group_norm(t(1, 5, 6), 2, t(6, seed=1), t(6, seed=2), channels_last=True).numpy()
    x, up, down = t(9, 40), t(70, 40, seed=1), t(20, 70, seed=2)
    ktpu.mlp(x, up, down, up_bias=t(70), down_bias=t(20), activation="silu").numpy()


def test_scalars_a_row_and_columns(both: Any) -> None:
    a, b, bias = t(2, 21, 40), t(13, 40, seed=1), t(13, seed=3)
    one = ktpu.tensor(normal(21, 1).astype(np.float32), dtype="fp32")
    test_one_axis.scaled_tiles(a, b, t(2, 21, seed=2), one, bias, gm=2, gn=2, nk=1)
    test_one_axis.reduced_tiles(t(23, 40), t(40, 40, seed=1), t(23, seed=2))
    x, w, s = t(9, 70), t(70, seed=1), t(9, seed=2)
    test_columns.inside(x, w, s)
    test_columns.beside(x, w, s)
    test_moved_rows.reduced(t(12, 21), t(6, 21), n=2)


@kernel
def printing(a=L.In(M, K), b=L.In(N, K), y=L.Out(M, N), z=L.Out(M)):
    for i, j in grid(a.tiles(2), b.tiles(2)):
        acc = L.tile(2, 2, 1)
        for k in sweep(a.chunks32(1)):
            acc += a[i, k] @ b[j, k]
        L.print(acc)
        L.print(L.exp2(acc), "power")
        y[i, j] <<= acc
    with units(a.rows(8)) as i:
        total = L.state(0.0)
        for j in sweep(b.rows(32)):
            s = L.tile()
            for k in sweep(a.chunks32(1)):
                s += a[i, k] @ b[j, k]
            total <<= total + L.row_sum(s)
            L.print(total)
        z[i] <<= total


def test_prints(both: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printing(t(9, 40), t(37, 40, seed=1))
    assert capsys.readouterr().out.count(" in printing, 9 x 37, ") == 3
