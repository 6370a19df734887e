# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Windows and stores: in bounds, cut alike, and every element of a result written once."""

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.api import zeros
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def gap() -> None:
    """Rows that nobody writes"""

    @kernel
    def gaps(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4) - 1):
            y[r] <<= x[r]

    gaps.plan(zeros((10, 20)))


def overlap() -> None:
    """A row that every instance writes"""

    @kernel
    def overlaps(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4)):
            y[0] <<= x[r]

    overlaps.plan(zeros((10, 20)))


def collision() -> None:
    """Rows that two instances write"""

    @kernel
    def collides(x=L.In(M, N), y=L.Out(M, N)):
        for p, q in grid(x.rows(1) - 1, 2):
            y[p + q] <<= x[p]

    collides.plan(zeros((5, 20)))


def written_twice() -> None:
    """A result that two statements write"""

    @kernel
    def rewritten(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * 2

    rewritten.plan(zeros((5, 20)))


def never_written() -> None:
    """A result that is never written"""

    @kernel
    def forgotten(x=L.In(M, N), y=L.Out(M, N), z=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]

    forgotten.plan(zeros((5, 20)))


def past_the_end() -> None:
    """An index past a buffer"""

    @kernel
    def past(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4)):
            y[r] <<= x[r + 1]

    past.plan(zeros((10, 20)))


def before_the_start() -> None:
    """An index before a buffer"""

    @kernel
    def before(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(4)):
            y[r] <<= x[r - 1]

    before.plan(zeros((10, 20)))


def not_affine() -> None:
    """An index that is no sum of indices"""

    @kernel
    def divided(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r // 2]

    divided.plan(zeros((10, 20)))


def too_many_indices() -> None:
    """An index too many"""

    @kernel
    def indexed(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r, 0] <<= x[r]

    indexed.plan(zeros((10, 20)))


def sliced() -> None:
    """A slice as an index"""

    @kernel
    def slices(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[0:2]

    slices.trace()


def fractional() -> None:
    """An index that is no integer"""

    @kernel
    def halves(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r / 2]

    halves.trace()


def other_tiling() -> None:
    """An index of another tiling"""

    @kernel
    def tilings(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            for e in sweep(x.parts(32)):
                y[r] <<= x[e]

    tilings.plan(zeros((8, 32)))


def other_blocks() -> None:
    """An index of blocks of another size"""

    @kernel
    def blocks(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            for q in sweep(x.rows(4)):
                y[r] <<= x[q]

    blocks.plan(zeros((8, 32)))


def two_tilings() -> None:
    """A grid over two tilings"""

    @kernel
    def mixed(x=L.In(M, N), y=L.Out(M, N)):
        for e, _r in grid(x.parts(32), x.rows(2)):
            y[e] <<= x[e]

    mixed.plan(zeros((8, 32)))


def broken_word() -> None:
    """Parts that end within a word"""

    @kernel
    def words(x=L.In(...), y=L.Out(...)):
        for e in grid(x.parts(24)):
            y[e] <<= x[e]

    words.plan(zeros((8, 32)))


def no_columns() -> None:
    """Tiles of a buffer without rows and columns"""

    @kernel
    def shapeless(x=L.In(...), y=L.Out(...)):
        for i in grid(x.tiles(2)):
            y[i] <<= x[i]

    shapeless.trace()


def other_width() -> None:
    """Rows of different width"""

    @kernel
    def widths(x=L.In(M, N), z=L.In(M, K), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] + z[r]

    widths.plan(zeros((8, 32)), zeros((8, 20)))


def other_rows() -> None:
    """Windows with different numbers of rows"""

    @kernel
    def heights(x=L.In(M, N), z=L.In(2 * M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] + z[r]

    heights.plan(zeros((5, 20)), zeros((10, 20)))


def other_channel() -> None:
    """A shared row of another width"""

    @kernel
    def channel(x=L.In(M, N), w=L.In(M), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * w

    channel.plan(zeros((8, 32)), zeros((8,)))


def other_shape() -> None:
    """Parts of buffers of different shape"""

    @kernel
    def shapes(x=L.In(M, N), z=L.In(N, M), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] + z[e]

    shapes.plan(zeros((32, 16)), zeros((16, 32)))


def row_of_a_part() -> None:
    """A row function of parts"""

    @kernel
    def parts(x=L.In(M, N), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] - L.row_max(x[e])

    parts.plan(zeros((8, 32)))


def too_wide() -> None:
    """A row stored where one scalar a row belongs"""

    @kernel
    def unreduced(x=L.In(M, N), y=L.Out(M)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * 2

    unreduced.plan(zeros((8, 32)))


def argument_written() -> None:
    """An argument that is written"""

    @kernel
    def inplace(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            x[r] <<= x[r] * 2
            y[r] <<= x[r]

    inplace.trace()


def assigned() -> None:
    """An assignment in place of a store"""

    @kernel
    def assigns(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] = x[r]

    assigns.trace()


def whole_result() -> None:
    """A store that names no window"""

    @kernel
    def whole(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y <<= x[r]

    whole.trace()


def outside() -> None:
    """A store outside any grid"""

    @kernel
    def nowhere(x=L.In(M, N), y=L.Out(M, N)):
        y[0] <<= x[0]

    nowhere.trace()
