"""The examples of the user's own document, letter for letter, and what they must yield."""

import numpy as np
import pytest

from kohakuaccel.lang import dims, grid, stage, sweep, units
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.lang import kernel
from tests.kernels import oracle

pytestmark = pytest.mark.golden

rng = np.random.default_rng(0)
X = rng.standard_normal((37, 100)).astype(np.float16)
W = rng.standard_normal((21, 100)).astype(np.float16)

M, K, N = dims("M, K, N")


@kernel
def matmul(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= acc


def test_tensor_level(capsys: pytest.CaptureFixture[str]) -> None:
    x, w = ktpu.tensor(X), ktpu.tensor(W)
    y = (x @ w).silu()  # @ contracts the LAST axis of both
    print(y.numpy())  # the only line that crosses the link

    product = oracle.matmul(X, W)
    oracle.assert_close(y.numpy(), oracle.silu(product), 0.52)
    assert capsys.readouterr().out.startswith("[[")


def test_every_operation_of_the_table() -> None:
    a, b = ktpu.tensor(X), ktpu.tensor(W)
    w, bias = ktpu.tensor(W[0]), ktpu.tensor(W[1])
    assert (a @ b).shape == (37, 21)
    assert (a + a).shape == X.shape
    for result in (a.silu(), a.gelu(), a.relu(), a.softmax(), a.rmsnorm(w), a.layernorm(w, bias)):
        assert result.shape == X.shape
    assert a.pin().unpin() is a
    ktpu.sync()
    ktpu.empty_cache()
    assert ktpu.stats().dispatches >= 8


def test_a_call_not_a_launch() -> None:
    x, w = ktpu.tensor(X), ktpu.tensor(W)
    y = matmul(x, w)  # a call, not a launch
    oracle.assert_same_bits(y.numpy(), oracle.matmul(X, W))


def test_inspecting() -> None:
    x, w = ktpu.tensor(X), ktpu.tensor(W)
    structure = str(matmul.trace().pretty())
    assert "acc" in structure
    plan = str(matmul.plan(x, w).pretty())
    assert "matmul" in plan
    assert "GEMM" in plan
    assert "dispatches" in str(ktpu.stats())


def test_stages_and_the_rule_about_them() -> None:
    @kernel
    def running_maximum(
        top=L.In(...), block=L.In(...), corr=L.Out(...), best=L.Out(...), *, part=64
    ):
        with stage(top.parts(part)) as e:
            corr[e] <<= top[e]  # keep the old value
        with stage(top.parts(part)) as e:
            best[e] <<= L.maximum(top[e], block[e])

    corr, best = running_maximum(ktpu.tensor(X), ktpu.tensor(X[::-1]))
    assert np.array_equal(corr.numpy(), X)
    assert np.array_equal(best.numpy(), np.maximum(X, X[::-1]))


def test_the_epilogue_on_the_accumulator() -> None:
    sigmoid = L.sigmoid

    @kernel
    def layer(x=L.In(M, K), w=L.In(N, K), y=L.Out(M, N), *, gm=2, gn=2, nk=1):
        with stage(x.tiles(gm), w.tiles(gn)) as (i, j):
            acc = L.tile(gm, gn, nk)
            for k in sweep(x.chunks32(nk)):
                acc += x[i, k] @ w[j, k]
            y[i, j] <<= acc * sigmoid(acc)  # elementwise ON the accumulator

    ours = layer(ktpu.tensor(X), ktpu.tensor(W))
    oracle.assert_same_bits(ours.numpy(), (ktpu.tensor(X) @ ktpu.tensor(W)).silu().numpy())


def test_any_rank_one_kernel() -> None:
    @kernel
    def silu(x=L.In(...), y=L.Out(...), *, part=256):
        with units(x.parts(part)) as e:
            y[e] <<= x[e] * L.sigmoid(x[e])

    for shape in [(40,), (6, 7), (2, 3, 5, 8)]:
        a = rng.standard_normal(shape).astype(np.float16)
        oracle.assert_close(silu(ktpu.tensor(a)).numpy(), oracle.silu(a), 0.52)


def test_control_flow_specialises() -> None:
    @kernel
    def scaled(x=L.In(...), y=L.Out(...), *, double=False, part=64):
        for e in grid(x.parts(part)):
            value = x[e]
            if double:
                value = value * 2
            y[e] <<= value + 1

    x = ktpu.tensor(X)
    assert np.array_equal(scaled(x).numpy(), X + np.float16(1))
    twice = scaled(x, double=True).numpy()
    assert np.array_equal(twice, (X.astype(np.float32) * 2 + 1).astype(np.float16))
    assert "* 2" not in scaled.trace().pretty()
    assert "* 2" in scaled.trace(double=True).pretty()


def test_a_table_ships_with_the_kernel() -> None:
    mask = np.tril(np.ones((8, 8), np.float16))

    @kernel
    def masked(x=L.In(M, 8), y=L.Out(M, 8), *, n=8):
        tri = L.table(mask)
        for r in grid(x.rows(n)):
            y[r] <<= x[r] * tri[0]

    a = rng.standard_normal((24, 8)).astype(np.float16)
    assert np.array_equal(masked(ktpu.tensor(a)).numpy(), a * np.tile(mask, (3, 1)))
