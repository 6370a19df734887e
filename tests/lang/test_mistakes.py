"""Mistakes that are seen while the body runs: each names the place and the fix."""

from typing import Any

import numpy as np
import pytest

from compiler.tests.refusals import refused
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel
from tests.lang.bodies import rows_of

M, K, N = dims("M, K, N")


def test_whole_buffers_state_no_split() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= a @ b  # HERE

    with refused("`a @ b` contracts whole buffers and states no split", "a @ b", "tensor level"):
        bad.trace()


def test_whole_buffer_in_arithmetic() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x + 1  # HERE

    with refused("`x` is a whole buffer", "x + 1", "x[r", notes=1):
        rows_of(body)()


def test_one_row_in_a_contraction_or_a_part() -> None:
    @kernel
    def fused(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + bias  # HERE

    @kernel
    def parts(x=L.In(M, N), w=L.In(N), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] * w  # HERE

    with refused("`bias` is one row", "acc + bias", "`bias[j]`"):
        fused.trace()
    with refused("`w` is one row", "x[e] * w", "x.rows(n)"):
        parts.trace()


def test_store_into_a_whole_buffer() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y <<= x[r]  # HERE

    with refused("does not say which window", "y <<= x[r]", "`y[i] <<= ...`"):
        rows_of(body)()


def test_store_into_an_argument() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        x[r] <<= 0  # HERE

    with refused("`x` is an argument and cannot be written", "x[r] <<= 0", "L.Out", notes=1):
        rows_of(body)()


def test_a_slice_and_a_float_are_no_indices() -> None:
    def slices(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x[0:2]  # HERE

    def floats(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x[r / 2]  # HERE

    with refused("indexed by a slice", "x[0:2]", "whole tile, part or block"):
        rows_of(slices)()
    with refused("an index of `x` is a Scalar, not an integer", "x[r / 2]", "indices of grids"):
        rows_of(floats)()


def test_wrong_number_of_indices() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r, 0] <<= x[r]  # HERE

    @kernel
    def tiles(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, _j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i] @ b[k]  # HERE
            c[i] <<= acc

    with refused("`y` takes 1 index here, not 2", "y[r, 0]", "y[r]: one block", notes=1):
        rows_of(body)()
    with refused("`a` takes 2 indices here, not 1", "a[i]", "a[i, k]: a row tile and a K chunk"):
        tiles.trace()


def test_operand_of_one_axis_or_fp32() -> None:
    @kernel
    def flat(a=L.In(K), b=L.In(N, K), c=L.Out(N, N)):
        for i, j in grid(b.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    @kernel
    def wide(a=L.In(M, K, dtype="fp32"), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    with refused("the left side needs rows and K", "a[i, 0]", "two axes", notes=1):
        flat.trace()
    with refused("`a` holds fp32; operands of `@` are FP16", "a[i, 0]", 'dtype="fp16"'):
        wide.trace()


def test_tilings_of_a_buffer_without_rows_and_columns() -> None:
    @kernel
    def bad(x=L.In(...), y=L.Out(...)):
        for i in grid(x.tiles(2)):  # HERE
            y[i] <<= x[i]

    with refused("`x.tiles` needs a buffer of rows and columns", "x.tiles(2)", "two axes"):
        bad.trace()


@pytest.mark.parametrize("size", [0, -1, 1024, 2.0, "2", True])
def test_sizes_out_of_range(size: Any) -> None:
    @kernel
    def tiling(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2):
        for _i, _j in grid(a.tiles(gm), b.tiles(1)):  # HERE
            pass

    @kernel
    def tile(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            L.tile(2, gm, 2)  # HERE

    with refused(
        f"a.tiles takes a whole number from 1 to 1023, not {size!r}", "a.tiles(gm)", "None"
    ):
        tiling.trace(gm=size)
    with refused(
        f"gn of L.tile takes a whole number from 1 to 1023, not {size!r}",
        "L.tile(2, gm, 2)",
        "None",
    ):
        tile.trace(gm=size)


def test_tile_options() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, precision="default", sweeps=1):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            L.tile(2, 1, 2, precision=precision, sweeps=sweeps)  # HERE

    call = "L.tile(2, 1, 2, precision=precision, sweeps=sweeps)"
    with refused("there is no precision 'low'", call, '"high"'):
        bad.trace(precision="low")
    with refused("there is no precision None", call, '"high"'):
        bad.trace(precision=None)
    with refused("sweeps counts sweeps over K, it cannot be 0", call, "1 or more"):
        bad.trace(sweeps=0)


def test_tile_sizes_come_from_the_operands() -> None:
    @kernel
    def good(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(), b.tiles(3)):
            acc = L.tile()
            for k in sweep(a.chunks32(5)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    trace = good.trace()
    assert "tile acc: gm=a.tiles, gn=3, nk=5" in trace.pretty()
    assert list(trace.knobs) == ["a.tiles"]


def test_what_goes_into_a_tile() -> None:
    @kernel
    def number(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += 3  # HERE

    @kernel
    def stored(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= a[i, 0] @ b[j, 0]  # HERE

    @kernel
    def shifted(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc <<= 1  # HERE  # pyright: ignore

    @kernel
    def scaled(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for _i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += b[j, 0] @ 2  # HERE

    @kernel
    def mixed(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b  # HERE
            c[i, j] <<= acc

    with refused(
        "contracts into the tile; this is no contraction", "acc += 3", "a[i, k] @ b[j, k]"
    ):
        number.trace()
    with refused("one chunk of a contraction, not a value", "a[i, 0] @ b[j, 0]", "L.tile"):
        stored.trace()
    with refused("written by contraction only", "acc <<= 1", "Python variable"):
        shifted.trace()
    with refused("the right side of `@` is `int`", "b[j, 0] @ 2", "b[j, k]"):
        scaled.trace()
    with refused("the right side of `@` is a whole buffer", "a[i, 0] @ b", "b[j, k]"):
        mixed.trace()


def test_row_functions_need_full_rows() -> None:
    def twice(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= L.row_max(L.row_sum(x[r]))  # HERE

    def channel(x: Any, y: Any, w: Any, r: Any, **_: Any) -> None:
        y[r] <<= L.row_sum(w)  # HERE

    with refused("has one scalar a row already", "L.row_max(L.row_sum(x[r]))", "x[r]"):
        rows_of(twice)()
    with refused("is one row that all rows share", "L.row_sum(w)", "x[r]"):
        rows_of(channel)()


def test_tables() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        L.table(np.array(["a"]))  # HERE

    @kernel
    def good(x=L.In(M, N), y=L.Out(M, N)):
        for array, dtype in (
            ([1, 2.5], "fp16"),
            ([0.1], "fp32"),
            ([1e6], "fp32"),
            ([np.nan, np.inf], "fp16"),
            (np.array([0.1], np.float16), "fp16"),
            ([True, False], "fp16"),
        ):
            assert L.table(array).buffer.dtype == dtype
        assert L.table([0.1], dtype=np.float16).buffer.value.dtype == np.float16

    with refused("L.table holds real numbers, not <U1", 'L.table(np.array(["a"]))', "real dtype"):
        bad.trace()
    good.trace()
