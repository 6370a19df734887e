"""Indices that are moved and scaled: every second row, and nothing else, is read or written."""

import numpy as np
import pytest

from compiler.tests.golden import assert_same, run
from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden
M, N = dims("M, N")


@kernel
def reduced(x=L.In(2 * M, N), like=L.In(M, N), y=L.Out(M, 1), z=L.Out(2 * M, 1), *, n=1):
    for r in grid(like.rows(n)):
        least, most = L.row_min(x[2 * r]), L.row_max(x[2 * r + 1])
        y[r] <<= most
        z[2 * r] <<= least
        z[2 * r + 1] <<= most


@kernel
def swapped(x=L.In(2 * M, N), like=L.In(M, N), y=L.Out(2 * M, N), *, n=1):
    for r in grid(like.rows(n)):
        y[2 * r] <<= x[2 * r + 1]
        y[2 * r + 1] <<= x[2 * r]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("machine", ["tiny", "small"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_statements_whose_every_index_is_moved(rows: int, machine: str, n: int) -> None:
    rows *= n
    x = np.random.default_rng(rows).normal(size=(2 * rows, 21)).astype(np.float16)
    like = np.zeros((rows, 21), np.float16)
    blocks = x.reshape(rows // n, 2, n, 21)
    least, most = blocks[:, 0].min(-1), blocks[:, 1].max(-1)
    options = {"machine": preset(machine), "knobs": {"n": n}, "poison": True, "seed": 1}
    y, z = run(reduced, x, like, **options)
    assert_same(y, most.reshape(rows, 1))
    assert_same(z, np.stack([least, most], 1).reshape(2 * rows, 1))
    assert_same(run(swapped, x, like, **options), blocks[:, ::-1].reshape(2 * rows, 21))
