"""Python that needs a number, a truth or a sequence where there is none yet."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.tests.refusals import refused
from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, grid, sweep
from tests.lang.bodies import rows_of

M, K, N = dims("M, K, N")


@pytest.mark.parametrize(
    ("use", "text", "fix"),
    [
        (lambda v: 1 if v else 2, "Python cannot branch on it", "L.where"),
        (lambda v: max(v, 0), "Python cannot branch on it", "L.where"),
        (lambda v: v and 1, "Python cannot branch on it", "L.where"),
        (lambda v: float(v), "math functions cannot convert", "1 / D"),
        (lambda v: math.sqrt(v), "math functions cannot convert", "1 / D"),
        (lambda v: int(v), "int() cannot convert", "use it as it is"),
        (lambda v: list(v), "iterate over it or unpack", "sweep"),
        (lambda v: len(v), "len() has no answer", "dimension's own name"),
        (lambda v: [1, 2][v], "not an int for range()", "sweep"),
        (lambda v: v // 2, "no operator `//`", "comparisons"),
        (lambda v: v & 1, "no operator `&`", "comparisons"),
        (lambda v: ~v, "no operator `~`", "comparisons"),
        (lambda v: v**3.5, "a power needs an exponent", "L.log2"),
        (lambda v: v**v, "a power needs an exponent", "L.log2"),
        (lambda v: v[0], "cannot be indexed: only buffers can", "the grid"),
        (lambda v: v + 10**400, "beyond FP32", "scale"),
        (lambda v: v + "1", "`str` is no operand", "windows"),
        (lambda v: v * [1], "`list` is no operand", "L.table"),
        (lambda v: v + np.ones(3), "`ndarray` is no operand", "L.table"),
        (lambda v: np.ones(3) + v, "`ndarray` is no operand", "L.table"),
        (lambda v: np.exp(v), "numpy's exp cannot compute", "L.exp2"),
        (lambda v: v @ np.ones(3), "the right side of `@` is `ndarray`", "L.table"),
        (lambda v: np.ones(3) @ v, "numpy's matmul cannot compute", "kohakutpu.lang"),
    ],
)
def test_values_that_python_asks_for(use: Callable[[Any], Any], text: str, fix: str) -> None:
    def body(x: Any, r: Any, **_: Any) -> None:
        use(x[r] * 2)

    with pytest.raises(KernelError) as caught:
        rows_of(body)()
    assert text in caught.value.message
    assert fix in caught.value.fix
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


@pytest.mark.parametrize(
    "use",
    [
        lambda n: 1 if n else 2,
        lambda n: n < 3,
        lambda n: n >= 3,
        lambda n: n == 3,
        lambda n: n != 3,
        lambda n: 3 == n,
        lambda n: n + 1 == 4,
        lambda n: range(n),
        lambda n: int(n),
        lambda n: math.sqrt(n),
        lambda n: list(n),
        lambda n: np.zeros(n),
    ],
)
@pytest.mark.parametrize("what", ["index", "dimension", "knob", "scalar"])
def test_symbols_that_python_asks_for(use: Callable[[Any], Any], what: str) -> None:
    def body(x: Any, r: Any, auto: Any, **_: Any) -> None:
        use({"index": r, "dimension": M, "knob": auto, "scalar": 1 / M}[what])

    with pytest.raises(KernelError) as caught:
        rows_of(body)()
    assert "has no value while the kernel is traced" in caught.value.message


def test_comparing_dimensions_outside_kernels_is_python() -> None:
    assert (M == K) is False
    assert (M == M) is True
    assert M + 1 == M + 1
    assert {M: 1}[M] == 1


def test_plain_assignment() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] = x[r]  # HERE

    def adds(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] += x[r]  # HERE

    with refused("`y[...] = ...` does not write a buffer", "y[r]", "`<<=`"):
        rows_of(body)()
    with refused("`y[...] = ...` does not write a buffer", "y[r]", "`<<=`"):
        rows_of(adds)()


def test_index_as_a_value() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x[r] * r  # HERE

    with refused("`r` is an index, not a number", "x[r] * r", "L.table"):
        rows_of(body)()


def test_errors_of_python_pass_through() -> None:
    def name(**_: Any) -> None:
        undefined  # noqa: B018, F821  # pyright: ignore

    def zero(**_: Any) -> None:
        divmod(1, 0)

    with pytest.raises(NameError, match="name 'undefined' is not defined"):
        rows_of(name)()
    with pytest.raises(ZeroDivisionError):
        rows_of(zero)()
    with pytest.raises(KernelError, match="only inside a kernel"):
        list(grid(1))  # the failed traces left nothing behind


def test_numbers_of_dimensions_compare_on_either_side() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= (1 / M < x[r]) + (M >= x[r]) + (1 / M == x[r]) + (M != x[r]) * 2

    rows_of(body)()


def test_a_symbol_is_no_sequence() -> None:
    def index(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x[r[0]]  # HERE

    def count(x: Any, **_: Any) -> None:
        list(sweep(x.rows(2)[0]))  # HERE

    with refused("`r` has no value while the kernel is traced, so it cannot be", "r[0]", "x[r]"):
        rows_of(index)()
    with refused("cannot be indexed", "x.rows(2)[0]", "x[r]"):
        rows_of(count)()


def test_values_and_symbols_are_not_written() -> None:
    def value(x: Any, r: Any, **_: Any) -> None:
        v = x[r] * 2
        v <<= x[r]  # HERE  # pyright: ignore

    def index(x: Any, r: Any, **_: Any) -> None:
        r <<= x[r]  # HERE

    with refused("a value of the kernel cannot be written", "v <<= x[r]", "`y[r] <<= value`"):
        rows_of(value)()
    with refused("`r` cannot be written", "r <<= x[r]", "`y[r] <<= value`"):
        rows_of(index)()


def test_arithmetic_of_symbols_with_what_is_no_number() -> None:
    def nothing(x: Any, **_: Any) -> None:
        list(sweep(x.rows(2) + None))  # HERE

    def text(**_: Any) -> None:
        list(sweep(M * "2"))  # HERE

    def half(r: Any, **_: Any) -> None:
        list(sweep(r // 2.5))  # HERE

    def product(x: Any, r: Any, **_: Any) -> None:
        list(sweep(x.rows(2) @ r))  # HERE

    def truth(r: Any, **_: Any) -> None:
        list(sweep(r % True))  # HERE

    with refused("it is no operand of `@`", "x.rows(2) @ r", "windows"):
        rows_of(product)()
    with refused("a bool is no whole number", "r % True", "whole numbers"):
        rows_of(truth)()
    with refused("a NoneType is no number", "x.rows(2) + None", "whole numbers"):
        rows_of(nothing)()
    with refused("`M * 2`: a str is no number", 'M * "2"', "whole numbers"):
        rows_of(text)()
    with refused("`r // 2.5`: a float is no whole number", "r // 2.5", "whole numbers"):
        rows_of(half)()
