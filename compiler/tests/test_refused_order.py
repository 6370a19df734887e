"""Reads that would see stale or missing data are refused."""

from compiler.tests.refusals import prove, refused
from kohakuaccel.lang import dims, stage, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def test_temporary_read_before_written() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(2)) as r:
            y[r] <<= h[r]  # HERE
        with stage(x.rows(2)) as r:
            h[r] <<= x[r]

    with refused("`h` is read before anything is written to it", "h[r]", "earlier stage", notes=2):
        prove(bad)


def test_result_read_before_written() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        with stage(x.rows(2)) as r:
            y[r] <<= x[r] + y[r]  # HERE

    with refused("`y` is read before anything is written", "y[r]", "earlier stage"):
        prove(bad)


def test_temporary_written_in_part() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(2) - 1) as r:
            h[r] <<= x[r]
        with stage(x.rows(2)) as r:
            y[r] <<= h[r]  # HERE

    with refused(
        "row 4 of `h` may be read here, but nothing has written", "h[r]", "all of `h`", notes=1
    ):
        prove(bad, (5, 20))


def test_same_stage_read_after_write() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(2)) as r:
            h[r] <<= x[r] * 2
            y[r] <<= h[r] + 1  # HERE

    with refused(
        "`h[r]` reads what another statement of the same stage writes into `h`",
        "h[r]",
        "stage of its own",
        notes=1,
    ):
        prove(bad)


def test_the_two_stages_of_a_running_maximum() -> None:
    @kernel
    def good(x=L.In(M, N), block=L.In(M, N), y=L.Out(M, N)):
        top, corr = L.temp(M, N), L.temp(M, N)
        with stage(x.parts(32)) as e:
            top[e] <<= x[e]
        with stage(x.parts(32)) as e:
            corr[e] <<= top[e]
        with stage(x.parts(32)) as e:
            top[e] <<= L.maximum(top[e], block[e])
        with stage(x.parts(32)) as e:
            y[e] <<= top[e] - corr[e]

    prove(good, (5, 20), (5, 20))


def test_another_instance_reads_what_is_written() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(1)) as r:
            h[r] <<= x[r]
        with stage(x.rows(1) - 1) as r:
            h[r] <<= h[r + 1]  # HERE
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    with refused(
        "`h[r + 1]` reads a part of `h` that another instance", "h[r + 1]", "another buffer"
    ):
        prove(bad)


def test_loop_inside_a_stage_reads_its_own_writes() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(1)) as r:
            h[r] <<= x[r]
        with stage(x.rows(1)) as r:
            for _t in sweep(3):
                h[r] <<= h[r] * 2  # HERE
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    with refused(
        "what the loop over `_t` wrote in an earlier pass", "h[r]", "outside the grid", notes=1
    ):
        prove(bad)


def test_loop_of_stages() -> None:
    @kernel
    def good(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(1)) as r:
            h[r] <<= x[r]
        for _t in sweep(3):
            with stage(x.rows(1)) as r:
                h[r] <<= h[r] * 2
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    prove(good, (5, 20))
