"""The proofs of coverage against counting every element, on random kernels and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis import check, check_specialised, sites
from compiler.analysis.regions import count_hits, is_full, stored
from compiler.tests.refusals import prove
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Store
from kohakuaccel.lang import dims, grid, sweep
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel
from kohakutpu.lang.call import solve

M, K, N = dims("M, K, N")


def tiled(gm: int, gn: int, count: Any, row: Any, col: Any) -> Kernel:
    """Return a matmul whose store has the indices ``p*i + q*j + o`` of rows and of columns."""

    @kernel
    def traced(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(*count):
            acc = L.tile(gm, gn, 1)
            acc += a[row[0] * i + row[1] * j + row[2], 0] @ b[col[0] * i + col[1] * j + col[2], 0]
            c[row[0] * i + row[1] * j + row[2], col[0] * i + col[1] * j + col[2]] <<= acc

    return traced


PLACES = st.sampled_from(
    [(1, 0, 0)] * 6 + [(0, 1, 0)] * 6 + [(1, 1, 0), (1, 0, 1), (2, 0, 0), (0, 2, 0), (0, 0, 0)]
)
OFF = st.sampled_from([0, 0, 0, 0, 1, -1])


@settings(max_examples=250)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(OFF, OFF),
    st.tuples(PLACES, PLACES),
    st.tuples(st.integers(1, 24), st.integers(1, 24)),
    st.booleans(),
)
def test_tiles(sizes: Any, off: Any, places: Any, shape: Any, turned: bool) -> None:
    row, col = places
    needed = [-(-extent // (4 * size)) for extent, size in zip(shape, sizes, strict=True)]
    count = [max(n + o, 0) for n, o in zip(needed, off, strict=True)]
    if turned:
        count.reverse()
    trace = tiled(sizes[0], sizes[1], count, row, col).trace()
    env = solve(trace, [(shape[0], 32), (shape[1], 32)]).env
    hits = np.zeros(shape, int)
    bounds = True
    gm, gn = (4 * size for size in sizes)
    for i in range(count[0]):
        for j in range(count[1]):
            r, c = (p * i + q * j + o for p, q, o in (row, col))
            bounds &= r * gm < shape[0] and c * gn < shape[1]
            hits[r * gm : (r + 1) * gm, c * gn : (c + 1) * gn] += 1
    store = next(site for site in sites(trace) if isinstance(site.statement, Store))
    cells = count_hits([stored(store, env)], *shape)
    if not stored(store, env).instances.idle:
        spread = np.repeat(np.repeat(cells.hits, np.diff(cells.rows), 0), np.diff(cells.columns), 1)
        np.testing.assert_array_equal(spread, hits)
    once = bool((hits == 1).all())
    assert is_full(store, store.statement.view, env) <= (once and bounds)  # pyright: ignore
    assert accepted(trace, env) == (once and bounds)


@settings(max_examples=150)
@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 6).map(lambda n: 16 * n),
    OFF,
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([1, 1, 1, 2]),
)
def test_parts(rows: int, width: int, part: int, off: int, offset: int, step: int) -> None:
    count = max(-(-rows * (-(-width // 16) * 16) // part) + off, 0)

    @kernel
    def traced(x=L.In(M, N), y=L.Out(M, N)):
        parts = x.parts(part)
        for e in grid(parts * 0 + count):
            y[step * e + offset] <<= x[step * e + offset]

    trace = traced.trace()
    env = solve(trace, [(rows, width)]).env
    stride = -(-width // 16) * 16
    hits = np.zeros(rows * stride + 100 * part, int)
    starts = [(step * e + offset) * part for e in range(count)]
    for start in starts:
        hits[start : start + part] += 1
    inside = hits[: rows * stride].reshape(rows, stride)[:, :width]
    good = bool((inside == 1).all()) and all(start < rows * stride for start in starts)
    assert accepted(trace, env) == good
    store = next(site for site in sites(trace) if isinstance(site.statement, Store))
    region = stored(store, env)
    if not region.instances.idle:
        cells = count_hits([region], rows, width)
        spread = np.repeat(np.repeat(cells.hits, np.diff(cells.rows), 0), np.diff(cells.columns), 1)
        np.testing.assert_array_equal(spread, inside)


def pieces(chunks: int, cut: int, stride: bool, off: int, repeat: int) -> list[tuple[int, ...]]:
    """Return loops (start, count, step) that cover all chunks ``repeat`` times if ``off`` is 0."""
    half = -(-chunks // 2)
    cut = min(cut, chunks)
    both = (
        [(0, half, 2), (1, chunks - half, 2)] if stride else [(0, cut, 1), (cut, chunks - cut, 1)]
    )
    found = both * repeat
    start, count, step = found[-1]
    return [*found[:-1], (start, max(count + off, 0), step)]


@settings(max_examples=150)
@given(
    st.integers(1, 200),
    st.integers(1, 3),
    st.integers(0, 4),
    st.booleans(),
    OFF,
    st.integers(1, 2),
    st.integers(1, 2),
)
def test_sweeps(
    k: int, nk: int, cut: int, stride: bool, off: int, repeat: int, sweeps: int
) -> None:
    loops = pieces(-(-k // (32 * nk)), cut, stride, off, repeat)

    @kernel
    def traced(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(1), b.tiles(1)):
            acc = L.tile(1, 1, nk, sweeps=sweeps)
            for start, count, step in loops:
                for q in sweep(count):
                    acc += a[i, start + step * q] @ b[j, start + step * q]
            c[i, j] <<= acc

    trace = traced.trace()
    env = solve(trace, [(5, k), (5, k)]).env
    chunks = -(-k // (32 * nk))
    hits = np.zeros(chunks, int)
    bounds = True
    for start, count, step in loops:
        for q in range(count):
            place = start + step * q
            if place < chunks:
                hits[place] += 1
            else:
                bounds = False
    assert accepted(trace, env) == (bounds and bool((hits == sweeps).all()))


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 9))
def test_ragged_shapes_are_everyones_normal_case(rows: int, n: int, width: int) -> None:
    @kernel
    def by_rows(x=L.In(M, N), y=L.Out(M, N), s=L.Out(M)):
        for r in grid(x.rows(n)):
            y[r] <<= x[r] - L.row_max(x[r])
            s[r] <<= L.row_sum(x[r])

    prove(by_rows, (rows, width))


def test_a_triangle_of_instances_is_counted() -> None:
    @kernel
    def traced(x=L.In(6, N), y=L.Out(6, N)):
        for i in grid(x.rows(1) * 0 + 3):
            for j in sweep(i + 1):
                y[i * 2 + j - 1 + 1] <<= x[i * 2 + j - 1 + 1]

    trace = traced.trace()
    check(trace)
    # rows 0 / 2, 3 / 4, 5, 6: row 6 is past the end
    assert not accepted(trace, {**solve(trace, [(6, 4)]).env})


def accepted(trace: Any, env: Any) -> bool:
    try:
        check(trace)
        check_specialised(trace, env)
    except KernelError:
        return False
    return True
