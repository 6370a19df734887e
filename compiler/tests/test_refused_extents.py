"""Windows that do not fit together are refused."""

import numpy as np

from compiler.tests.refusals import prove, refused
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def test_part_that_ends_within_a_word() -> None:
    @kernel
    def bad(x=L.In(...), y=L.Out(...), *, part=24):
        for e in grid(x.parts(part)):  # HERE
            y[e] <<= x[e]

    with refused("a part of 24 elements does not end on a word", "x.parts(part)", "such as 32"):
        prove(bad)


def test_row_function_in_a_parts_stage() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] - L.row_max(x[e])  # HERE

    with refused("row_max needs whole rows, and a part", "L.row_max(x[e])", "x.rows(n)", notes=1):
        prove(bad)


def test_row_function_on_a_tile() -> None:
    @kernel
    def maybe(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gn=2):
        for i, j in grid(a.tiles(2), b.tiles(gn)):
            acc = L.tile(2, gn, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc / L.row_sum(acc)  # HERE

    with refused(
        "row_sum needs whole rows, but tile `acc` holds 8 of 9 columns: a row crosses instances",
        "L.row_sum(acc)",
        "gn = 3",
        notes=1,
    ):
        prove(maybe, (16, 100), (9, 100))
    prove(maybe, (16, 100), (9, 100), gn=3)


def test_grid_mixes_tilings() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for e, _r in grid(x.parts(32), x.rows(2)):  # HERE
            y[e] <<= x[e]

    with refused(
        "a grid over parts and blocks of rows", "grid(x.parts(32), x.rows(2))", "x.tiles(g)"
    ):
        prove(bad)


def test_index_of_another_tiling() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            for e in sweep(x.parts(32)):
                y[r] <<= x[e]  # HERE

    with refused(
        "`e` counts parts of `x`, but index 0 of `x` counts blocks of rows", "x[e]", "x.rows"
    ):
        prove(bad)


def test_index_of_another_block_size() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            for q in sweep(x.rows(4)):
                y[r] <<= x[q]  # HERE

    with refused(
        "`q` counts blocks of 4 rows, but this statement works on blocks of 2", "x[q]", "x.rows(2)"
    ):
        prove(bad)


def test_tile_of_another_size() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(4, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "`i` counts tiles of 2, but tile `acc` has gm = 4", "a[i, k]", "a.tiles(gm)", notes=1
    ):
        prove(bad)


def test_sizes_compared_once_knobs_have_numbers() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=None):
        for i, j in grid(a.tiles(gm), b.tiles(1)):
            acc = L.tile(4, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "`i` counts blocks of 8 rows, but this statement works on blocks of 16",
        "a[i, k]",
        "a.tiles(4)",
    ):
        prove(bad, (16, 100), (9, 100))


def test_widths_differ() -> None:
    @kernel
    def symbols(x=L.In(M, N), z=L.In(M, K), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] + z[r]  # HERE

    @kernel
    def numbers(x=L.In(M, N), z=L.In(M, 2 * N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] + z[r]  # HERE

    with refused("rows of `z` have K elements, but rows of `y` have N", "z[r]", "same width"):
        prove(symbols)
    with refused("rows of `z` have 40 elements, but rows of `y` have 20", "z[r]", "same width"):
        prove(numbers, (5, 20), (5, 40))


def test_rows_differ() -> None:
    @kernel
    def bad(x=L.In(M, N), z=L.In(2 * M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] + z[r]  # HERE

    with refused(
        "`z[r]` holds 2 rows at r = 2, but `y[r]` holds 1: `z` has 10 rows, not 5",
        "z[r]",
        "index it alike",
    ):
        prove(bad, (5, 20), (10, 20))


def test_channel_of_another_width() -> None:
    @kernel
    def bad(x=L.In(M, N), w=L.In(M), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * w  # HERE

    with refused("rows of `w` have M elements", "y[r] <<= x[r] * w".split("<<= ")[1], "same width"):
        prove(bad)


def test_parts_of_different_shapes() -> None:
    @kernel
    def bad(x=L.In(M, N), z=L.In(N, M), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] + z[e]  # HERE

    with refused("`z` has 16 x 32 elements, but `y` has 32 x 16", "z[e]", "one shape"):
        prove(bad, (32, 16), (16, 32))


def test_parts_of_different_formats() -> None:
    @kernel
    def bad(x=L.In(M, N), z=L.In(M, N, dtype="fp32"), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] + z[e]  # HERE

    with refused("padded differently", "z[e]", "x.rows(n)"):
        prove(bad, (5, 20), (5, 20))
    prove(bad, (5, 32), (5, 32))


def test_full_value_into_a_column() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, 1)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * 2  # HERE

    with refused("`y[r]` takes one scalar a row", "y[r] <<= x[r] * 2", "L.row_sum"):
        prove(bad)


def test_row_scalars_and_channels_broadcast_into_full_rows() -> None:
    @kernel
    def good(x=L.In(M, N), w=L.In(N), y=L.Out(M, N), z=L.Out(M, N), s=L.Out(M)):
        for r in grid(x.rows(2)):
            y[r] <<= L.row_sum(x[r])
            z[r] <<= w * 2
            s[r] <<= L.row_max(x[r])

    prove(good, (5, 20), (20,))


def test_tile_window_without_a_tile() -> None:
    @kernel
    def bad(a=L.In(M, N), b=L.In(N, M), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            c[i, j] <<= a[i, j] * 2  # HERE

    with refused("no tile is in the value", "c[i, j] <<= a[i, j] * 2", "x.parts(n)"):
        prove(bad)


def test_table_is_a_buffer_like_others() -> None:
    @kernel
    def masked(x=L.In(M, 8), y=L.Out(M, 8)):
        ramp = L.table(np.arange(8.0))
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * ramp

    trace = prove(masked, (5, 8))
    ramp = trace.buffers[-1]
    assert (ramp.role, ramp.name, ramp.dtype) == ("table", "ramp", "fp16")
    np.testing.assert_array_equal(ramp.value, np.arange(8, dtype=np.float16))
