# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Tiles: an accumulator belongs to its sweep, and has to fit."""

import math

from kohakuaccel.lang import dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.api import zeros
from kohakutpu.kernels import matmul
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def empty_tile() -> None:
    """A tile read before anything is contracted into it"""

    @kernel
    def empty(x=L.In(M, N), y=L.Out(M, N)):
        for i, j in grid(x.tiles(2), y.tiles(1)):
            acc = L.tile(2, 1, 2)
            y[i, j] <<= acc

    empty.plan(zeros((8, 8)))


def idle_tile() -> None:
    """A tile that does nothing"""

    @kernel
    def idle(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc, other = L.tile(2, 1, 2), L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc
        del other

    idle.plan(zeros((8, 64)), zeros((8, 64)))


def lost_tile() -> None:
    """A tile that is never stored"""

    @kernel
    def lost(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc, other = L.tile(2, 1, 2), L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
                other += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    lost.plan(zeros((8, 64)), zeros((8, 64)))


def early_read() -> None:
    """A tile read inside its sweep"""

    @kernel
    def early(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
                c[i, j] <<= acc

    early.plan(zeros((8, 64)), zeros((8, 64)))


def late_sum() -> None:
    """A sum that goes on after the tile was read"""

    @kernel
    def late(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), d=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2, sweeps=2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            d[i, j] <<= acc

    late.plan(zeros((8, 64)), zeros((8, 64)))


def other_size() -> None:
    """Operands cut to another size than the tile"""

    @kernel
    def sized(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(4, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    sized.plan(zeros((16, 64)), zeros((8, 64)))


def number_added() -> None:
    """A number added to a tile in place"""

    @kernel
    def added(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += 3
            c[i, j] <<= acc

    added.trace()


def stored_into() -> None:
    """A value stored into a tile"""

    @kernel
    def into(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc <<= 1
            c[i, j] <<= acc

    into.trace()


def unknown_precision() -> None:
    """A precision there is not"""
    matmul.plan(zeros((8, 64)), zeros((8, 64)), precision="low")


def no_size() -> None:
    """A size out of range"""
    matmul.plan(zeros((8, 64)), zeros((8, 64)), gm=0)


def large_tile() -> None:
    """A tile larger than the accumulator"""
    matmul.plan(zeros((8, 64)), zeros((8, 64)), gm=64, gn=33)


def large_region() -> None:
    """A region larger than an L1"""
    matmul.plan(zeros((8, 64)), zeros((8, 64)), gm=4, nk=1000)


def two_large_tiles() -> None:
    """Tiles that do not fit side by side"""

    @kernel
    def pair(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(32), b.tiles(40)):
            first, second = L.tile(32, 40, 2), L.tile(32, 40, 2)
            for k in sweep(a.chunks32(2)):
                first += a[i, k] @ b[j, k]
                second += a[i, k] @ b[j, k]
            c[i, j] <<= first * second

    pair.plan(zeros((8, 64)), zeros((8, 64)))


def two_places() -> None:
    """Tiles of different places in one value"""

    @kernel
    def places(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            first, second = L.tile(2, 1, 2), L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                first += a[i, k] @ b[j, k]
                second += a[0, k] @ b[j, k]
            c[i, j] <<= first * second

    places.plan(zeros((16, 64)), zeros((8, 64)))


def swapped_result() -> None:
    """A result indexed the wrong way round"""

    @kernel
    def swapped(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[j, i] <<= acc

    swapped.plan(zeros((8, 64)), zeros((8, 64)))


def swapped_operand() -> None:
    """An operand indexed the wrong way round"""

    @kernel
    def operand(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[k, i] @ b[j, k]
            c[i, j] <<= acc

    operand.plan(zeros((8, 64)), zeros((8, 64)))


def swapped_bias() -> None:
    """A bias indexed by the row tile"""

    @kernel
    def biased(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + bias[i]

    biased.plan(zeros((8, 64)), zeros((8, 64)), zeros((8,)))


def swapped_extents() -> None:
    """A result declared the wrong way round"""

    @kernel
    def declared(a=L.In(M, K), b=L.In(N, K), c=L.Out(N, M)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    declared.plan(zeros((8, 64)), zeros((8, 64)))


def piece_of_a_row() -> None:
    """A row function of a piece of a row"""

    @kernel
    def pieces(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc / L.row_sum(acc)

    pieces.plan(zeros((16, 100)), zeros((9, 100)))


def scalar_of_the_columns() -> None:
    """A scalar a row that is as long as the columns"""

    @kernel
    def hides(q=L.In(M, K), k=L.In(N, K), keys=L.In(N), o=L.Out(M, N)):
        with stage(q.rows(32)) as i:
            for j in sweep(k.rows(32)):
                s = L.tile()
                for c in sweep(q.chunks32(1)):
                    s += q[i, c] @ k[j, c]
                o[i, j] <<= L.where(keys[i], s, -math.inf)

    hides.plan(zeros((64, 8)), zeros((64, 8)), zeros((64,)))


def on_the_diagonal() -> None:
    """A row or a column on the diagonal"""

    @kernel
    def hides(q=L.In(M, K), k=L.In(M, K), keys=L.In(M), o=L.Out(M)):
        with stage(q.rows(32)) as i:
            top = L.state(-math.inf)
            s = L.tile()
            for c in sweep(q.chunks32(1)):
                s += q[i, c] @ k[i, c]
            top <<= L.row_max(L.where(keys[i], s, -math.inf))
            o[i] <<= top

    hides.plan(zeros((64, 8)), zeros((64, 8)), zeros((64,)))


def states_into_other_rows() -> None:
    """States that go into a buffer of more rows than they have"""

    @kernel
    def peaks(q=L.In(M, K), k=L.In(N, K), o=L.Out(K, 1)):
        for i in grid(q.rows(32)):
            top = L.state(-math.inf)
            for j in sweep(k.rows(32)):
                s = L.tile()
                for c in sweep(q.chunks32(1)):
                    s += q[i, c] @ k[j, c]
                top <<= L.maximum(top, L.row_max(s))
            o[i] <<= top

    peaks.plan(zeros((40, 64)), zeros((64, 64)))
