"""Rows cut into columns, by a tiling inside a tiling or beside it: views, and nothing else."""

from typing import Any

import numpy as np
import pytest

from compiler.tests.golden import assert_same, flush, run, to_fp16
from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, grid, sweep, units
from kohakutpu import api as ktpu
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden
M, N = dims("M, N")


@kernel
def inside(x=L.In(..., M, N), w=L.In(N), s=L.In(M), y=L.Out(..., M, N), *, n=8, chunk=1):
    with units(x.rows(n)) as r:
        with units(x.chunks32(chunk)) as c:
            y[r, c] <<= x[r, c] * w[c] + s[r]


@kernel
def beside(x=L.In(..., M, N), w=L.In(N), s=L.In(M), y=L.Out(..., M, N), *, n=8, chunk=1):
    for r, c in grid(x.rows(n), x.chunks32(chunk)):
        y[r, c] <<= x[r, c] * w[c] + s[r]


@kernel
def looped(x=L.In(..., M, N), w=L.In(N), s=L.In(M), y=L.Out(..., M, N), *, n=8, chunk=1):
    for r in grid(x.rows(n)):
        for c in sweep(x.chunks32(chunk)):
            y[r, c] <<= x[r, c] * w[c] + s[r]


@pytest.mark.parametrize("made", [inside, beside, looped], ids=lambda made: made.name)
@pytest.mark.parametrize("machine", ["tiny", "duo"])
@pytest.mark.parametrize("shape", [(1, 1), (20, 70), (2, 9, 32), (7, 33)], ids=str)
@pytest.mark.parametrize("sizes", [(8, 1), (4, 2)], ids=str)
def test_elementwise(
    made: Any, machine: str, shape: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(shape)
    x, w, s = (rng.normal(size=n).astype(np.float16) for n in (shape, shape[-1:], shape[-2:-1]))
    wide = flush(x.astype(np.float32) * w.astype(np.float32))
    expected = to_fp16(flush(wide + s.astype(np.float32)[:, None]))
    knobs = dict(zip(("n", "chunk"), sizes, strict=True))
    options: Any = {"machine": preset(machine), "knobs": knobs, "poison": True, "seed": 2}
    assert_same(run(made, x, w, s, **options), expected)


def test_part_of_a_row_is_no_row() -> None:
    @kernel
    def partial(x=L.In(M, N), y=L.Out(M, N)):
        for r, c in grid(x.rows(8), x.chunks32(1)):
            y[r, c] <<= x[r, c] / L.row_sum(x[r, c])  # HERE

    with pytest.raises(KernelError, match="row_sum needs whole rows, but the value holds 32 of 70"):
        partial.plan(ktpu.zeros((8, 70)))
    assert partial.plan(ktpu.zeros((8, 32))).stages
