"""Buffers of one axis beside tiles: an element a column, or a scalar a row, as their index says."""

import math

import numpy as np
import pytest

from compiler.tests.golden import assert_same, contract, run, to_fp16
from kohakuaccel.lang import dims, sweep, units
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel

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
