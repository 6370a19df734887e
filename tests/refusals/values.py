# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Values and Python: what is traced has no number yet."""

import math

import numpy as np

from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.api import zeros
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def branch() -> None:
    """A branch on a value"""

    @kernel
    def branches(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] if x[r] > 0 else 0

    branches.trace()


def converted() -> None:
    """A value as a Python number"""

    @kernel
    def converts(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= math.sqrt(x[r])

    converts.trace()


def iterated() -> None:
    """A value as a sequence"""

    @kernel
    def iterates(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            first, *_rest = x[r] * 2
            y[r] <<= first

    iterates.trace()


def numpy_function() -> None:
    """A numpy function of a value"""

    @kernel
    def numpys(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= np.exp(x[r])

    numpys.trace()


def array_operand() -> None:
    """An array as an operand"""

    @kernel
    def arrays(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] * np.ones(3)

    arrays.trace()


def text_operand() -> None:
    """A text as an operand"""

    @kernel
    def texts(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] + "1"

    texts.trace()


def missing_operator() -> None:
    """An operator there is not"""

    @kernel
    def floors(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] // 2

    floors.trace()


def odd_power() -> None:
    """A power that is no product"""

    @kernel
    def powers(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] ** 3.5

    powers.trace()


def large_number() -> None:
    """A number beyond FP32"""

    @kernel
    def large(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] * 10**400

    large.trace()


def index_as_number() -> None:
    """An index to compute with"""

    @kernel
    def indices(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] * r

    indices.trace()


def knob_as_number() -> None:
    """An open knob to compute with"""

    @kernel
    def scaled(x=L.In(M, N), y=L.Out(M, N), *, scale=None):
        for r in grid(x.rows(1)):
            y[r] <<= x[r] * scale

    scaled.plan(zeros((8, 8)))


def knob_as_count() -> None:
    """An open knob as a count"""

    @kernel
    def repeated(x=L.In(M, N), y=L.Out(M, N), *, times=None):
        for r in grid(x.rows(1)):
            acc = L.temp(M, N)
            for _ in sweep(times):
                acc[r] <<= x[r]
            y[r] <<= x[r]

    repeated.plan(zeros((8, 8)))


def dimension_in_range() -> None:
    """A dimension where Python wants a number"""

    @kernel
    def ranged(x=L.In(M, N), y=L.Out(M, N)):
        for r in range(M):
            y[r] <<= x[r]

    ranged.trace()


def compared_dimension() -> None:
    """A branch on a dimension"""

    @kernel
    def compared(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1) if M > 1 else 1):
            y[r] <<= x[r]

    compared.trace()


def whole_buffer() -> None:
    """Arithmetic on a whole buffer"""

    @kernel
    def buffers(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x + 1

    buffers.trace()


def one_row_in_parts() -> None:
    """A shared row among parts"""

    @kernel
    def rows(x=L.In(M, N), w=L.In(N), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] * w

    rows.trace()


def reduced_twice() -> None:
    """A row function of one scalar a row"""

    @kernel
    def twice(x=L.In(M, N), y=L.Out(M)):
        for r in grid(x.rows(1)):
            y[r] <<= L.row_max(L.row_sum(x[r]))

    twice.trace()


def shared_row_reduced() -> None:
    """A row function of a shared row"""

    @kernel
    def shared(x=L.In(M, N), w=L.In(N), y=L.Out(M)):
        for r in grid(x.rows(1)):
            y[r] <<= L.row_sum(w)

    shared.trace()


def table_of_text() -> None:
    """A table of text"""

    @kernel
    def tabled(x=L.In(M, N), y=L.Out(M, N)):
        names = L.table(np.array(["a"]))
        for r in grid(x.rows(1)):
            y[r] <<= x[r] * names

    tabled.trace()


def outside_a_kernel() -> None:
    """A grid outside any kernel"""
    for _ in grid(4):
        pass


def nested_kernel() -> None:
    """A kernel inside a kernel"""

    @kernel
    def inner(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]

    @kernel
    def outer(x=L.In(M, N), y=L.Out(M, N)):
        inner(x)

    outer.trace()


def broken_loop() -> None:
    """A break out of a traced loop"""

    @kernel
    def broken(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]
            break

    broken.trace()


def printed_number() -> None:
    """A print of what is known before"""

    @kernel
    def prints(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            L.print(1 / N)
            y[r] <<= x[r]

    prints.trace()


def printed_nowhere() -> None:
    """A print outside any grid"""

    @kernel
    def prints(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            y[r] <<= x[r]
        L.print(x)

    prints.trace()


def printed_in_a_loop() -> None:
    """A print that every pass would repeat"""

    @kernel
    def prints(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            total = L.state(0.0)
            for _ in sweep(3):
                total <<= total + L.row_sum(x[r])
                L.print(total)
            y[r] <<= x[r] * total

    prints.trace()


def printed_without_a_tile() -> None:
    """A print beside a tile"""

    @kernel
    def prints(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(2)):
            acc = L.tile(2, 2, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            L.print(bias[j])
            c[i, j] <<= acc + bias[j]

    prints.trace()


def divided_by_zero() -> None:
    """A count divided by 0"""

    @kernel
    def divides(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1) // 0):
            y[r] <<= x[r]

    divides.trace()


def divided_by_an_extent() -> None:
    """A count divided by an extent of 0"""

    @kernel
    def divides(x=L.In(M, K), z=L.In(N, K), y=L.Out(M, K)):
        for r in grid(x.rows(1) // N):
            y[r] <<= x[r]

    divides.plan(zeros((8, 4)), zeros((0, 4)))


def real_quotient() -> None:
    """The whole quotient of a real number"""

    @kernel
    def halves(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1) / 2 // 2):
            y[r] <<= x[r]

    halves.trace()
