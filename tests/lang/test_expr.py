"""Expressions and scalars evaluate as Python does, print readably, and compare by structure."""

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.ir.expr import (
    AffineForm,
    Binary,
    Const,
    Expr,
    Symbol,
    affine,
    as_expr,
    binary,
    ceildiv,
    is_integer,
)
from kohakuaccel.ir.scalar import Scalar, as_number, combine, evaluate, is_number
from kohakuaccel.lang import dims

M, N = dims("M, N")
i, j = Symbol("i", "index"), Symbol("j", "index")


PYTHON = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "ceil/": lambda a, b: math.ceil(Fraction(a, b)),
}
TREES = st.recursive(
    st.one_of(st.integers(-20, 20).map(as_expr), st.sampled_from([M, N])),
    lambda inner: st.tuples(st.sampled_from(sorted(PYTHON)), inner, inner),
    max_leaves=8,
)


def built(tree: Any) -> Expr:
    return tree if isinstance(tree, Expr) else binary(tree[0], built(tree[1]), built(tree[2]))


def python(tree: Any, env: dict[Symbol, int]) -> int:
    if isinstance(tree, Expr):
        return tree.evaluate(env)
    return PYTHON[tree[0]](python(tree[1], env), python(tree[2], env))


@given(TREES, st.integers(-9, 9), st.integers(-9, 9))
def test_evaluation_is_pythons(tree: Any, m: int, n: int) -> None:
    env = {M: m, N: n}
    try:
        expected = python(tree, env)
    except ZeroDivisionError:
        return
    try:
        expr = built(tree)
    except ZeroDivisionError:
        return
    assert expr.evaluate(env) == expected
    text = str(expr)
    assert eval(text, {"M": m, "N": n, "ceildiv": lambda a, b: -(-a // b)}) == expected


def test_arithmetic_folds_what_it_can() -> None:
    assert M + 0 is M
    assert 0 + M is M
    assert M * 1 is M
    assert 1 * M is M
    assert M // 1 is M
    assert ceildiv(M, 1) is M
    assert as_expr(6) // 4 == Const(1)
    assert ceildiv(7, 2) == Const(4)
    assert -as_expr(3) == Const(-3)
    assert np.int64(2) * M == Binary("*", Const(2), M)
    assert M % 3 == M % 3
    assert M % 3 != M % 4
    assert {M + 1: "a"}[M + 1] == "a"
    assert Symbol("M") != M


def test_printing() -> None:
    assert str((M + 1) * (N - 2)) == "(M + 1) * (N - 2)"
    assert str(M - (N - 1)) == "M - (N - 1)"
    assert str(M + N * 2) == "M + N * 2"
    assert str(M // (N * 2)) == "M // (N * 2)"
    assert str(ceildiv(M + 1, N * 4) * 2) == "ceildiv(M + 1, N * 4) * 2"
    assert str(1 / N * 0.5) == "((1 / N) * 0.5)"


def test_affine_forms() -> None:
    env = {M: 10, N: 3}
    assert affine(2 * i + M - j * N, env, (i, j)) == AffineForm(10, ((i, 2), (j, -3)))
    assert affine((i + 1) * (N + 1), env, (i,)) == AffineForm(4, ((i, 4),))
    assert affine(i - i, env, (i,)) == AffineForm(0, ())
    assert affine(i * j, env, (i, j)) is None
    assert affine(i // 2, env, (i,)) is None
    form = affine(i * 3, env, (i, j))
    assert form is not None
    assert form.coefficient(j) == 0


def test_what_an_integer_is() -> None:
    assert all(is_integer(x) for x in (0, -3, np.int8(2), M, M + 1))
    assert not any(is_integer(x) for x in (True, 1.0, "1", None, 1 / M, np.float32(1)))
    with pytest.raises(TypeError):
        as_expr(1.5)  # pyright: ignore


def test_scalars_are_ieee_doubles() -> None:
    env = {M: 4, N: 0}
    for scalar, expected in (
        (1 / M, 0.25),
        (3.0 / (M + 1), 0.6),
        (M * 0.5, 2.0),
        (0.5 - M, -3.5),
        (M**0.5, 2.0),
        (2.0**M, 16.0),
        (M / M - 0.5, 0.5),
        (abs(-(1 / M)), 0.25),
        (np.float32(1.5) * M, 6.0),
        (1 / N, math.inf),
        (-1 / N, -math.inf),
        (0 / N, math.nan),
        (N**-1, math.inf),
        ((0 - M) ** 0.5, math.nan),
        ((M * 1e300) ** 2, math.inf),
        (combine("log2", N), -math.inf),
        (combine("log2", 0 - M), math.nan),
        (combine("exp2", M * 1000), math.inf),
        (combine("rsqrt", M), 0.5),
        (combine("max", M, 5), 5.0),
        (combine("min", M, math.nan), math.nan),
        (combine("min", M, 3), 3.0),
        (combine("select", 1, 2, N), 2.0),
        (combine("le", M, 4), 1.0),
        (combine("lt", M, 4), 0.0),
        (combine("eq", M, math.nan), 0.0),
    ):
        assert isinstance(scalar, Scalar)
        np.testing.assert_equal(scalar.evaluate(env), expected)


def test_numbers_alone_are_floats() -> None:
    assert combine("+", 1, 2) == 3.0
    assert isinstance(combine("/", 1, 2), float)
    assert evaluate(2, {}) == 2.0
    assert evaluate(M, {M: 3}) == 3.0
    assert as_number(np.float16(0.5)) == 0.5
    assert as_number(M).evaluate({M: 7}) == 7.0  # pyright: ignore
    assert not is_number("1")
    assert not is_number(np.ones(1))
    assert not is_number(1j)
    with pytest.raises(TypeError):
        as_number("1")


def test_scalars_compare_by_structure() -> None:
    assert 1 / M == 1 / M
    assert 1 / M != 1 / N
    assert len({1 / M, 1 / M, 1 / N}) == 2


@pytest.mark.parametrize("names", ["", "M,", "M N", " M ,N ", "M, N, K"])
def test_names_of_dimensions(names: str) -> None:
    from kohakuaccel.errors import KernelError

    wanted = names.replace(",", " ").split()
    if not wanted:
        with pytest.raises(KernelError, match="does not list distinct names"):
            dims(names)
        return
    made = dims(names)
    found = (made,) if isinstance(made, Symbol) else made
    assert [symbol.name for symbol in found] == wanted
    assert {symbol.kind for symbol in found} == {"dim"}


@pytest.mark.parametrize("names", ["M, M", "1", "M-N", "a.b"])
def test_names_that_are_none(names: str) -> None:
    from kohakuaccel.errors import KernelError

    with pytest.raises(KernelError, match="does not list distinct names"):
        dims(names)


def test_division_by_zero_is_refused() -> None:
    for divide in (
        lambda: M // 0,
        lambda: M % 0,
        lambda: ceildiv(M, 0),
        lambda: (M + 1) // Const(0),
    ):
        with pytest.raises(KernelError, match="divides by 0") as caught:
            divide()
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__
    with pytest.raises(CallError, match=r"`M // \(N - 3\)` divides by 0: `N - 3` is 0") as refused:
        (M // (N - 3)).evaluate({M: 5, N: 3})
    assert refused.value.loc is not None
    assert (M // (N - 3)).evaluate({M: 5, N: 4}) == 5


def test_real_numbers_have_no_whole_quotient() -> None:
    for divide in (lambda: M / 2 // 2, lambda: M / 2 % N, lambda: N // (1 / M), lambda: 3 % (M**2)):
        with pytest.raises(KernelError, match=r"takes whole numbers, and `.*` is none") as caught:
            divide()
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__
