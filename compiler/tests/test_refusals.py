"""Results: every element is written once, by the right index, within bounds; else a refusal."""

from compiler.tests.refusals import prove, refused
from kohakuaccel.lang import ceildiv, dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def test_grid_over_part_of_the_output() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
        for i, j in grid(a.tiles(gm) - 1, b.tiles(gn)):  # HERE
            acc = L.tile(gm, gn, nk)
            for k in sweep(a.chunks32(nk)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "rows 16 to 19 of `c` (20 x 9) are never written: `i` runs over 2 of 3",
        "grid(a.tiles(gm) - 1, b.tiles(gn))",
        "c.tiles(...)",
        notes=1,
    ):
        prove(bad, (20, 100), (9, 100))


def test_grid_over_part_of_the_columns() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), 2):  # HERE
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "column 8 of `c` (20 x 9) is never written: `j` runs over 2 of 3",
        "grid(a.tiles(2), 2)",
        "cover",
    ):
        prove(bad, (20, 100), (9, 100))


def test_every_second_tile() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(ceildiv(a.tiles(2).tiling.count, 2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[2 * i, k] @ b[j, k]
            c[2 * i, j] <<= acc  # HERE

    with refused("rows 8 to 15 of `c` (20 x 9) are never written", "c[2 * i, j] <<= acc", "cover"):
        prove(bad, (20, 100), (9, 100))


def test_both_halves_of_the_output_are_the_output() -> None:
    @kernel
    def good(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2) // 2, b.tiles(1)):
            for half in range(2):
                acc = L.tile(2, 1, 2)
                for k in sweep(a.chunks32(2)):
                    acc += a[2 * i + half, k] @ b[j, k]
                c[2 * i + half, j] <<= acc

    prove(good, (32, 100), (9, 100))


def test_parts_left_out() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for e in grid(x.parts(32) - 1):  # HERE
            y[e] <<= x[e] * 2

    # rows of 20 elements are stored as 32: one row is one part
    with refused(
        "row 4 of `y` (5 x 20) is never written: `e` runs over 4 of 5",
        "grid(x.parts(32) - 1)",
        "y.parts",
    ):
        prove(bad, (5, 20))


def test_rows_left_out() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4) - 1):  # HERE
            y[r] <<= x[r] * 2

    with refused("rows 8 to 9 of `y` (10 x 20)", "grid(x.rows(4) - 1)", "y.rows"):
        prove(bad, (10, 20))


def test_swapped_index() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[j, i] <<= acc  # HERE

    with refused(
        "`c[j, i]` is indexed the wrong way round: rows of tile `acc` are `i` and its columns are",
        "c[j, i]",
        "write c[i, j]",
        notes=1,
    ):
        prove(bad)  # refused although M = N would fit


def test_swapped_operands() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += b[j, k] @ a[i, k]
            c[i, j] <<= acc  # HERE

    with refused("rows of tile `acc` are `j`", "c[i, j]", "write c[j, i]"):
        prove(bad)


def test_swapped_dimensions_of_the_result() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(N, M)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc  # HERE

    with refused(
        "`c` has M columns, but tile `acc` is cut from N", "c[i, j]", "declare `c` with N columns"
    ):
        prove(bad)


def test_swapped_residual_and_bias() -> None:
    @kernel
    def residual(a=L.In(M, K), b=L.In(N, K), r=L.In(M, N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + r[j, i]  # HERE

    @kernel
    def bias(a=L.In(M, K), b=L.In(N, K), r=L.In(N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + r[i]  # HERE

    with refused("`r[j, i]` is indexed the wrong way round", "r[j, i]", "write r[i, j]"):
        prove(residual)
    with refused("`r[i]` is indexed the wrong way round", "r[i]", "write r[j]"):
        prove(bias)


def test_indices_of_an_operand_swapped() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[k, i] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "`k` counts K chunks of `a`, but index 0 of `a` counts row tiles", "a[k, i]", "swapped?"
    ):
        prove(bad)


def test_every_instance_writes_one_part() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[0] <<= x[e]  # HERE

    with refused(
        "row 0 of `y` is written more than once: by e = 0 and e = 1",
        "y[0] <<= x[e]",
        "index `y` by `e`",
    ):
        prove(bad, (5, 20))


def test_two_instances_collide() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for p, q in grid(x.rows(1) - 1, 2):
            y[p + q] <<= x[p]  # HERE

    with refused(
        "rows 1 to 3 of `y` are written more than once: by p = 0, q = 1 and p = 1, q = 0",
        "y[p + q] <<= x[p]",
        "differs",
    ):
        prove(bad, (5, 20))


def test_two_statements_write_one_result() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * 2  # HERE

    with refused(
        "written more than once: by this statement and the one",
        "y[r] <<= x[r] * 2",
        "one statement",
    ):
        prove(bad, (5, 20))


def test_result_written_by_every_pass_of_a_loop() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for _t in sweep(3):
            with stage(x.rows(2)) as r:
                y[r] <<= x[r]  # HERE

    with refused("by _t = 0 and _t = 1", "y[r] <<= x[r]", "store after the loop"):
        prove(bad, (5, 20))


def test_result_never_written() -> None:
    with refused("result `z` is never written", "L.Out(M, N)", "z[...] <<= ..."):

        @kernel
        def bad(
            x=L.In(M, N),
            y=L.Out(M, N),
            z=L.Out(M, N),  # HERE
        ):
            for r in grid(x.rows(2)):
                y[r] <<= x[r]

        prove(bad)


# Indices


def test_index_past_a_buffer() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4)):
            y[r] <<= x[r + 1]  # HERE

    with refused(
        "`r + 1` reaches 3 (r = 2), but `x` has only 3 blocks of 4 rows: 10 rows",
        "x[r + 1]",
        "0 to 2",
    ):
        prove(bad, (10, 20))


def test_index_before_a_buffer() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4)):
            y[r] <<= x[r - 1]  # HERE

    with refused("`r - 1` reaches -1 (r = 0)", "x[r - 1]", "0 to 2"):
        prove(bad, (10, 20))


def test_literal_index_past_a_buffer() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + c[i, 7]  # HERE

    @kernel
    def past(a=L.In(M, K), b=L.In(N, K), r=L.In(M, N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + r[i, 7]  # HERE

    with refused(
        "`c[i, 7]` reads a part of `c` that another instance", "c[i, 7]", "another buffer"
    ):
        prove(bad)
    with refused(
        "`7` reaches 7, but `r` has only 3 blocks of 4 columns: 9 columns", "r[i, 7]", "0 to 2"
    ):
        prove(past, (16, 100), (9, 100), (16, 9))


def test_index_that_is_not_affine() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r // 2]  # HERE

    with refused(
        "index `r // 2` of `x` is no sum of indices", "x[r // 2]", "one index for every step"
    ):
        prove(bad)
