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
        "row 4 of `h` would be read here, but nothing has been written there",
        "h[r]",
        "all that is read",
        notes=1,
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


def test_what_is_read_is_enough() -> None:
    @kernel
    def good(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        with stage(x.rows(2) - 1) as r:
            h[r] <<= x[r]
        with stage(x.rows(2)) as r:
            y[r] <<= x[r]
        z = L.temp(M, N)
        with stage(x.rows(2) - 1) as r:
            z[r] <<= h[r]

    prove(good, (5, 20))


def test_passes_of_a_loop_write_what_later_ones_read() -> None:
    @kernel
    def good(x=L.In(M, N), y=L.Out(M, N)):
        h, last = L.temp(M, N), L.temp(M, N)
        with stage(x.rows(1) * 0 + 1) as r:
            h[r] <<= x[r]
        for t in sweep(x.rows(1) - 1):
            with stage(x.rows(1) * 0 + 1) as r:
                last[r] <<= h[r + t]
            with stage(x.rows(1) * 0 + 1) as r:
                h[r + t + 1] <<= last[r] + x[r + t + 1]
        with stage(x.rows(1)) as r:
            y[r] <<= h[r]

    prove(good, (5, 20))


def test_a_pass_reads_ahead() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        for t in sweep(x.rows(1)):
            with stage(x.rows(1) * 0 + 1) as r:
                h[r + t] <<= x[r + t]
            with stage(x.rows(1) * 0 + 1) as r:
                y[r + t] <<= h[r + 2 * t]  # HERE

    # row 2t is past the end in later passes, so the buffer is read by half its rows
    with refused("`r + 2 * t` reaches 6 (t = 3, r = 0)", "h[r + 2 * t]", "0 to 4"):
        prove(bad, (5, 20))

    @kernel
    def ahead(x=L.In(M, N), y=L.Out(M, N)):
        h = L.temp(M, N)
        for t in sweep(x.rows(1)):
            with stage(x.rows(1) * 0 + 1) as r:
                h[r + t] <<= x[r + t]
            with stage(x.rows(1) * 0 + 1) as r:
                y[r + t] <<= h[r + 4 - t]  # HERE

    with refused("row 4 of `h` would be read here at t = 0", "h[r + 4 - t]", "all that is read"):
        prove(ahead, (5, 20))


def test_a_loop_that_does_not_run_writes_nothing() -> None:
    @kernel
    def maybe(x=L.In(M, N), y=L.Out(M, N), *, times=1):
        h = L.temp(M, N)
        for _t in sweep(times):
            with stage(x.rows(2)) as r:
                h[r] <<= x[r]
        with stage(x.rows(2)) as r:
            y[r] <<= h[r]  # HERE

    prove(maybe, (5, 20))
    with refused("rows 0 to 4 of `h` would be read here", "h[r]", "all that is read"):
        prove(maybe, (5, 20), times=0)
