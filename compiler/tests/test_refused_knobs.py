# pyright: reportOperatorIssue=false, reportOptionalOperand=false, reportArgumentType=false
"""An open knob is a size that changes no result; used as anything else it is refused."""

import pytest

from compiler.pipeline import ArgSpec, compile_kernel
from compiler.tests.refusals import prove, refused
from kohakuaccel.lang import dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.config import preset
from kohakutpu.lang import kernel

M, N = dims("M, N")


@kernel
def repeated(x=L.In(M, N), y=L.Out(M, N), *, n=None, times=None):
    h = L.temp(M, N)
    with stage(x.rows(n)) as r:
        h[r] <<= x[r]
    for _ in sweep(times):  # HERE
        with stage(x.rows(n)) as r:
            h[r] <<= h[r] + 1
    with stage(x.rows(n)) as r:
        y[r] <<= h[r]


@kernel
def shifted(x=L.In(M, N), y=L.Out(M, N), *, n=None, by=None):
    for r in grid(y.rows(n)):
        y[r] <<= x[r + by]  # HERE


@kernel
def scaled(x=L.In(M, N), y=L.Out(M, N), *, n=None, scale=None):
    for r in grid(y.rows(n)):
        y[r] <<= x[r] * (1 / scale)  # HERE


@kernel
def uneven(x=L.In(M, N), y=L.Out(M, N), *, n=None):
    for r in grid(y.rows(n)):
        y[r] <<= x[r] * n  # HERE


def test_a_count() -> None:
    with refused("knob `times` is left open", "sweep(times)", "give `times` a number"):
        prove(repeated)
    prove(repeated, (8, 8), times=3)


def test_an_index() -> None:
    with refused("knob `by` is left open", "x[r + by]", "give `by` a number"):
        prove(shifted)


@pytest.mark.parametrize(
    ("bad", "name", "caret"),
    [(scaled, "scale", "x[r] * (1 / scale)"), (uneven, "n", "x[r] * n")],
)
def test_a_number_to_compute_with(bad, name: str, caret: str) -> None:
    with refused(f"knob `{name}` is left open, so it is no number", caret, f"give `{name}`"):
        prove(bad)


def test_a_tiling_that_no_tile_has_the_size_of() -> None:
    K = dims("A, K")[1]

    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=None, gn=2):
        for i in grid(a.tiles(gm)):
            for j in sweep(b.tiles(None)):
                acc = L.tile(gm, gn, 1)
                for k in sweep(a.chunks32(1)):
                    acc += a[i, k] @ b[j, k]
                c[i, j] <<= L.maximum(acc, 0)  # HERE

    shapes = [ArgSpec((17, 33)), ArgSpec((40, 33))]
    with refused(
        "an accumulator tile: 20 x 8; a tile of `c`: 20 x 4",
        "c[i, j] <<= L.maximum(acc, 0)",
        "same tiling",
    ):
        compile_kernel(bad, shapes, {}, preset("small"))


def test_a_dimension_that_no_argument_settles() -> None:
    from_nowhere = dims("E, F")[0]

    @kernel
    def number(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] * from_nowhere  # HERE

    @kernel
    def count(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(from_nowhere)):  # HERE
            y[r] <<= x[r]

    @kernel
    def index(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r + from_nowhere]  # HERE

    for bad, caret in (
        (number, "x[r] * from_nowhere"),
        (count, "grid(x.rows(from_nowhere))"),
        (index, "x[r + from_nowhere]"),
    ):
        with refused("`E` is an extent of no argument", caret, "an axis E"):
            prove(bad)


def test_a_grid_that_no_tile_has_the_size_of() -> None:
    K = dims("A, K")[1]

    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gn=None):
        for i in grid(a.tiles(None)):
            for j in sweep(b.tiles(gn)):
                acc = L.tile(5, gn, 1)
                for k in sweep(a.chunks32(1)):
                    acc += a[i, k] @ b[j, k]
                c[i, j] <<= L.maximum(acc, 0)  # HERE

    shapes = [ArgSpec((5, 5)), ArgSpec((1, 5))]
    with refused(
        "an accumulator tile: 20 x 1; a tile of `c`: 4 x 1",
        "c[i, j] <<= L.maximum(acc, 0)",
        "same tiling",
    ):
        compile_kernel(bad, shapes, {}, preset("small"))
