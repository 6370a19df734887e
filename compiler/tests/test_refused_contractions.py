"""Contractions that leave out or repeat a part of K are refused."""

from compiler.tests.refusals import prove, refused
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def test_sweep_over_part_of_k() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
        for i, j in grid(a.tiles(gm), b.tiles(gn)):
            acc = L.tile(gm, gn, nk)
            for k in sweep(a.chunks32(nk) - 1):  # HERE
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "covers only part of K: elements 64 to 99 of K = 100 are never summed (1 of 2 chunks",
        "sweep(a.chunks32(nk) - 1)",
        "sweep(a.chunks32(nk))",
        notes=1,
    ):
        prove(bad, (16, 100), (8, 100))


def test_sweep_over_one_chunk_of_a_number() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    prove(bad, (16, 64), (8, 64))  # all of K is one chunk
    with refused("elements 64 to 64 of K = 65", "acc += a[i, 0] @ b[j, 0]", "sweep"):
        prove(bad, (16, 65), (8, 65))


def test_sweep_over_more_than_k() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
        for i, j in grid(a.tiles(gm), b.tiles(gn)):
            acc = L.tile(gm, gn, nk)
            for k in sweep(a.chunks32(nk) + 1):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "`k` reaches 2, but `a` has only 2 blocks of 64 elements of K: 100 elements of K",
        "a[i, k]",
        "0 to 1",
    ):
        prove(bad, (16, 100), (8, 100))


def test_sweep_over_the_chunks_of_another_buffer() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=1, nk=2):
        for i, j in grid(a.tiles(gm), b.tiles(gn)):
            acc = L.tile(gm, gn, nk)
            for k in sweep(c.chunks32(nk)):  # HERE
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "`k` counts the chunks of `c`, which has N along K; the operands have K",
        "sweep(c.chunks32(nk))",
        "sweep over a.chunks32(2)",
    ):
        prove(bad)


def test_chunks_of_another_size() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(4)):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused("`k` counts chunks32 of 4, but tile `acc` has nk = 2", "a[i, k]", "one number"):
        prove(bad)


def test_two_sweeps_into_one_tile() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, sweeps=1):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2, sweeps=sweeps)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "all of K goes into tile `acc` 2 times, but it was made for 1 sweep",
        "acc += a[i, k] @ b[j, k]",
        "L.tile(..., sweeps=2)",
        notes=2,
    ):
        prove(bad, (16, 100), (8, 100))
    prove(bad, (16, 100), (8, 100), sweeps=2)


def test_two_pairs_of_operands_in_one_loop() -> None:
    @kernel
    def both(a=L.In(M, K), b=L.In(N, K), d=L.In(M, K), e=L.In(N, K), c=L.Out(M, N), *, sweeps=1):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2, sweeps=sweeps)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
                acc += d[i, k] @ e[j, k]  # HERE
            c[i, j] <<= acc

    shapes = (16, 100), (8, 100), (16, 100), (8, 100)
    with refused("2 times", "acc += d[i, k] @ e[j, k]", "sweeps=2"):
        prove(both, *shapes)
    prove(both, *shapes, sweeps=2)


def test_more_sweeps_promised_than_made() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2, sweeps=2)  # HERE
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "says sweeps=2, but K goes into it 1 time", "L.tile(2, 1, 2, sweeps=2)", "say sweeps=1"
    ):
        prove(bad, (16, 100), (8, 100))


def test_one_chunk_twice() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            acc += a[i, 0] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    with refused(
        "elements 0 to 63 of K go into tile `acc` 2 times, others 1 time",
        "acc += a[i, 0] @ b[j, 0]",
        "once",
    ):
        prove(bad, (16, 100), (8, 100))


def test_loop_opened_after_the_tile() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for _ in sweep(3):
                for k in sweep(a.chunks32(2)):
                    acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "the loop over `_` was opened after tile `acc` and carries its chain",
        "acc += a[i, k] @ b[j, k]",
        "make the tile inside that loop",
        notes=2,
    ):
        prove(bad)


def test_loops_opened_before_the_tile_are_fine() -> None:
    @kernel
    def good(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i in grid(a.tiles(2)):
            for j in sweep(b.tiles(1)):
                acc = L.tile(2, 1, 2)
                for k in sweep(a.chunks32(2)):
                    acc += a[i, k] @ b[j, k]
                c[i, j] <<= acc

    prove(good, (33, 100), (9, 100))


def test_rows_move_inside_the_sweep() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for j in grid(b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for i in sweep(a.tiles(2)):
                acc += a[i, 0] @ b[j, 0]  # HERE
            c[0, j] <<= acc

    with refused(
        "`a[i, 0]` changes its rows inside the sweep over `i`", "a[i, 0]", "make the tile"
    ):
        prove(bad)


def test_partial_sweep_of_some_instances() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 1)
            for k in sweep(i + 1):  # HERE
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused("elements 32 to 63 of K = 64 are never summed", "sweep(i + 1)", "chunks32"):
        prove(bad, (16, 64), (8, 64))


def test_sweep_that_some_instances_skip() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 1)
            for k in sweep(i):  # HERE
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused("elements 0 to 31 of K = 32", "sweep(i)", "chunks32"):
        prove(bad, (16, 32), (8, 32))


def test_unrolled_chunks_are_one_sweep() -> None:
    @kernel
    def good(a=L.In(M, 70), b=L.In(N, 70), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 1)
            for k in range(3):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    trace = prove(good, (16, 70), (8, 70))
    assert trace.pretty().count("acc +=") == 3


def test_two_halves_of_k_are_one_sweep() -> None:
    @kernel
    def good(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 1)
            half = a.chunks32(1) // 2
            for k in sweep(half):
                acc += a[i, k] @ b[j, k]
            for k in sweep(a.chunks32(1) - half):
                acc += a[i, half + k] @ b[j, half + k]
            c[i, j] <<= acc

    prove(good, (16, 160), (8, 160))


def test_different_chunks_of_both_operands() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    with refused("K chunk `k` of `a` with chunk `0` of `b`", "acc += a[i, k] @ b[j, 0]", "b[j, k]"):
        prove(bad)


def test_mismatched_k_in_symbols() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "`a` has K along K, but `b` has N", "acc += a[i, k] @ b[j, k]", "same dimension", notes=2
    ):
        prove(bad)


def test_mismatched_k_in_numbers() -> None:
    @kernel
    def bad(a=L.In(M, 2 * K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]  # HERE
            c[i, j] <<= acc

    with refused(
        "`a` has 96 elements along K, but `b` has 48", "acc += a[i, k] @ b[j, k]", "same extent"
    ):
        prove(bad, (16, 96), (8, 48))
