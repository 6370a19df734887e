"""The kernels of the language's own description, word for word, leave the trace they should."""

import numpy as np
import pytest

from kohakuaccel.ir.nodes import Grid, Repeat, Store, View
from kohakuaccel.ir.verifier import verify
from kohakuaccel.lang import dims, grid, loop, stage, sweep, units
from kohakutpu import lang as L
from kohakutpu.lang import kernel
from kohakutpu.lang.ir import Accumulate, TileDecl

M, K, N = dims("M, K, N")


@kernel
def matmul(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        c[i, j] <<= acc


def test_matmul_pretty() -> None:
    trace = matmul.trace()
    verify(trace)
    assert trace.pretty() == (
        "kernel matmul\n"
        "  in    a  [M, K] fp16\n"
        "  in    b  [N, K] fp16\n"
        "  out   c  [M, N] fp16\n"
        "  grid i < ceildiv(M, 8), j < ceildiv(N, 4)    # a.tiles(2), b.tiles(1)\n"
        "    tile acc: gm=2, gn=1, nk=2\n"
        "    sweep k < ceildiv(K, 64)    # a.chunks32(2)\n"
        "      acc += a[i, k] @ b[j, k]\n"
        "    c[i, j] <<= acc"
    )


def test_matmul_nodes() -> None:
    trace = matmul.trace(gm=4)
    (nest,) = trace.body
    assert isinstance(nest, Grid)
    assert not nest.barrier
    declared, loop_, store = nest.body
    assert isinstance(declared, TileDecl)
    assert isinstance(loop_, Repeat)
    assert isinstance(store, Store)
    (add,) = loop_.body
    assert isinstance(add, Accumulate)
    assert isinstance(add.lhs, View)
    assert isinstance(add.rhs, View)
    a, b, c = trace.buffers
    assert (add.lhs.buffer, add.rhs.buffer, store.view.buffer) == (a, b, c)
    assert (add.lhs.kind, add.rhs.kind, store.view.kind) == ("operand", "operand", "tile")
    i, j = (index.symbol for index in nest.indices)
    assert add.lhs.index == (i, loop_.index.symbol)
    assert add.rhs.index == (j, loop_.index.symbol)
    assert store.view.index == (i, j)
    assert [t.kind for t in add.lhs.tilings if t] == ["tiles", "chunks32"]
    tile = declared.tile
    assert add.tile is tile is store.value.tile
    assert [e.evaluate({}) for e in (tile.gm, tile.gn, tile.nk)] == [4, 1, 2]
    assert (tile.rows, tile.cols, tile.row, tile.col) == (M, N, i, j)
    assert trace.dims == {"M": M, "K": K, "N": N}
    assert trace.knobs == {}


def test_stage_is_grid_with_a_barrier_and_has_two_names() -> None:
    @kernel
    def fused(x=L.In(M, K), w=L.In(N, K), y=L.Out(M, N), *, gm=2, gn=1, nk=2):
        with stage(x.tiles(gm), w.tiles(gn)) as (i, j):
            acc = L.tile(gm, gn, nk)
            for k in sweep(x.chunks32(nk)):
                acc += x[i, k] @ w[j, k]
            y[i, j] <<= acc * L.sigmoid(acc)

    assert units is stage
    assert loop is sweep
    lines = fused.trace().pretty().splitlines()
    assert lines[4].startswith("  stage i < ceildiv(M, 8), j < ceildiv(N, 4)")
    assert lines[-1] == "    y[i, j] <<= acc * recip(exp2(acc * -1.4427) + 1)"


def test_the_two_stages_of_a_running_maximum() -> None:
    @kernel
    def step(x=L.In(...), block=L.In(...), out=L.Out(...), *, part=64):
        top, corr = L.temp(...), L.temp(...)
        with stage(x.parts(part)) as e:
            top[e] <<= x[e]
        with stage(x.parts(part)) as e:
            corr[e] <<= top[e]  # keep the old value
        with stage(x.parts(part)) as e:
            top[e] <<= L.maximum(top[e], block[e])  # before overwriting it
        with stage(x.parts(part)) as e:
            out[e] <<= top[e] - corr[e]

    trace = step.trace()
    assert [type(s) for s in trace.body] == [Grid] * 4
    assert [b.role for b in trace.buffers] == ["in", "in", "out", "temp", "temp"]
    assert "    top[e] <<= max(top[e], block[e])" in trace.pretty().splitlines()


def test_control_flow_specialises_and_tables_ship() -> None:
    @kernel
    def masked(x=L.In(M, 8), y=L.Out(M, 8), *, causal=False):
        tri = L.table(np.tril(np.ones((8, 8), np.float16))) if causal else None
        for r in grid(x.rows(8)):
            y[r] <<= x[r] if tri is None else x[r] * tri[0]

    assert "tri" not in masked.trace().pretty()
    assert "y[r] <<= x[r] * tri[0]" in masked.trace(causal=True).pretty()


def test_loop_bounds_may_depend_on_the_loop_around() -> None:
    @kernel
    def triangle(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(1)) as r:
            h[r] <<= x[r]
        for i in sweep(3):
            for _j in sweep(i):
                with stage(x.rows(1)) as r:
                    h[r] <<= h[r] * 2
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    assert "    sweep _j < i" in triangle.trace().pretty().splitlines()


@pytest.mark.parametrize("name", ["grid", "stage", "units", "sweep", "loop", "dims"])
def test_the_one_import_mistake(name: str) -> None:
    with pytest.raises(AttributeError, match=f"from kohakuaccel.lang import {name}"):
        getattr(L, name)


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'regoin'"):
        L.regoin  # noqa: B018
