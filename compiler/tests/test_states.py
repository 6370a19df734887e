"""States that depend on each other: each sees what the others held before."""

import numpy as np
import pytest

from compiler.tests.golden import assert_same, flush, run, to_fp16
from kohakuaccel.lang import dims, sweep, units
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel
from kohakutpu.numerics import reduction

pytestmark = pytest.mark.golden

M, K = dims("M, K")


@kernel
def crossed(x=L.In(M, K), y=L.Out(M, K), *, times=3, n=16):
    with units(x.rows(n)) as i:
        s, c = L.state(1.0, K), L.state(0.0)
        for _ in sweep(times):
            v = s * 0.5 - c + x[i]
            c <<= c + L.row_max(v)
            s <<= v
        y[i] <<= s - c


@pytest.mark.parametrize("times", [0, 1, 4])
@pytest.mark.parametrize("shape", [(1, 1), (21, 40), (16, 300), (300, 300)])
@pytest.mark.parametrize("rows", [16, None])
def test_a_value_that_is_reduced_and_kept(
    shape: tuple[int, int], times: int, rows: int | None
) -> None:
    x = np.random.default_rng(shape).normal(size=shape).astype(np.float16)
    s, c = np.ones(shape, np.float32), np.zeros((shape[0], 1), np.float32)
    for _ in range(times):
        v = flush(flush(flush(s * np.float32(0.5)) - c) + x.astype(np.float32))
        c, s = flush(c + reduction.row_max(v)[:, None]), v
    for seed in range(3):
        knobs = {"times": times, "n": rows}
        found = run(crossed, x, machine=preset("small"), knobs=knobs, poison=True, seed=seed)
        assert_same(found, to_fp16(flush(s - c)))


@kernel
def counted(x=L.In(M, K), y=L.Out(M, K)):
    with units(x.rows(4)) as i:
        passes = L.state(0.0)
        for _ in sweep(i - 1):
            passes <<= passes + 1
        y[i] <<= x[i] * 0 + passes


@kernel
def swept(x=L.In(M, K), y=L.Out(M)):
    with units(x.rows(32)) as i:
        passes = L.state(0.0)
        for j in sweep(i - 1):
            s = L.tile()
            for c in sweep(x.chunks32(1)):
                s += x[i, c] @ x[j, c]
            passes <<= passes + L.row_max(s)
        y[i] <<= passes


def test_a_loop_whose_count_is_negative_has_no_pass() -> None:
    for rows in (3, 8, 18):
        found = run(counted, np.ones((rows, 20), np.float16), machine=preset("small"), poison=True)
        expected = np.maximum(np.arange(rows) // 4 - 1, 0)[:, None].repeat(20, 1)
        assert_same(found, expected.astype(np.float16))
        x = np.ones((rows * 8, 20), np.float16)
        found = run(swept, x, machine=preset("tiny"), poison=True)
        assert_same(found, 20 * np.maximum(np.arange(rows * 8) // 32 - 1, 0).astype(np.float16))
