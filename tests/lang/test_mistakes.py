"""Mistakes that are seen while the body runs: each names the place and the fix."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.tests.refusals import refused
from kohakuaccel.errors import KernelError
from kohakuaccel.lang import dims, grid, stage, sweep
from kohakutpu import lang as L
from kohakutpu.lang import kernel

M, K, N = dims("M, K, N")


def rows_of(body: Callable[..., Any]) -> Callable[[], object]:
    """Return a trace of a kernel with a grid of rows around ``body(x, w, y, r)``."""

    @kernel
    def traced(x=L.In(M, N), w=L.In(N), y=L.Out(M, N), *, auto=None):
        with stage(x.rows(2)) as r:
            body(x=x, w=w, y=y, r=r, auto=auto)

    return traced.trace


def test_whole_buffers_state_no_split() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= a @ b  # HERE

    with refused("`a @ b` contracts whole buffers and states no split", "a @ b", "tensor level"):
        bad.trace()


def test_whole_buffer_in_arithmetic() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x + 1  # HERE

    with refused("`x` is a whole buffer", "x + 1", "x[r", notes=1):
        rows_of(body)()


def test_one_row_in_a_contraction_or_a_part() -> None:
    @kernel
    def fused(a=L.In(M, K), b=L.In(N, K), bias=L.In(N), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc + bias  # HERE

    @kernel
    def parts(x=L.In(M, N), w=L.In(N), y=L.Out(M, N)):
        for e in grid(x.parts(32)):
            y[e] <<= x[e] * w  # HERE

    with refused("`bias` is one row", "acc + bias", "`bias[j]`"):
        fused.trace()
    with refused("`w` is one row", "x[e] * w", "x.rows(n)"):
        parts.trace()


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
        (lambda v: v @ v, "the right side of `@` is a computed value", "only the left side"),
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


def test_store_into_a_whole_buffer() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y <<= x[r]  # HERE

    with refused("does not say which window", "y <<= x[r]", "`y[i] <<= ...`"):
        rows_of(body)()


def test_store_into_an_argument() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        x[r] <<= 0  # HERE

    with refused("`x` is an argument and cannot be written", "x[r] <<= 0", "L.Out", notes=1):
        rows_of(body)()


def test_a_slice_and_a_float_are_no_indices() -> None:
    def slices(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x[0:2]  # HERE

    def floats(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= x[r / 2]  # HERE

    with refused("indexed by a slice", "x[0:2]", "whole tile, part or block"):
        rows_of(slices)()
    with refused("an index of `x` is a Scalar, not an integer", "x[r / 2]", "indices of grids"):
        rows_of(floats)()


def test_wrong_number_of_indices() -> None:
    def body(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r, 0] <<= x[r]  # HERE

    @kernel
    def tiles(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, _j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            for k in sweep(a.chunks32(2)):
                acc += a[i] @ b[k]  # HERE
            c[i] <<= acc

    with refused("`y` takes 1 index here, not 2", "y[r, 0]", "y[r]: one block", notes=1):
        rows_of(body)()
    with refused("`a` takes 2 indices here, not 1", "a[i]", "a[i, k]: a row tile and a K chunk"):
        tiles.trace()


def test_operand_of_one_axis_or_fp32() -> None:
    @kernel
    def flat(a=L.In(K), b=L.In(N, K), c=L.Out(N, N)):
        for i, j in grid(b.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    @kernel
    def wide(a=L.In(M, K, dtype="fp32"), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b[j, 0]  # HERE
            c[i, j] <<= acc

    with refused("the left side needs rows and K", "a[i, 0]", "two axes", notes=1):
        flat.trace()
    with refused("`a` holds fp32; operands of `@` are FP16", "a[i, 0]", 'dtype="fp16"'):
        wide.trace()


def test_tilings_of_a_buffer_without_rows_and_columns() -> None:
    @kernel
    def bad(x=L.In(...), y=L.Out(...)):
        for i in grid(x.tiles(2)):  # HERE
            y[i] <<= x[i]

    with refused("`x.tiles` needs a buffer of rows and columns", "x.tiles(2)", "two axes"):
        bad.trace()


@pytest.mark.parametrize("size", [0, -1, 1024, 2.0, "2", True])
def test_sizes_out_of_range(size: Any) -> None:
    @kernel
    def tiling(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2):
        for _i, _j in grid(a.tiles(gm), b.tiles(1)):  # HERE
            pass

    @kernel
    def tile(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, gm=2):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            L.tile(2, gm, 2)  # HERE

    with refused(
        f"a.tiles takes a whole number from 1 to 1023, not {size!r}", "a.tiles(gm)", "None"
    ):
        tiling.trace(gm=size)
    with refused(
        f"gn of L.tile takes a whole number from 1 to 1023, not {size!r}",
        "L.tile(2, gm, 2)",
        "None",
    ):
        tile.trace(gm=size)


def test_tile_options() -> None:
    @kernel
    def bad(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N), *, precision="default", sweeps=1):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            L.tile(2, 1, 2, precision=precision, sweeps=sweeps)  # HERE

    call = "L.tile(2, 1, 2, precision=precision, sweeps=sweeps)"
    with refused("there is no precision 'low'", call, '"high"'):
        bad.trace(precision="low")
    with refused("there is no precision None", call, '"high"'):
        bad.trace(precision=None)
    with refused("sweeps counts sweeps over K, it cannot be 0", call, "1 or more"):
        bad.trace(sweeps=0)


def test_tile_sizes_come_from_the_operands() -> None:
    @kernel
    def good(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(), b.tiles(3)):
            acc = L.tile()
            for k in sweep(a.chunks32(5)):
                acc += a[i, k] @ b[j, k]
            c[i, j] <<= acc

    trace = good.trace()
    assert "tile acc: gm=a.tiles, gn=3, nk=5" in trace.pretty()
    assert list(trace.knobs) == ["a.tiles"]


def test_what_goes_into_a_tile() -> None:
    @kernel
    def number(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += 3  # HERE

    @kernel
    def stored(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            c[i, j] <<= a[i, 0] @ b[j, 0]  # HERE

    @kernel
    def shifted(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for _i, _j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc <<= 1  # HERE  # pyright: ignore

    @kernel
    def scaled(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += b[j, 0] @ (a[i, 0] * 2)  # HERE

    @kernel
    def mixed(a=L.In(M, K), b=L.In(N, K), c=L.Out(M, N)):
        for i, j in grid(a.tiles(2), b.tiles(1)):
            acc = L.tile(2, 1, 2)
            acc += a[i, 0] @ b  # HERE
            c[i, j] <<= acc

    with refused(
        "contracts into the tile; this is no contraction", "acc += 3", "a[i, k] @ b[j, k]"
    ):
        number.trace()
    with refused("one chunk of a contraction, not a value", "a[i, 0] @ b[j, 0]", "L.tile"):
        stored.trace()
    with refused("written by contraction only", "acc <<= 1", "Python variable"):
        shifted.trace()
    with refused(
        "the right side of `@` is a computed value", "b[j, 0] @ (a[i, 0] * 2)", "left side may be"
    ):
        scaled.trace()
    with refused("the right side of `@` is a whole buffer", "a[i, 0] @ b", "b[j, k]"):
        mixed.trace()


def test_row_functions_need_full_rows() -> None:
    def twice(x: Any, y: Any, r: Any, **_: Any) -> None:
        y[r] <<= L.row_max(L.row_sum(x[r]))  # HERE

    def channel(x: Any, y: Any, w: Any, r: Any, **_: Any) -> None:
        y[r] <<= L.row_sum(w)  # HERE

    with refused("has one scalar a row already", "L.row_max(L.row_sum(x[r]))", "x[r]"):
        rows_of(twice)()
    with refused("is one row that all rows share", "L.row_sum(w)", "x[r]"):
        rows_of(channel)()


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


def test_tables() -> None:
    @kernel
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        L.table(np.array(["a"]))  # HERE

    @kernel
    def good(x=L.In(M, N), y=L.Out(M, N)):
        for array, dtype in (
            ([1, 2.5], "fp16"),
            ([0.1], "fp32"),
            ([1e6], "fp32"),
            ([np.nan, np.inf], "fp16"),
            (np.array([0.1], np.float16), "fp16"),
            ([True, False], "fp16"),
        ):
            assert L.table(array).buffer.dtype == dtype
        assert L.table([0.1], dtype=np.float16).buffer.value.dtype == np.float16

    with refused("L.table holds real numbers, not <U1", 'L.table(np.array(["a"]))', "real dtype"):
        bad.trace()
    good.trace()


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
