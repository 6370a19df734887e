"""Dimensions from the shapes of a call, and what is said when they do not fit."""

from typing import Any

import pytest

from kohakuaccel.errors import CallError
from kohakuaccel.lang import ceildiv, dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel
from kohakutpu.lang.call import solve
from kohakutpu.lang.layout import ANY_ROWS, ANY_WIDTH

M, K, N = dims("M, K, N")


def taking(*declared: Any, out: Any) -> Kernel:
    """Return a kernel with these arguments, called a, b, c, and the result y."""
    a, b, c = (*declared, None, None)[:3]
    if b is None:

        def one(a=a, y=out): ...

        return kernel(one)
    if c is None:

        def two(a=a, b=b, y=out): ...

        return kernel(two)

    def three(a=a, b=b, c=c, y=out): ...

    return kernel(three)


def test_plain_dimensions() -> None:
    extents = solve(taking(L.In(M, K), L.In(N, K), out=L.Out(M, N)).trace(), [(3, 5), (7, 5)])
    assert extents.env == {M: 3, K: 5, N: 7}
    assert extents.batch == ()


def test_arithmetic_is_solved_in_any_order() -> None:
    trace = taking(L.In(M + N, 2 * K), L.In(N), L.In(3 * K - 1), out=L.Out(M)).trace()
    assert solve(trace, [(10, 8), (4,), (11,)]).env == {M: 6, N: 4, K: 4}


def test_derived_extents_are_checked() -> None:
    trace = taking(L.In(M), L.In(ceildiv(M, 4)), L.In(M // 2, M % 3), out=L.Out(M)).trace()
    assert solve(trace, [(10,), (3,), (5, 1)]).env == {M: 10}
    with pytest.raises(CallError, match=r"`b` axis 0 is 2, but ceildiv\(M, 4\) = 3"):
        solve(trace, [(10,), (2,), (5, 1)])


def test_zero_is_an_extent() -> None:
    assert solve(taking(L.In(M, K), out=L.Out(M)).trace(), [(0, 5)]).env == {M: 0, K: 5}


def refused(trace: Any, shapes: Any) -> CallError:
    with pytest.raises(CallError) as caught:
        solve(trace, shapes)
    assert caught.value.loc is not None
    assert caught.value.loc.source == "solve(trace, shapes)"
    return caught.value


def test_two_arguments_disagree() -> None:
    trace = taking(L.In(M, K), L.In(N, K), out=L.Out(M, N)).trace()
    said = refused(trace, [(3, 64), (7, 48)])
    assert said.message == "K = 64 from `a` axis 1 but 48 from `b` axis 1"
    assert said.fix == "pass `b` with 64 elements along axis 1"
    assert [text for _, text in said.notes] == ["`a` is declared here", "`b` is declared here"]
    assert [loc.source for loc, _ in said.notes if loc] == ["L.In(M, K)", "L.In(N, K)"]


def test_batch_shifts_the_axis_named() -> None:
    trace = taking(L.In(..., M, K), L.In(N, K), out=L.Out(..., M, N)).trace()
    said = refused(trace, [(2, 9, 3, 64), (7, 48)])
    assert said.message == "K = 64 from `a` axis 3 but 48 from `b` axis 1"


@pytest.mark.parametrize(
    ("declared", "shape", "text"),
    [
        (L.In(M, K), (3,), "`a` has 2 axes, [M, K], but the argument has 1: shape (3,)"),
        (L.In(M, K), (3, 4, 5), "`a` has 2 axes, [M, K], but the argument has 3"),
        (L.In(M), (), "`a` has 1 axis, [M], but the argument has 0: shape ()"),
        (L.In(), (1,), "`a` has 0 axes, [], but the argument has 1"),
        (L.In(3, M), (4, 4), "`a` axis 0 is 4, but 3 = 3"),
        (L.In(2 * M), (5,), "`a` axis 0 is 5, which is 2 * M for no M"),
        (L.In(M + 4), (3,), "`a` axis 0 is 3, which is M + 4 for no M"),
        (L.In(M + N), (3,), "M, N cannot be solved from `a` axis 0, which is M + N = 3"),
        (L.In(M // 2), (3,), "M cannot be solved from `a` axis 0"),
    ],
)
def test_arguments_that_do_not_fit(declared: Any, shape: Any, text: str) -> None:
    said = refused(taking(declared, out=L.Out(4)).trace(), [shape])
    assert said.message.startswith(text)


def test_too_few_axes_for_a_batch() -> None:
    said = refused(taking(L.In(..., M, K), out=L.Out(..., M)).trace(), [(3,)])
    assert said.message.startswith("`a` has 2 or more axes, [..., M, K], but the argument has 1")


def test_a_result_of_nobodys_extent() -> None:
    said = refused(taking(L.In(M), out=L.Out(M, N)).trace(), [(3,)])
    assert said.message == "N is an extent of `y`, but no argument settles it"


def test_batches_broadcast() -> None:
    trace = taking(L.In(..., M, K), L.In(..., N, K), L.In(N), out=L.Out(..., M, N)).trace()
    extents = solve(trace, [(2, 1, 3, 5), (4, 7, 5), (7,)])
    assert extents.batch == (2, 4)
    assert extents.shape(trace.buffers[-1]) == (2, 4, 3, 7)
    said = refused(trace, [(2, 3, 3, 5), (4, 7, 5), (7,)])
    assert said.message == "batch axis -1 is 3 in `a` but 4 in `b`"


def test_temporaries_are_one_a_batch_element() -> None:
    @kernel
    def with_temp(x=L.In(..., M, N), y=L.Out(..., M, N)):
        L.temp(N, 2)
        L.table([1.0, 2.0])
        for r in grid(x.rows(2)):
            y[r] <<= x[r]

    trace = with_temp.trace()
    extents = solve(trace, [(6, 3, 5)])
    assert [extents.shape(b) for b in trace.buffers[1:]] == [(6, 3, 5), (6, 5, 2), (2,)]


@pytest.mark.parametrize(
    ("shape", "rows", "width"), [((), 1, 1), ((7,), 1, 7), ((2, 3, 5), 6, 5), ((0, 4), 0, 4)]
)
def test_any_rank(shape: tuple[int, ...], rows: int, width: int) -> None:
    trace = taking(L.In(...), L.In(...), out=L.Out(...)).trace()
    extents = solve(trace, [shape, shape])
    assert (extents.env[ANY_ROWS], extents.env[ANY_WIDTH]) == (rows, width)
    assert extents.shape(trace.buffers[-1]) == shape


def test_any_rank_tensors_share_a_shape() -> None:
    trace = taking(L.In(...), L.In(...), out=L.Out(...)).trace()
    said = refused(trace, [(2, 3), (3, 2)])
    assert said.message.startswith("`a` has shape (2, 3) but `b` has shape (3, 2)")
