# pyright: basic
"""Contractions of every shape the language has, on the golden machine, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.pipeline import ArgSpec, compile_kernel
from compiler.tests.golden import (
    Array,
    assert_same,
    contract,
    quantise,
    residual,
    run,
    to_fp16,
)
from compiler.tests.golden import (
    sweep as add_products,
)
from kohakuaccel.lang import dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.config import PRESETS, preset
from kohakutpu.lang import Kernel, kernel

pytestmark = pytest.mark.golden

M, K, N, P = dims("M, K, N, P")
HALF_ZERO = np.float16(0)


@kernel
def adversary_seed(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
    # The kernel of the language's own page: tiles 4 columns wide start in the middle of words.
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= acc


@kernel
def three_results(
    a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), d=L.Out(M, N), e=L.Out(M, N, dtype="fp32"),
    *, gm=2, gn=3, nk=2
):  # fmt: skip
    with stage(a.tiles(gm), b.tiles(gn)) as (i, j):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= acc
        d[i, j] <<= L.relu(acc)
        e[i, j] <<= acc


@kernel
def two_tiles(x=L.In(M, K), g=L.In(N, K), u=L.In(N, K), y=L.Out(M, N), *, gm=2, gn=2, nk=1):
    for i, j in grid(x.tiles(gm), g.tiles(gn)):
        gate, up = L.tile(gm, gn, nk), L.tile(gm, gn, nk)
        for k in sweep(x.chunks32(nk)):
            gate += x[i, k] @ g[j, k]  # x[i, k] is filled once for both
            up += x[i, k] @ u[j, k]
        y[i, j] <<= L.relu(gate) * up


@kernel
def two_sums(
    x=L.In(M, K), w=L.In(N, K), y=L.In(M, P), v=L.In(N, P), c=L.Out(M, N),
    *, gm=2, gn=3, nk=2, precision="default"
):  # fmt: skip
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk, sweeps=2, precision=precision)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        for k in sweep(y.chunks32(nk)):
            acc += y[i, k] @ v[j, k]
        c[i, j] <<= acc


@kernel
def unrolled(
    a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=3, n=1, nk=1, precision="default"
):
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk, precision=precision)
        for k in range(n):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= acc


@kernel
def two_at_a_time(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=3, nk=1):
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk) // 2):
            acc += a[i, 2 * k] @ b[j, 2 * k]
            acc += a[i, 2 * k + 1] @ b[j, 2 * k + 1]
        c[i, j] <<= acc


@kernel
def backwards(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=3, nk=2):
    last = a.chunks32(nk) - 1
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, last - k] @ b[j, last - k]
        c[i, j] <<= acc


@kernel
def row_by_row(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=3, nk=2, fused=False):
    for i in grid(a.tiles(gm)):
        for j in sweep(b.tiles(gn)):
            acc = L.tile(gm, gn, nk)
            for k in sweep(a.chunks32(nk)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= L.relu(acc) if fused else acc


@kernel
def triangles(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=2, nk=2, fused=False):
    def one(i, j):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= L.relu(acc) if fused else acc

    for i in grid(a.tiles(gm)):
        for j in sweep(i + 1):
            one(i, j)
        for j in sweep(b.tiles(gn) - i - 1):
            one(i, i + 1 + j)


@kernel
def chain(x=L.In(M, K), w=L.In(N, K), v=L.In(P, N), c=L.Out(M, P), *, gm=2, gn=3, nk=2):
    t = L.temp(M, N)
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        t[i, j] <<= L.relu(acc)
    for i, j in grid(t.tiles(gm), v.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(t.chunks32(nk)):
            acc += t[i, k] @ v[j, k]
        c[i, j] <<= acc


@kernel
def power(x=L.In(M, K), w=L.In(K, K), c=L.Out(M, K), *, gm=2, gn=3, nk=2, n=3):
    t, u = L.temp(M, K), L.temp(M, K)

    def step(to, source):
        for i, j in grid(source.tiles(gm), w.tiles(gn)):
            acc = L.tile(gm, gn, nk)
            for k in sweep(source.chunks32(nk)):
                acc += source[i, k] @ w[j, k]
            to[i, j] <<= acc * 0.125

    step(t, x)
    for _ in sweep(n):
        step(u, t)
        step(t, u)
    step(c, t)


@kernel
def batched(
    a=L.In(..., M, K), b=L.In(..., N, K), r=L.In(M, N), bias=L.In(N), c=L.Out(..., M, N),
    *, gm=2, gn=2, nk=2
):  # fmt: skip
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= (acc + r[i, j]) * bias[j]


def gaussian(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def product_of(a: Array, b: Array, precision: str = "default") -> Array:
    return to_fp16(contract(a, b, precision))


def relu(x: Array) -> Array:
    return np.maximum(x, HALF_ZERO)


def check(kern: Kernel, args: list[Array], *expected: Array, **knobs: Any) -> None:
    for machine, seed in zip(PRESETS.values(), (5, None, None, 7), strict=True):
        found = run(kern, *args, machine=machine, knobs=knobs, poison=True, seed=seed)
        for actual, wanted in zip(
            found if isinstance(found, tuple) else (found,), expected, strict=True
        ):
            assert_same(actual, wanted)


SHAPES = [(33, 100, 45), (7, 32, 3), (64, 64, 64), (50, 33, 129)]
shapes = pytest.mark.parametrize(("m", "k", "n"), SHAPES)


@shapes
def test_one_tile(m: int, k: int, n: int) -> None:
    a, b = gaussian(1, m, k), gaussian(2, n, k)
    c = product_of(a, b)
    check(adversary_seed, [a, b], c)
    check(three_results, [a, b], c, relu(c), contract(a, b))
    check(row_by_row, [a, b], c)
    check(row_by_row, [a, b], relu(c), fused=True)


@shapes
def test_the_order_of_k_is_the_kernels(m: int, k: int, n: int) -> None:
    a, b = gaussian(3, m, k), gaussian(4, n, k)
    blocks = -(-k // 32)
    for precision in ("default", "high"):
        c = product_of(a, b, precision)
        check(unrolled, [a, b], c, n=blocks, precision=precision)
    if blocks % 2 == 0:
        check(two_at_a_time, [a, b], product_of(a, b))
    lhs, rhs = quantise(a), quantise(b)
    acc = np.zeros((m, n), np.float32)
    for chunk in range(-(-blocks // 2) - 1, -1, -1):
        part = slice(2 * chunk, 2 * chunk + 2)
        acc = add_products(acc, *(((e[:, part], s[:, part])) for e, s in (lhs, rhs)))
    check(backwards, [a, b], to_fp16(acc))


@shapes
def test_several_contractions_in_an_instance(m: int, k: int, n: int) -> None:
    x, g, u = gaussian(5, m, k), gaussian(6, n, k), gaussian(7, n, k)
    gate, up = product_of(x, g).astype(np.float32), product_of(x, u).astype(np.float32)
    check(two_tiles, [x, g, u], to_fp16(np.maximum(gate, 0) * up))
    y, v = gaussian(8, m, 77), gaussian(9, n, 77)
    acc = add_products(contract(x, g), quantise(y), quantise(v))
    check(two_sums, [x, g, y, v], to_fp16(acc))


def test_high_precision_sweeps_all_of_k_three_times() -> None:
    x, w, y, v = (
        gaussian(n, *shape) for n, shape in enumerate([(9, 70), (5, 70), (9, 40), (5, 40)])
    )
    lead = [quantise(z) for z in (x, w, y, v)]
    rest = [quantise(residual(z)) for z in (x, w, y, v)]
    acc = np.zeros((9, 5), np.float32)
    for left, right in ((lead, lead), (lead, rest), (rest, lead)):
        acc = add_products(acc, left[0], right[1])
        acc = add_products(acc, left[2], right[3])
    check(two_sums, [x, w, y, v], to_fp16(acc), precision="high")


def test_bounds_that_depend_on_an_outer_index() -> None:
    a, b = gaussian(10, 40, 48), gaussian(11, 40, 48)
    c = product_of(a, b)
    check(triangles, [a, b], c)
    check(triangles, [a, b], relu(c), fused=True)


def test_stages_one_after_the_other() -> None:
    x, w, v = gaussian(12, 33, 100), gaussian(13, 45, 100), gaussian(14, 21, 45)
    check(chain, [x, w, v], product_of(relu(product_of(x, w)), v))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_sweep_around_stages(n: int) -> None:
    x, w = gaussian(15, 33, 48), gaussian(16, 48, 48)

    def step(value: Array) -> Array:
        return (product_of(value, w).astype(np.float32) * np.float32(0.125)).astype(np.float16)

    expected = step(x)
    for _ in range(2 * n):
        expected = step(expected)
    check(power, [x, w], step(expected), n=n)


def test_a_batch_with_an_epilogue() -> None:
    a, b = gaussian(17, 5, 1, 9, 40), gaussian(18, 3, 13, 40)
    r, bias = gaussian(19, 9, 13), gaussian(20, 13)
    expected = np.zeros((5, 3, 9, 13), np.float16)
    for i, j in np.ndindex(5, 3):
        acc = product_of(a[i, 0], b[j]).astype(np.float32)
        expected[i, j] = to_fp16((acc + r) * bias)
    check(batched, [a, b, r, bias], expected)


def test_an_epilogue_never_touches_memory() -> None:
    specs = [ArgSpec((64, 64)), ArgSpec((64, 64)), ArgSpec((64, 64))]
    stage_plan = compile_kernel(two_tiles, specs, {"gn": 4}, preset("small")).plan.stages[0]
    assert stage_plan.total("written") == 64 * 64 // 16  # the result, once
    assert stage_plan.total("sent") == 2 * 64 * 64 // 16  # both tiles, to the vector core


@kernel
def heavy(
    a=L.In(M, K), b=L.In(N, K), r=L.In(M, N), s=L.In(M, N), t=L.In(M, N), u=L.In(M, N),
    c=L.Out(M, N), *, gm=None, gn=None, nk=None
):  # fmt: skip
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        x = L.relu(acc + r[i, j]) * s[i, j]
        c[i, j] <<= L.maximum(x * t[i, j], x - u[i, j])


@pytest.mark.parametrize("machine", PRESETS.values(), ids=list(PRESETS))
def test_tiles_shrink_until_their_epilogue_fits(machine: Any) -> None:
    specs = [ArgSpec((1024, 64)), ArgSpec((1024, 64)), *[ArgSpec((1024, 1024))] * 4]
    plan = compile_kernel(heavy, specs, {}, machine).plan
    for unit in plan.stages[0].units:
        assert all(p.slots == 2 for p in unit.share.placements if p.role in ("in", "out", "tile"))
    m, n = 150, 133
    a, b = gaussian(21, m, 40), gaussian(22, n, 40)
    r, s, t, u = (gaussian(seed, m, n).astype(np.float32) for seed in (23, 24, 25, 26))
    x = np.maximum(product_of(a, b).astype(np.float32) + r, 0) * s
    expected = to_fp16(np.maximum(x * t, x - u))
    args = [a, b, *(z.astype(np.float16) for z in (r, s, t, u))]
    assert_same(run(heavy, *args, machine=machine, poison=True, seed=3), expected)
