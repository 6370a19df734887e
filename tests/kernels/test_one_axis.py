"""Buffers of one axis beside tiles: an element a column, or a scalar a row, as their index says."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.analysis import check
from compiler.pipeline import compile_kernel
from compiler.tests.golden import assert_same, contract, flush, run, spec_of, to_fp16
from compiler.tests.refusals import refused
from kohakuaccel.lang import dims, grid, sweep, units
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel
from kohakutpu.numerics import reduction

pytestmark = pytest.mark.golden
M, K, N = dims("M, K, N")


@kernel
def columns_of_the_grid(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), y=L.Out(M, N)):
    with units(a.rows(8), b.rows(16)) as (i, j):
        s = L.tile()
        for c in sweep(a.chunks32(1)):
            s += a[i, c] @ b[j, c]
        y[i, j] <<= s + bias[j]


@kernel
def rows_beside_tiles(a=L.In(M, K), b=L.In(N, K), scale=L.In(M), y=L.Out(M, N)):
    with units(a.rows(8), b.rows(16)) as (i, j):
        s = L.tile()
        for c in sweep(a.chunks32(1)):
            s += a[i, c] @ b[j, c]
        y[i, j] <<= s * scale[i]


@kernel
def rows_on_the_diagonal(a=L.In(M, K), keep=L.In(M, 1), y=L.Out(M)):
    with units(a.rows(32)) as i:
        s = L.tile()
        for c in sweep(a.chunks32(1)):
            s += a[i, c] @ a[i, c]
        top = L.state(-math.inf)
        top <<= L.row_max(L.where(keep[i], s, top))
        y[i] <<= top


@pytest.mark.parametrize("machine", ["tiny", "duo"])
@pytest.mark.parametrize("n", [21, 40])
def test_what_an_index_of_the_grid_selects(n: int, machine: str) -> None:
    rng = np.random.default_rng(n)
    a, b, bias, scale = (
        rng.normal(size=shape).astype(np.float16) for shape in ((40, 50), (n, 50), (n,), (40,))
    )
    product = to_fp16(contract(a, b)).astype(np.float32)
    options = {"machine": preset(machine), "poison": True, "seed": 5}
    found = run(columns_of_the_grid, a, b, bias, **options)
    assert_same(found, to_fp16(product + bias.astype(np.float32)))
    found = run(rows_beside_tiles, a, b, scale, **options)
    assert_same(found, to_fp16(product * scale.astype(np.float32)[:, None]))


def test_two_axes_say_that_it_is_a_row() -> None:
    a = np.random.default_rng(3).normal(size=(70, 40)).astype(np.float16)
    keep = (np.arange(70) % 3 > 0).astype(np.float16)[:, None]
    product = to_fp16(contract(a, a)).astype(np.float32)
    expected = np.full(70, -np.inf, np.float32)
    for start in range(0, 70, 32):
        rows = slice(start, min(start + 32, 70))
        expected[rows] = np.where(keep[rows] != 0, product[rows, rows], -np.inf).max(1)
    found = run(rows_on_the_diagonal, a, keep, machine=preset("small"), poison=True)
    assert_same(found, to_fp16(expected))


@kernel
def scaled_tiles(
    a=L.In(..., M, K), b=L.In(N, K), row=L.In(..., M), one=L.In(M, 1, dtype="fp32"), bias=L.In(N),
    y=L.Out(..., M, N), *, gm=None, gn=None, nk=None,
):  # fmt: skip
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        y[i, j] <<= acc * row[i] + bias[j] - one[i]


@kernel
def reduced_tiles(
    a=L.In(M, K), b=L.In(N, K), row=L.In(M), most=L.Out(M), total=L.Out(M, 1, dtype="fp32"), *,
    gm=1, gn=16, nk=1,
):  # fmt: skip
    for i, j in grid(a.tiles(gm), b.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(a.chunks32(nk)):
            acc += a[i, k] @ b[j, k]
        most[i] <<= L.row_max(acc) * row[i]
        total[i] <<= L.row_sum(acc)


@pytest.mark.parametrize("machine", ["tiny", "duo"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 1), (None, None, None)], ids=str)
@pytest.mark.parametrize("m", [1, 7, 36])
def test_scalars_a_row_in_an_epilogue(m: int, sizes: tuple[Any, ...], machine: str) -> None:
    rng = np.random.default_rng(m)
    shapes = ((2, m, 50), (21, 50), (2, m), (m, 1), (21,))
    a, b, row, one, bias = (rng.normal(size=shape).astype(np.float16) for shape in shapes)
    one = one.astype(np.float32)
    knobs = dict(zip(("gm", "gn", "nk"), sizes, strict=True))
    options: Any = {"machine": preset(machine), "poison": True, "seed": m, "knobs": knobs}
    found = run(scaled_tiles, a, b, row, one, bias, **options)
    for n in range(2):
        tile = to_fp16(contract(a[n], b)).astype(np.float32)
        value = flush(tile * row[n].astype(np.float32)[:, None])
        value = flush(flush(value + bias.astype(np.float32)) - one)
        assert_same(found[n], to_fp16(value))


@pytest.mark.parametrize("machine", ["tiny", "small"])
@pytest.mark.parametrize("gm", [1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (23, 40), (40, 64)])
def test_rows_of_tiles_are_reduced_into_scalars(
    shape: tuple[int, int], gm: int, machine: str
) -> None:
    rng = np.random.default_rng(shape)
    a, b, row = (
        rng.normal(size=size).astype(np.float16)
        for size in ((shape[0], 70), (shape[1], 70), (shape[0],))
    )
    options: Any = {"machine": preset(machine), "poison": True, "seed": gm, "knobs": {"gm": gm}}
    most, total = run(reduced_tiles, a, b, row, **options)
    tile = to_fp16(contract(a, b)).astype(np.float32)
    assert_same(most, to_fp16(flush(tile.max(1) * row.astype(np.float32))))
    assert_same(total, reduction.row_sum(tile)[:, None])


def test_a_scalar_a_row_goes_through_memory_too() -> None:
    rng = np.random.default_rng(9)
    shapes = ((70, 40), (75, 40), (70,), (70, 1), (75,))
    args: list[Any] = [rng.normal(size=shape).astype(np.float16) for shape in shapes]
    args[3] = args[3].astype(np.float32)
    small = replace(preset("tiny"), vl1_words=512)
    knobs: dict[str, Any] = {"gm": 16, "gn": 16, "nk": 1}
    specs = [spec_of(x) for x in args]
    assert len(compile_kernel(scaled_tiles, specs, knobs, small).plan.relayouts) == 1
    found = run(scaled_tiles, *args, machine=small, knobs=knobs, poison=True)
    assert_same(found, run(scaled_tiles, *args, machine=preset("small"), poison=True))


def test_a_scalar_a_row_by_the_index_of_columns_is_refused() -> None:
    @kernel
    def swapped(a=L.In(M, K), b=L.In(N, K), s=L.In(M, 1), y=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 1)
            for k in sweep(a.chunks32(1)):
                acc += a[i, k] @ b[j, k]
            y[i, j] <<= acc * s[j]  # HERE

    @kernel
    def other(a=L.In(M, K), b=L.In(N, K), s=L.In(N, 1), y=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 1)
            for k in sweep(a.chunks32(1)):
                acc += a[i, k] @ b[j, k]
            y[i, j] <<= acc * s[i]  # HERE

    with refused("`s[j]` is indexed the wrong way round", "s[j]", "write s[i]", notes=1):
        check(swapped.trace())
    with refused("`s` has N rows, but tile `acc` is cut from M", "s[i]", "M rows", notes=1):
        check(other.trace())


def test_states_of_a_grid_over_tiles_leave_as_scalars() -> None:
    @kernel
    def most(a=L.In(M, K), b=L.In(N, K), y=L.Out(M), z=L.Out(M, 1)):
        for i in grid(a.tiles(4)):
            best = L.state(-math.inf)
            for j in sweep(b.rows(32)):
                acc = L.tile()
                for c in sweep(a.chunks32(1)):
                    acc += a[i, c] @ b[j, c]
                best <<= L.maximum(best, L.row_max(acc))
            y[i] <<= best
            z[i] <<= best

    rng = np.random.default_rng(8)
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((33, 40), (70, 40)))
    expected = to_fp16(contract(a, b)).max(1)
    for machine in ("tiny", "duo"):
        y, z = run(most, a, b, machine=preset(machine), poison=True, seed=1)
        assert_same(y, expected)
        assert_same(z, expected[:, None])
