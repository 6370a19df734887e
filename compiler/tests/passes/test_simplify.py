from __future__ import annotations

from typing import Any

from compiler.passes.simplify import merge_syncs, simplify
from compiler.program import Advance, Emit, Loop, Ring
from kohakutpu import isa

Pairs = tuple[tuple[int, int], ...]


def gemm(waits: Pairs = (), posts: Pairs = ()) -> Emit:
    return Emit(isa.GEMM, {"gm": 1}, waits, posts)


def fill(waits: Pairs = (), posts: Pairs = ()) -> Emit:
    return Emit(isa.FILL, {"g": 1}, waits, posts)


def sync(engine: int, waits: Pairs = (), posts: Pairs = ()) -> Emit:
    return Emit(isa.SYNC, {"engine": engine}, waits, posts)


def shape(body: list[Any]) -> list[Any]:
    return [
        (i.name, i.count, shape(i.body)) if isinstance(i, Loop)
        else "advance" if isinstance(i, Advance)
        else (i.record.name, i.waits, i.posts)
        for i in body
    ]  # fmt: skip


def test_loops_that_run_once_or_never_go() -> None:
    ring = Ring("r", 0, 1, 3)
    body = [
        Loop("never", 0, [gemm()]),
        Loop("once", 1, [Loop("twice", 2, [gemm(), Loop("never", 0, [fill()])])]),
        Loop("empty", 9, [Loop("never", 0, [fill()])]),
        Loop("moves", 4, [Advance(ring)]),
    ]
    assert shape(simplify(body)) == [("twice", 2, [("GEMM", (), ())]), *["advance"] * 4]


def test_a_sync_joins_its_neighbours_in_the_queue() -> None:
    body = [
        sync(1, waits=((4, 1),)),
        fill(waits=((0, 1),)),
        gemm(waits=((1, 1),), posts=((0, 0),)),
        sync(1, posts=((0, 5),)),
    ]
    assert shape(merge_syncs(body)) == [
        ("FILL", ((0, 1),), ()),
        ("GEMM", ((4, 1), (1, 1)), ((0, 0), (0, 5))),
    ]


def test_waits_for_one_semaphore_add_up_as_far_as_they_fit() -> None:
    joined = merge_syncs([sync(0, waits=((4, 2),)), fill(waits=((4, 1),))])
    assert shape(joined) == [("FILL", ((4, 3),), ())]
    apart = [sync(0, waits=((4, 15),)), fill(waits=((4, 1),))]
    assert shape(merge_syncs(apart)) == shape(apart)


def test_what_must_stay_apart_stays() -> None:
    three: list[Any] = [sync(1, waits=((1, 1),)), gemm(waits=((2, 1), (3, 1)))]
    # Its post must not wait for what the instruction waits for.
    posts_early: list[Any] = [sync(1, waits=((1, 1),), posts=((0, 9),)), gemm(waits=((2, 1),))]
    # The posts of a full instruction, then another engine's wait.
    other_engine: list[Any] = [sync(0, waits=((1, 1),)), gemm()]
    barrier: list[Any] = [sync(1, waits=((1, 1),)), Emit(isa.BARRIER, {}), gemm()]
    around_a_loop: list[Any] = [gemm(), Loop("k", 3, [gemm()]), sync(1, posts=((0, 1),))]
    for body in (three, posts_early, other_engine, barrier, around_a_loop):
        expected = shape(body)
        assert shape(merge_syncs(body)) == expected
