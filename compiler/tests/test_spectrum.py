"""Saying less costs nothing: one kernel on every rung is the same instructions, word for word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.pipeline import ArgSpec, Compiled, compile_kernel
from compiler.tests.fused import E, F, attention, mlp
from compiler.tests.refusals import refused
from kohakuaccel.lang import dims, grid, stage, sweep, units
from kohakutpu import kernels
from kohakutpu import lang as L
from kohakutpu.config import PRESETS
from kohakutpu.lang import Kernel, kernel

pytestmark = pytest.mark.unit

M, K, N = dims("M, K, N")
D = dims("D")


@kernel
def matmul_placed(
    a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2, precision="default"
):
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        ra, rb = L.region(gm, nk), L.region(gn, nk)
        acc = L.tile(gm, gn, precision=precision)
        for k in sweep(a.chunks32(nk)):
            ra <<= a[i, k]
            rb <<= b[j, k]
            acc += ra @ rb
        c[i, j] <<= acc


@kernel
def matmul_scheduled(
    a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2, precision="default"
):
    with stage(a.tiles(gm), b.tiles(gn)) as (i, j):
        rb = L.region(gn, nk)
        acc = L.tile(precision=precision)
        for k in sweep(a.chunks32(nk)):
            rb <<= b[j, k]
            acc += a[i, k] @ rb
        c[i, j] <<= acc


@kernel
def batched_placed(a=L.In(..., M, K), b=L.In(..., N, K), c=L.Out(..., M, N), *, gm=2, gn=1, nk=2):
    with units(a.tiles(gm), b.tiles(gn)) as (i, j):
        ra, rb = L.region(gm, nk), L.region(gn, nk)
        acc = L.tile()
        for k in sweep(a.chunks32(nk)):
            rb <<= b[j, k]
            ra <<= a[i, k]
            acc += ra @ rb
        c[i, j] <<= acc


@kernel
def silu_placed(x=L.In(M, K), w=L.In(N, K), y=L.Out(M, N), *, gm=2, gn=1, nk=2):
    with stage(x.tiles(gm), w.tiles(gn)) as (i, j):
        rx = L.region(gm, nk)
        acc = L.tile(gm, gn)
        for k in sweep(x.chunks32(nk)):
            rx <<= x[i, k]
            acc += rx @ w[j, k]
        y[i, j] <<= L.silu(acc)


@kernel
def swiglu_placed(
    x=L.In(..., M, K), gate=L.In(N, K), up=L.In(N, K), y=L.Out(..., M, N), *, gm=2, gn=1, nk=2
):
    for i, j in grid(x.tiles(gm), gate.tiles(gn)):
        rx, rw = L.region(gm, nk), L.region(gn, nk)
        g, u = L.tile(), L.tile()
        for k in sweep(x.chunks32(nk)):
            rx <<= x[i, k]
            rw <<= gate[j, k]
            g += rx @ rw
            rw <<= up[j, k]  # one window, refilled from another tensor
            u += rx @ rw
        y[i, j] <<= L.silu(g) * u


@kernel
def mlp_placed(
    x=L.In(M, K), up=L.In(F, K), down=L.In(N, F), y=L.Out(M, N), *, block=16, hidden=32, nk=1
):
    for i in grid(x.rows(block)):
        rx, rh = L.region(block // 4, nk), L.region(block // 4, hidden // 32)
        acc = L.tile()
        for f in sweep(up.rows(hidden)):
            h = L.tile()
            for c in sweep(x.chunks32(nk)):
                rx <<= x[i, c]
                h += rx @ up[f, c]
            rh <<= L.relu(h)
            acc += rh @ down[0, f]
        y[i] <<= acc


@kernel
def attention_placed(
    q=L.In(..., M, D), k=L.In(..., N, D), v=L.In(..., N, E), o=L.Out(..., M, E),
    *, block=16, keys=32, nk=1,
):  # fmt: skip
    for i in grid(q.rows(block)):
        rq, rk, rp = L.region(block // 4, nk), L.region(keys // 4, nk), L.region(block // 4, 1)
        top, total, out = L.state(float("-inf")), L.state(0.0), L.state(0.0, E)
        for j in sweep(k.rows(keys)):
            s = L.tile(block // 4, keys // 4)
            for c in sweep(q.chunks32(nk)):
                rq <<= q[i, c]
                rk <<= k[j, c]
                s += rq @ rk
            m = L.maximum(top, L.row_max(s * 0.25))
            p, corr = L.exp2(s * 0.25 - m), L.exp2(top - m)
            rp <<= p
            pv = L.tile()
            pv += rp @ v[j]
            total <<= total * corr + L.row_sum(p)
            out <<= out * corr + pv
            top <<= m
        o[i] <<= out / total


SIZES = {"gm": 2, "gn": 1, "nk": 2}
SPECTRUM = [
    ([kernels.matmul, matmul_placed, matmul_scheduled], [(37, 100), (41, 100)], SIZES),
    ([kernels.matmul, matmul_placed, matmul_scheduled], [(64, 640), (96, 640)],
     {"gm": 4, "gn": 8, "nk": 4, "precision": "high"}),
    ([kernels.batched_matmul, batched_placed], [(3, 20, 70), (9, 70)], SIZES),
    ([kernels.linear_silu, silu_placed], [(37, 100), (41, 100)], SIZES),
    ([kernels.swiglu, swiglu_placed], [(37, 100), (41, 100), (41, 100)], SIZES),
    ([mlp, mlp_placed], [(37, 40), (70, 40), (24, 70)], {}),
    ([attention, attention_placed], [(2, 37, 40), (2, 70, 40), (2, 70, 24)], {}),
]  # fmt: skip


def words_of(compiled: Compiled) -> list[tuple[int, bytes]]:
    return [(unit.node, bytes(unit.words)) for unit in compiled.image.units]


@pytest.mark.parametrize(("rungs", "shapes", "knobs"), SPECTRUM)
@pytest.mark.parametrize("machine", [PRESETS["small"], PRESETS["duo"]], ids=["small", "duo"])
def test_every_rung_is_the_same_instructions(
    rungs: list[Kernel], shapes: list[Any], knobs: dict[str, Any], machine: Any
) -> None:
    specs = [ArgSpec(shape) for shape in shapes]
    compiled = [compile_kernel(rung, specs, knobs, machine) for rung in rungs]
    first = words_of(compiled[0])
    assert first
    assert all(words_of(other) == first for other in compiled[1:])


def test_regions_that_do_not_fit() -> None:
    def kernel_of(body: Any) -> Kernel:
        @kernel
        def wrong(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
            for i, j in grid(a.tiles(2), b.tiles(1)):
                acc = L.tile(2, 1, 2)
                body(a, b, i, j, acc)
                c[i, j] <<= acc

        return wrong

    def empty(a: Any, b: Any, i: Any, j: Any, acc: Any) -> None:
        ra = L.region(2, 2)
        for k in sweep(a.chunks32(2)):
            acc += ra @ b[j, k]  # HERE

    def large(a: Any, b: Any, i: Any, j: Any, acc: Any) -> None:
        ra = L.region(4, 2)
        for k in sweep(a.chunks32(2)):
            ra <<= a[i, k]
            acc += ra @ b[j, k]  # HERE

    def number(a: Any, b: Any, i: Any, j: Any, acc: Any) -> None:
        ra = L.region(2, 2)
        ra <<= 3  # HERE

    def over(a: Any, b: Any, i: Any, j: Any, acc: Any) -> None:
        ra = L.region(2, 2)
        for k in sweep(a.chunks32(2)):
            ra <<= a[i, k]
        acc += ra @ b[j, 0]  # HERE

    with refused("nothing has been filled into it", "ra @ b[j, k]", "ra <<= a[i, k]", notes=1):
        kernel_of(empty).trace()
    with refused("holds 4 groups of 4 rows, but the tile has gm = 2", "ra @ b[j, k]", "one number",
                 notes=1):  # fmt: skip
        kernel_of(large).trace()
    with refused("is filled with a window, not with a int", "ra <<= 3", "a[i, k]", notes=1):
        kernel_of(number).trace()
    with refused("uses index `k` outside its grid or loop", "ra @ b[j, 0]", "move it", notes=1):
        kernel_of(over).trace()


def test_a_region_belongs_to_its_grid() -> None:
    @kernel
    def crossing(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            ra = L.region(2, 2)
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc
        for i, _j in grid(a.tiles(2), b.tiles(1)):
            ra <<= a[i, 0]  # HERE  # pyright: ignore

    with refused("is used outside the grid that made it", "ra <<= a[i, 0]", "every grid", notes=1):
        crossing.trace()


def test_the_rungs_compute_something() -> None:
    from compiler.tests.golden import assert_same, contract, run, to_fp16

    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((n, 70)).astype(np.float16) for n in (21, 10))
    found = run(matmul_placed, a, b, machine=PRESETS["small"], poison=True, seed=3)
    assert_same(found, to_fp16(contract(a, b)))
