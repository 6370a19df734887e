"""Things used outside the kernel, grid or loop that they belong to are refused."""

from typing import Any

import pytest

from compiler.tests.refusals import refused
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Grid, Repeat, Store
from kohakuaccel.lang import dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def test_outside_a_kernel() -> None:
    for use in (lambda: list(grid(3)), lambda: L.tile(1, 1, 1), lambda: L.temp(M, N)):
        with pytest.raises(KernelError, match="means something only inside a kernel") as caught:
            use()
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__
        assert "decorated with @kernel" in caught.value.fix


def test_outside_a_grid() -> None:
    @kernel
    def store(x=L.In(M, N), s=L.In(), y=L.Out(M, N)):
        y[0] <<= s  # HERE

    @kernel  # pyright: ignore[reportArgumentType]
    def load(x=L.In(M, N), s=L.In(), y=L.Out(M, N)):
        return s * 2  # HERE

    @kernel
    def tile(x=L.In(M, N), y=L.Out(M, N)):
        L.tile(1, 1, 1)  # HERE

    with refused("`y` is written outside any grid", "y[0] <<= s", "grid"):
        store.trace()
    with refused("`s` is read outside any grid", "s * 2", "grid"):
        load.trace()
    with refused("outside any grid belongs to no instance", "L.tile(1, 1, 1)", "inside"):
        tile.trace()


def test_a_grid_inside_a_grid_goes_through_what_an_instance_holds() -> None:
    @kernel
    def nested(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            with stage(x.chunks32(1), 3) as (_c, _t):
                y[r] <<= x[r]

    (outer,) = nested.trace().body
    assert isinstance(outer, Grid)
    (first,) = outer.body
    assert isinstance(first, Repeat)
    (second,) = first.body
    assert isinstance(second, Repeat)
    assert isinstance(second.body[0], Store)


def test_index_outside_its_grid() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]
        for _q in grid(x.rows(2)):
            y[r] <<= x[r]  # HERE

    @kernel
    def loop(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            last = x[r]
            for t in sweep(2):
                last = x[t] * 2
            y[r] <<= last  # HERE

    @kernel
    def count(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]
        for _t in sweep(r):  # HERE
            pass

    with refused("uses index `r` outside its grid or loop", "y[r]", "move it", notes=1):
        bad.trace()
    with refused("by `x[t]`, uses index `t` outside", "y[r] <<= last", "move it", notes=1):
        loop.trace()
    with refused("the count of sweep uses index `r`", "sweep(r)", "move it", notes=1):
        count.trace()


def test_value_of_another_grid() -> None:
    @kernel
    def bad(x=L.In(M, N), s=L.In(), y=L.Out(M, N), z=L.Out(M, N)):
        for r in grid(x.rows(2)):
            v = s * 2
            y[r] <<= x[r]
        for r in grid(x.rows(2)):
            z[r] <<= v  # HERE

    with refused("this value was computed in another grid", "z[r] <<= v", "L.temp", notes=1):
        bad.trace()


def test_tile_of_another_grid() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= acc  # HERE

    with refused("tile `acc` is used outside the grid that made it", "c[i, j] <<= acc", "L.temp"):
        bad.trace()


def test_break_out_of_a_loop() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]
            for _t in sweep(3):  # HERE
                break

    with refused("`break` or `return` leaves this loop", "sweep(3)", "bound the loop"):
        bad.trace()


def test_nothing_to_run_over() -> None:
    @kernel
    def empty(x=L.In(M, N), y=L.Out(M, N)):
        for _r in grid():  # HERE
            pass

    @kernel
    def real(x=L.In(M, N), y=L.Out(M, N)):
        for _r in grid(2.5):  # HERE  # pyright: ignore
            pass

    @kernel
    def negative(x=L.In(M, N), y=L.Out(M, N)):
        for _t in sweep(-1):  # HERE
            pass

    with refused("grid without arguments", "grid()", "x.tiles(gm)"):
        empty.trace()
    with refused("2.5 is no count", "grid(2.5)", "whole number"):
        real.trace()
    with refused("sweep cannot run -1 times", "sweep(-1)", "0 or more"):
        negative.trace()


def test_buffers_and_indices_of_nobody() -> None:
    foreign = L.In(M, N)
    leaked: list[Any] = []

    @kernel
    def one(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            leaked.append(r)
            y[r] <<= x[r]

    @kernel
    def buffers(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= foreign[r]  # HERE

    @kernel
    def indices(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[leaked[0]]  # HERE

    one.trace()
    with refused("this in buffer is none of kernel `buffers`", "foreign[r]", "a parameter"):
        buffers.trace()
    with refused("uses index `r` outside", "x[leaked[0]]", "move it"):
        indices.trace()
