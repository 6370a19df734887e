"""Misuse of accumulator tiles is refused; capacity comes with numbers."""

from compiler.tests.refusals import prove, refused
from kohakuaccel.errors import CapacityError
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def test_tile_without_contraction() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for i, j in grid(x.tiles(2), y.tiles(1)):
            acc = L.tile(2, 1, 2)
            y[i, j] <<= acc  # HERE

    with refused(
        "tile `acc` is read, but nothing has been contracted", "y[i, j] <<= acc", "sweep over K"
    ):
        prove(bad)


def test_tile_that_is_never_used() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            other = L.tile(2, 1, 2)  # HERE
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc
        del other

    with refused(
        "tile `other` does nothing: nothing is contracted into it", "L.tile(2, 1, 2)", "remove"
    ):
        prove(bad)


def test_tile_that_is_never_stored() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            lost = L.tile(2, 1, 2)  # HERE
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
                lost += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "tile `lost` does nothing: it is never stored", "L.tile(2, 1, 2)", "c[i, j] <<= lost"
    ):
        prove(bad)


def test_tile_read_inside_its_sweep() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
                c[i, j] <<= acc  # HERE

    with refused("read inside its own sweep over `k`", "c[i, j] <<= acc", "after the loop"):
        prove(bad)


def test_tile_contracted_into_after_it_is_read() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), d=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2, sweeps=2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]  # HERE
            d[i, j] <<= acc

    with refused("after it has been read", "acc += a[i, k] @ b[j, k]", "second tile", notes=1):
        prove(bad)


def test_tile_larger_than_the_accumulator() -> None:
    @kernel
    def big(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(64), b.tiles(33)):
            acc = L.tile(64, 33, 2)  # HERE
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "gm * gn = 64 * 33 = 2112 sub-tiles does not fit: the accumulator of machine `small` "
        "holds 2048",
        "L.tile(64, 33, 2)",
        "gm = 64, gn = 32 would fit",
        error=CapacityError,
    ):
        prove(big, (16, 100), (8, 100))


def test_tiles_that_do_not_fit_together() -> None:
    @kernel
    def big(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(32), b.tiles(40)):
            first = L.tile(32, 40, 2)
            second = L.tile(32, 40, 2)  # HERE
            for k in sweep(a.chunks32(2)):
                first += a[i, k] @ b[j, k]
                second += a[i, k] @ b[j, k]
            c[i, j] <<= first * second

    with refused(
        "1280 sub-tiles does not fit",
        "L.tile(32, 40, 2)",
        "up to 768",
        error=CapacityError,
        notes=1,
    ):
        prove(big, (16, 100), (8, 100))


def test_region_larger_than_an_l1() -> None:
    @kernel
    def big(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(4), b.tiles(1)):
            acc = L.tile(4, 1, 1000)  # HERE
            for k in sweep(a.chunks32(1000)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    with refused(
        "gm * nk = 4 * 1000 = 4000 entries does not fit: L1A of machine `small` holds 2048",
        "L.tile(4, 1, 1000)",
        "nk = 512 would fit",
        error=CapacityError,
    ):
        prove(big, (16, 100), (8, 100))


def test_two_tiles_of_different_shape_in_one_value() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, g=1):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            first, second = L.tile(2, 1, 2), L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                first += a[i, k] @ b[j, k]
                second += a[0, k] @ b[j, k]
            c[i, j] <<= first * second  # HERE

    with refused("they differ in row: i and 0", "c[i, j] <<= first * second", "same gm and gn"):
        prove(bad)
