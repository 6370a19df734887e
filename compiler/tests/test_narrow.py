"""Fused grids that ask for too much get smaller blocks of rows: the same bits, as plans say."""

import math
from typing import Any

import numpy as np
import pytest

from compiler.pipeline import compile_kernel
from compiler.tests.fused import gaussian
from compiler.tests.golden import Launch, assert_same, spec_of
from kohakuaccel.errors import CapacityError
from kohakuaccel.lang import dims, sweep, units
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import Kernel, kernel

pytestmark = pytest.mark.golden

TINY = preset("tiny")
Q, T, D, E = dims("Q, T, D, E")


@kernel
def attention(
    q=L.In(..., Q, D), k=L.In(..., T, D), v=L.In(..., T, E), bias=L.In(Q, T), keep=L.In(Q),
    o=L.Out(..., Q, E), top_of=L.Out(..., Q, 1, dtype="fp32"), *, block=16, gm=0, below=False,
):  # fmt: skip
    with units(q.rows(block)) as i:
        top, total, out = L.state(-1e30), L.state(0.0), L.state(0.0, E)
        for j in sweep(i + 1 if below else k.rows(32)):
            s = L.tile(gm) if gm else L.tile()
            for c in sweep(q.chunks32(1)):
                s += q[i, c] @ k[j, c]
            m = L.maximum(top, L.row_max(s + bias[i, j]))
            p = L.exp2(s + bias[i, j] - m)
            pv = L.tile()
            pv += p @ v[j]
            total <<= total * L.exp2(top - m) + L.row_sum(p)
            out <<= out * L.exp2(top - m) + pv
            top <<= m
        o[i] <<= out / total * keep[i]
        top_of[i] <<= top


ARGS = (
    gaussian(1, 2, 70, 40), gaussian(2, 2, 50, 40), gaussian(3, 2, 50, 20), gaussian(4, 70, 50),
    gaussian(5, 70),
)  # fmt: skip


def compiled(kernel: Kernel, args: Any = ARGS, **knobs: Any) -> Any:
    return compile_kernel(kernel, [spec_of(a) for a in args], knobs, TINY)


@pytest.mark.parametrize("block", [68, 128, 200, 1000])
def test_smaller_blocks_to_the_same_bits(block: int) -> None:
    program = compiled(attention, block=block)
    (line,) = program.plan.relayouts
    size = int(line.split()[2])
    assert 4 <= size < block
    assert size % 4 == 0
    assert line.startswith(f"blocks of {size} rows of `q` take the place of those of {block}, and")
    assert "nothing goes through memory: " in line
    assert "does not fit" in line or "are free" in line
    assert all(buffer.role != "temp" for buffer in program.plan.buffers)
    assert not compiled(attention, block=16).plan.relayouts
    results: list[Any] = []
    for one in (program, compiled(attention, block=16)):
        launch = Launch(one, ARGS, TINY, poison=True, seed=block)
        launch.run()
        results.append(launch.results())
    for found, wanted in zip(*results, strict=True):
        assert_same(found, wanted)


def refused(match: str, **knobs: Any) -> None:
    args = (ARGS[0], *(gaussian(n, 2, 70, w) for n, w in ((2, 40), (3, 20))), gaussian(4, 70, 70),
            ARGS[4])  # fmt: skip
    with pytest.raises(CapacityError, match=match) as caught:
        compiled(attention, args, **knobs)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_rows_that_mean_more_are_left_alone() -> None:
    # Blocks of keys up to the index of the block of queries: smaller blocks would see others.
    refused(r"sub-tiles does not fit", block=128, below=True)
    # A tile whose rows are said apart.
    refused(r"gm \* gn = 32 \* 5 = 160 sub-tiles does not fit", block=128, gm=32)


def test_what_does_not_fit_even_so_is_refused_as_written() -> None:
    wide = (ARGS[0], ARGS[1], gaussian(3, 2, 50, 1100), *ARGS[3:])
    with pytest.raises(CapacityError, match=r"gm \* gn = 32 \* 275 = 8800 sub-tiles does not fit"):
        compiled(attention, wide, block=128)


def test_a_strict_kernel_is_refused() -> None:
    specs = [spec_of(a) for a in ARGS]
    with pytest.raises(CapacityError, match="does not fit"):
        compile_kernel(attention, specs, {"block": 128}, TINY, relax=False)
    attention.relax = False
    try:
        with pytest.raises(CapacityError, match="does not fit"):
            compiled(attention, block=128)
    finally:
        attention.relax = True


@kernel
def scanned(x=L.In(Q, D), y=L.Out(Q, D), *, block=16, steps=3):
    with units(x.rows(block)) as i:
        s, top = L.state(1.0, D), L.state(-math.inf)
        for _ in sweep(steps):
            s <<= s * 0.5 + x[i]
            top <<= L.maximum(top, L.row_max(s))
        y[i] <<= s - top


def test_states_alone() -> None:
    x = gaussian(6, 300, 200)
    results: list[Any] = []
    for block in (300, 4):
        program = compiled(scanned, [x], block=block)
        assert len(program.plan.relayouts) == (block == 300)
        launch = Launch(program, [x], TINY, poison=True)
        launch.run()
        results += launch.results()
    assert_same(results[0], results[1])


def test_only_the_grid_that_asks_for_too_much() -> None:
    @kernel
    def both(x=L.In(Q, D), w=L.In(E, D), y=L.Out(Q, D), z=L.Out(Q, E)):
        with units(x.rows(8)) as i:
            s = L.state(1.0, D)
            for _ in sweep(2):
                s <<= s * 0.5 + x[i]
            y[i] <<= s
        with units(x.rows(256)) as i:
            acc = L.tile(gn=5)
            for c in sweep(x.chunks32(1)):
                acc += x[i, c] @ w[0, c]
            z[i] <<= L.relu(acc)

    x, w = gaussian(1, 260, 40), gaussian(2, 20, 40)
    (line,) = compiled(both, [x, w]).plan.relayouts
    assert "`x` take the place of those of 256" in line
    assert np.all(np.isfinite(x))
