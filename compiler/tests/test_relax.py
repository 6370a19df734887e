"""Epilogues that fit no vector core go through memory, to the same bits, and the plan says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.pipeline import compile_kernel
from compiler.tests.fused import gaussian
from compiler.tests.golden import Launch, assert_same, contract, spec_of, to_fp16
from kohakuaccel.errors import CapacityError
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden

TINY = replace(preset("tiny"), vl1_words=512)
M, K, N = dims("M, K, N")


@kernel
def layer(
    x=L.In(..., M, K), w=L.In(N, K), bias=L.In(N), r=L.In(..., M, N), y=L.Out(..., M, N),
    s=L.Out(..., M, N), *, gm=16, gn=16, nk=1,
):  # fmt: skip
    for i, j in grid(x.tiles(gm), w.tiles(gn)):
        acc = L.tile(gm, gn, nk)
        for k in sweep(x.chunks32(nk)):
            acc += x[i, k] @ w[j, k]
        y[i, j] <<= L.relu(acc + bias[j]) + r[i, j]
        s[i, j] <<= acc


def test_an_epilogue_through_memory() -> None:
    x, w = gaussian(1, 2, 70, 40), gaussian(2, 75, 40)
    bias, r = gaussian(3, 75), gaussian(4, 2, 70, 75)
    args = x, w, bias, r
    compiled = compile_kernel(layer, [spec_of(a) for a in args], {}, TINY)
    (line,) = compiled.plan.relayouts
    assert line.startswith("`acc` (70 x 75, 10,500 bytes an element of the batch) goes through")
    assert "L1 words" in line
    assert "gm" in line
    launch = Launch(compiled, args, TINY, poison=True, seed=3)
    launch.run()
    y, s = launch.results()
    for n in range(2):
        tile = to_fp16(contract(x[n], w))
        assert_same(s[n], tile)
        wide = np.maximum(tile.astype(np.float32) + bias.astype(np.float32), 0) + r[n].astype("f4")
        assert_same(y[n], to_fp16(wide))


def test_a_strict_kernel_is_refused() -> None:
    specs = [spec_of(a) for a in (gaussian(1, 70, 40), gaussian(2, 75, 40), gaussian(3, 75),
                                  gaussian(4, 70, 75))]  # fmt: skip
    layer.relax = False
    try:
        with pytest.raises(CapacityError, match="L1 words"):
            compile_kernel(layer, specs, {}, TINY)
    finally:
        layer.relax = True


def test_a_tile_that_fits_stays_in_the_pair() -> None:
    specs = [spec_of(a) for a in (gaussian(1, 70, 40), gaussian(2, 75, 40), gaussian(3, 75),
                                  gaussian(4, 70, 75))]  # fmt: skip
    knobs: dict[str, Any] = {"gm": 4, "gn": 4}
    plan = compile_kernel(layer, specs, knobs, TINY).plan
    assert plan.relayouts == ()
    assert all(buffer.role != "temp" for buffer in plan.buffers)
