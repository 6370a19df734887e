# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Contractions: each tile takes in all of K, once, from operands that belong together."""

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.api import zeros
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def partial_sweep() -> None:
    """A sweep over part of K"""

    @kernel
    def partial(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2) - 1):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    partial.plan(zeros((16, 100)), zeros((8, 100)))


def sweep_beyond() -> None:
    """A sweep past the end of K"""

    @kernel
    def beyond(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2) + 1):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    beyond.plan(zeros((16, 100)), zeros((8, 100)))


def single_chunk() -> None:
    """One chunk where K has two"""

    @kernel
    def single(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]
            c[i, j] <<= acc

    single.plan(zeros((16, 65)), zeros((8, 65)))


def uneven_sweep() -> None:
    """A sweep that some instances cut short"""

    @kernel
    def uneven(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 1)
            for k in sweep(i + 1):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    uneven.plan(zeros((16, 64)), zeros((8, 64)))


def foreign_chunks() -> None:
    """The chunks of another buffer"""

    @kernel
    def foreign(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(c.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    foreign.plan(zeros((16, 64)), zeros((8, 64)))


def other_chunks() -> None:
    """Chunks of another size"""

    @kernel
    def other(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(4)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    other.plan(zeros((16, 100)), zeros((8, 100)))


def two_sweeps() -> None:
    """Two sweeps into one tile"""

    @kernel
    def doubled(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    doubled.plan(zeros((16, 100)), zeros((8, 100)))


def promised_sweeps() -> None:
    """More sweeps promised than made"""

    @kernel
    def promised(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2, sweeps=2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    promised.plan(zeros((16, 100)), zeros((8, 100)))


def chunk_twice() -> None:
    """One chunk twice"""

    @kernel
    def twice(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            acc += a[i, 0] @ b[j, 0]
            c[i, j] <<= acc

    twice.plan(zeros((16, 100)), zeros((8, 100)))


def late_loop() -> None:
    """A loop opened after the tile"""

    @kernel
    def late(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for _ in sweep(3):
                for k in sweep(a.chunks32(2)):
                    acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    late.plan(zeros((16, 100)), zeros((8, 100)))


def moving_rows() -> None:
    """Rows that move inside a sweep"""

    @kernel
    def moving(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for j in grid(b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for i in sweep(a.tiles(2)):
                acc += a[i, 0] @ b[j, 0]
            c[0, j] <<= acc

    moving.plan(zeros((16, 64)), zeros((8, 64)))


def different_chunks() -> None:
    """Different chunks on both sides"""

    @kernel
    def crossed(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, 0]
            c[i, j] <<= acc

    crossed.plan(zeros((16, 100)), zeros((8, 100)))


def foreign_k() -> None:
    """Operands that do not share K"""

    @kernel
    def apart(a=L.In(M, K), b=L.In(N, N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    apart.plan(zeros((16, 64)), zeros((32, 32)))


def unequal_k() -> None:
    """Operands whose K differs in number"""

    @kernel
    def unequal(a=L.In(M, 2 * K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    unequal.plan(zeros((16, 96)), zeros((8, 48)))


def no_split() -> None:
    """A contraction of whole buffers"""

    @kernel
    def unsplit(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= a @ b

    unsplit.trace()


def no_tile() -> None:
    """A contraction stored without a tile"""

    @kernel
    def stored(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= a[i, 0] @ b[j, 0]

    stored.trace()


def flat_operand() -> None:
    """An operand of one axis"""

    @kernel
    def flat(a=L.In(K), b=L.In(N, K), c=L.Out(N, N)):
        for i, j in grid(b.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]
            c[i, j] <<= acc

    flat.trace()


def wide_operand() -> None:
    """An operand in FP32"""

    @kernel
    def wide(a=L.In(M, K, dtype="fp32"), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]
            c[i, j] <<= acc

    wide.trace()


def turned_value() -> None:
    """A value with K along its rows"""

    @kernel
    def turned(p=L.In(M, K), v=L.In(K, N), o=L.Out(M, N)):
        for i in grid(p.rows(8)):
            acc = L.tile()
            for k in sweep(v.rows(32)):
                acc += p[i, k] @ (v[k] * 2)
            o[i] <<= acc

    turned.plan(zeros((16, 100)), zeros((100, 24)))


def number_on_the_right() -> None:
    """A number as an operand of a contraction"""

    @kernel
    def doubled(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ 2
            c[i, j] <<= acc

    doubled.trace()


def state_of_other_rows() -> None:
    """A state beside a value of other rows"""

    @kernel
    def scaled(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i in grid(a.rows(8)):
            factor = L.state(2.0)
            for j in sweep(b.rows(32)):
                acc = L.tile()
                for k in sweep(a.chunks32(1)):
                    acc += a[i, k] @ (b[j, k] * factor)
                c[i, j] <<= acc

    scaled.plan(zeros((16, 100)), zeros((64, 100)))


def value_of_nothing() -> None:
    """A value without columns"""

    @kernel
    def hidden(x=L.In(M, K), up=L.In(N, K), down=L.In(4, N), y=L.Out(M, 4)):
        for i in grid(x.rows(8)):
            acc = L.tile()
            for n in sweep(up.rows(32)):
                h = L.tile()
                for k in sweep(x.chunks32(1)):
                    h += x[i, k] @ up[n, k]
                acc += L.relu(h) @ down[0, n]
            y[i] <<= acc

    hidden.plan(zeros((16, 100)), zeros((0, 100)), zeros((4, 0)))
