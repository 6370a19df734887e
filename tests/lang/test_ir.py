"""Listings of traces, and the verifier that catches a pass's mistakes."""

from collections.abc import Callable

import pytest

from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import Const, Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Store, Trace, Value, View
from kohakuaccel.ir.verifier import verify
from kohakuaccel.lang import dims, grid, sweep
from kohakuaccel.source import Location
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, N = dims("M, N")


@kernel
def listing(x=L.In(..., M, N), s=L.In(dtype="fp32"), y=L.Out(..., M, N), *, n=None):
    h = L.temp(M, N, dtype="fp32")
    for r in grid(x.rows(n)):
        p = (x[r] + 1) * (2 - s)
        h[r] <<= L.where(x[r] < s, p, p - (x[r] - 1e-3))
    for _ in sweep(3):
        for r in grid(h.rows(4)):
            h[r] <<= h[r] * (1 / N) * (h[r] * 2 == 1)
    for r in grid(y.rows(n)):
        y[r] <<= -L.row_max(h[r])


def test_listing() -> None:
    assert listing.trace().pretty() == (
        "kernel listing\n"
        "  in    x  [..., M, N] fp16\n"
        "  in    s  [] fp32\n"
        "  out   y  [..., M, N] fp16\n"
        "  temp  h  [..., M, N] fp32\n"
        "  auto  n\n"
        "  grid r < ceildiv(M, n)    # x.rows(n)\n"
        "    %1 = (x[r] + 1) * (2 - s)\n"
        "    h[r] <<= select(%1, %1 - (x[r] - 0.001), x[r] < s)\n"
        "  sweep _ < 3\n"
        "    grid r < ceildiv(M, 4)    # h.rows(4)\n"
        "      h[r] <<= h[r] * (1 / N) * (h[r] * 2 == 1)\n"
        "  grid r < ceildiv(M, n)    # y.rows(n)\n"
        "    y[r] <<= neg(row_max(h[r]))"
    )


def test_a_good_trace_is_verified() -> None:
    verify(listing.trace())


def parts() -> tuple[Trace, Grid, Store]:
    trace = listing.trace()
    first = trace.body[0]
    assert isinstance(first, Grid)
    store = first.body[0]
    assert isinstance(store, Store)
    return trace, first, store


LOC = Location("x", 1)


def nested(trace: Trace, first: Grid, store: Store) -> None:
    first.body.append(Grid(LOC, (), False))


def outside(trace: Trace, first: Grid, store: Store) -> None:
    trace.body.append(store)


def argument(trace: Trace, first: Grid, store: Store) -> None:
    store.view.buffer = trace.buffers[0]


def stranger(trace: Trace, first: Grid, store: Store) -> None:
    store.view.buffer = Buffer("z", "temp", (), "fp16", LOC)


def scope(trace: Trace, first: Grid, store: Store) -> None:
    store.view.index = (Symbol("q", "index"),)


def later(trace: Trace, first: Grid, store: Store) -> None:
    index = Index(Symbol("q", "index"), Const(2), None, LOC)
    trace.body.append(Repeat(LOC, index))
    store.view.index = (index.symbol,)


def count(trace: Trace, first: Grid, store: Store) -> None:
    first.indices[0].count = Const(3)


def arity(trace: Trace, first: Grid, store: Store) -> None:
    store.value = Value("add", (store.value,), "full", LOC)


def operation(trace: Trace, first: Grid, store: Store) -> None:
    store.value = Value("tan", (store.value,), "full", LOC)


def extent(trace: Trace, first: Grid, store: Store) -> None:
    store.value.extent = "column"


def viewless(trace: Trace, first: Grid, store: Store) -> None:
    store.value = Value("load", (), "full", LOC)


def numberless(trace: Trace, first: Grid, store: Store) -> None:
    store.value = Value("const", (), "scalar", LOC)


def tilings(trace: Trace, first: Grid, store: Store) -> None:
    store.view.tilings = ()


def twins(trace: Trace, first: Grid, store: Store) -> None:
    trace.buffers[1].name = "x"


def inner(trace: Trace, first: Grid, store: Store) -> None:
    bad = View(trace.buffers[0], "rows", (Symbol("q", "index"),), (None,), LOC)
    store.value = Value("neg", (Value("load", (), "full", LOC, view=bad),), "full", LOC)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (nested, "a grid inside a grid"),
        (outside, "outside any grid"),
        (argument, "not writable"),
        (stranger, "unknown buffer"),
        (scope, "q is not in scope"),
        (later, "q is not in scope"),
        (count, "not its tiling's"),
        (arity, "wrong arity"),
        (operation, "wrong arity"),
        (extent, "unknown extent"),
        (viewless, "a load has a view"),
        (numberless, "a const has a number"),
        (tilings, "one tiling an index"),
        (twins, "names repeat"),
        (inner, "q is not in scope"),
    ],
)
def test_damage_is_found(damage: Callable[[Trace, Grid, Store], None], text: str) -> None:
    trace, first, store = parts()
    damage(trace, first, store)
    with pytest.raises(InternalError, match=text):
        verify(trace)
