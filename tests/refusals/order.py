# pyright: reportArgumentType=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false
"""Order: nothing is read that is not there yet."""

from kohakuaccel.lang import dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.api import zeros
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def stale() -> None:
    """A statement that reads what its own stage writes"""

    @kernel
    def stale(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(4)) as r:
            h[r] <<= x[r] * 2
            y[r] <<= h[r] + 1

    stale.plan(zeros((10, 20)))


def unwritten() -> None:
    """A temporary that nobody has written"""

    @kernel
    def unwritten(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(4)) as r:
            y[r] <<= h[r]
        with stage(x.rows(4)) as r:
            h[r] <<= x[r]

    unwritten.plan(zeros((10, 20)))


def partly_written() -> None:
    """A temporary written in part"""

    @kernel
    def partly(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(2) - 1) as r:
            h[r] <<= x[r]
        with stage(x.rows(2)) as r:
            y[r] <<= h[r]

    partly.plan(zeros((5, 20)))


def result_read() -> None:
    """A result read before it is written"""

    @kernel
    def result(x=L.In(M, N), y=L.Out(M, N)):
        with stage(x.rows(2)) as r:
            y[r] <<= x[r] + y[r]

    result.plan(zeros((5, 20)))


def neighbour() -> None:
    """What another instance of the stage writes"""

    @kernel
    def neighbours(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(1)) as r:
            h[r] <<= x[r]
        with stage(x.rows(1) - 1) as r:
            h[r] <<= h[r + 1]
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    neighbours.plan(zeros((5, 20)))


def earlier_pass() -> None:
    """What an earlier pass of a loop wrote"""

    @kernel
    def passes(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(1)) as r:
            h[r] <<= x[r]
        with stage(x.rows(1)) as r:
            for _t in sweep(3):
                h[r] <<= h[r] * 2
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    passes.plan(zeros((5, 20)))


def other_grid() -> None:
    """A value used outside its grid"""

    @kernel
    def outlived(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(1)):
            double = x[r] * 2
        for r in grid(x.rows(1)):
            y[r] <<= double

    outlived.trace()
