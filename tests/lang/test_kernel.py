"""Kernels as objects: what they declare, how calls bind, when they are another kernel."""

import types
from typing import Any

import numpy as np
import pytest

from compiler.tests.refusals import refused
from kohakuaccel.errors import CallError, KernelError
from kohakuaccel.lang import dims, grid
from kohakutpu import lang as L
from kohakutpu.lang import Kernel, kernel

M, N = dims("M, N")


@kernel
def scaled(x=L.In(M, N), w=L.In(N), y=L.Out(M, N), *, rows=2, factor=None):
    """Scale rows."""
    for r in grid(x.rows(rows)):
        y[r] <<= x[r] * w


def test_what_a_kernel_declares() -> None:
    assert isinstance(scaled, Kernel)
    assert (scaled.name, scaled.__doc__) == ("scaled", "Scale rows.")
    assert [b.name for b in scaled.ins] == ["x", "w"]
    assert [b.name for b in scaled.outs] == ["y"]
    assert scaled.knobs == {"rows": 2, "factor": None}
    assert scaled.loc.text.startswith("def scaled")
    assert repr(scaled).startswith("<kernel scaled at ")
    assert list(scaled.trace().knobs) == ["factor"]
    assert list(scaled.trace(rows=None, factor=1).knobs) == ["rows"]


def test_decorator_with_and_without_arguments() -> None:
    def body(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]

    assert kernel(body).trace().pretty() == kernel()(body).trace().pretty()


def test_traces_share_nothing() -> None:
    first, second = scaled.trace(), scaled.trace()
    assert not {*first.buffers} & {*second.buffers}
    assert first.pretty() == second.pretty()


def test_binding() -> None:
    assert scaled.bind((1, 2), {}) == ((1, 2), {})
    assert scaled.bind((1,), {"w": 2, "rows": 4}) == ((1, 2), {"rows": 4})
    assert scaled.bind((), {"w": 2, "x": 1}) == ((1, 2), {})


@pytest.mark.parametrize(
    ("args", "keywords", "text", "fix"),
    [
        ((1, 2, 3), {}, "scaled(x, w) takes 2 arguments, but 3 were given", "`y` is allocated"),
        ((1,), {}, "scaled(x, w) lacks `w`", "pass 2 tensors"),
        ((), {}, "scaled(x, w) lacks `x` and `w`", "pass 2 tensors"),
        ((1, 2), {"x": 3}, "got `x` twice", "once"),
        ((1, 2), {"row": 3}, "kernel `scaled` has no knob `row`", "did you mean `rows`?"),
        ((1, 2), {"zzz": 3}, "has no knob `zzz`", "its knobs are: rows, factor"),
    ],
)
def test_calls_that_do_not_fit(args: Any, keywords: Any, text: str, fix: str) -> None:
    with pytest.raises(CallError) as caught:
        scaled.bind(args, keywords)
    assert text in caught.value.message
    assert fix in caught.value.fix
    assert caught.value.loc is not None
    assert caught.value.loc.source.startswith("scaled.bind(")


def test_unknown_knob_of_trace() -> None:
    with pytest.raises(CallError, match="has no knob `gm`"):
        scaled.trace(gm=1)


def test_kernel_inside_a_kernel() -> None:
    @kernel
    def outer(x=L.In(M, N), w=L.In(N), y=L.Out(M, N)):
        scaled(x, w)  # HERE

    with refused(
        "kernel `scaled` is used inside kernel `outer`", "scaled(x, w)", "Python function"
    ):
        outer.trace()


def test_returning_a_value() -> None:
    @kernel  # pyright: ignore[reportArgumentType]
    def bad(x=L.In(M, N), y=L.Out(M, N)):
        return 1

    with pytest.raises(KernelError, match=r"kernel `bad` returns a value"):
        bad.trace()


def test_declarations_that_declare_nothing() -> None:
    def annotated(x: Any, y=L.Out(M, N)): ...

    def star(*xs: Any, y=L.Out(M, N)): ...

    def knob(x=L.In(M, N), y=L.Out(M, N), *, gm): ...

    def late(x=L.In(M, N), *, y=L.Out(M, N)): ...

    def resultless(x=L.In(M, N)): ...

    def shapeless(x=L.In(M, N), y=L.Out(...)): ...

    def unbatched(x=L.In(..., M, N), y=L.Out(M, N)): ...

    def overbatched(x=L.In(M, N), y=L.Out(..., M, N)): ...

    def both(x=L.In(..., M, N), z=L.In(...), y=L.Out(..., M, N)): ...

    for function, text in (
        (annotated, "parameter `x` of kernel `annotated` declares no tensor"),
        (star, "has a parameter `*xs` that declares no tensor"),
        (knob, "knob `gm` of kernel `knob` has no value as its default"),
        (late, "knob `y` of kernel `late` has no value as its default"),
        (resultless, "kernel `resultless` has no result"),
        (shapeless, "`y` is declared L.Out(...), but no argument gives it a shape"),
        (unbatched, "`y` has no batch, but the arguments have"),
        (overbatched, "`y` has a batch, but no argument gives it one"),
        (both, "kernel `both` mixes `...` alone with a batch of named axes"),
    ):
        with pytest.raises(KernelError) as caught:
            kernel(function)
        assert text in caught.value.message
        assert caught.value.loc is not None
        assert caught.value.loc.text.strip().startswith(f"def {function.__name__}")


@pytest.mark.parametrize(
    "axes", [(M, ...), (0,), (-1,), (2.0,), ("M",), (True,), (1 / M,), (None,)]
)
def test_axes_that_are_none(axes: Any) -> None:
    with pytest.raises(KernelError, match=r"axis [01] of this declaration"):
        L.In(*axes)


def test_dtypes() -> None:
    assert L.In(M, dtype=np.float32).buffer.dtype == "fp32"
    assert L.In(M, dtype="fp16").buffer.dtype == "fp16"
    for bad in ("int8", np.float64, 3, None):
        with pytest.raises(KernelError, match="no buffer holds elements of"):
            L.In(M, dtype=bad)  # pyright: ignore


def test_dimensions_of_one_name() -> None:
    other = dims("M")

    @kernel
    def bad(x=L.In(M, N), y=L.Out(other, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r]

    with pytest.raises(KernelError, match="two different dimensions are called `M`"):
        bad.trace()


# What makes it another kernel


def made(helper: Any, factor: Any) -> Kernel:
    def body(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= helper(x[r]) * factor

    return kernel(body)


def test_the_key_is_stable() -> None:
    keys = {made(lambda v: v * 2, 3).source_key for _ in range(3)}
    assert len(keys) == 1
    assert len(keys.pop()) == 32


def test_closures_and_helpers_are_in_the_key() -> None:
    def double(v: Any) -> Any:
        return v * 2

    keys = [
        made(double, 3).source_key,
        made(double, 4).source_key,
        made(double, 3.0).source_key,
        made(double, True).source_key,
        made(lambda v: v * 3, 3).source_key,
        made(L.exp2, 3).source_key,
        made(L.log2, 3).source_key,
        made(double, np.arange(3)).source_key,
        made(double, np.array([0, 1, 3])).source_key,
        made(double, np.arange(3.0)).source_key,
        made(double, {"a": 1}).source_key,
        made(double, {"a": 2}).source_key,
        made(double, {1, 2}).source_key,
        made(double, object()).source_key,
        made(double, object()).source_key,
    ]
    assert len(set(keys)) == len(keys)


def test_a_variable_that_changes_later_changes_the_key() -> None:
    factor = 2

    @kernel
    def changing(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * factor

    before = changing.source_key
    factor = 3
    assert changing.source_key != before
    assert "x[r] * 3" in changing.trace().pretty()


def test_mutable_contents_are_in_the_key() -> None:
    table = np.zeros(4)
    box = types.SimpleNamespace(scale=1)
    listed = [1]

    @kernel
    def reading(x=L.In(M, N), y=L.Out(M, N)):
        for r in grid(x.rows(2)):
            y[r] <<= x[r] * table[0] * box.scale * listed[0]

    keys = [reading.source_key]
    table[3] = 1
    keys.append(reading.source_key)
    box.scale = 2
    keys.append(reading.source_key)
    listed.append(2)
    keys.append(reading.source_key)
    assert len(set(keys)) == 4


def test_globals_and_modules_are_in_the_key(tmp_path: Any, monkeypatch: Any) -> None:
    import importlib

    (tmp_path / "helper_module.py").write_text("def f(v):\n    return v * 2\nFACTOR = 3\n")
    (tmp_path / "kernel_module.py").write_text(
        "import helper_module\n"
        "from helper_module import f\n"
        "from kohakuaccel.lang import dims, grid\n"
        "from kohakutpu import lang as L\n"
        "M, N = dims('M, N')\n"
        "def inner(v):\n    return f(v)\n"
        "@L.kernel\n"
        "def k(x=L.In(M, N), y=L.Out(M, N)):\n"
        "    for r in grid(x.rows(2)):\n"
        "        y[r] <<= inner(x[r]) * helper_module.FACTOR\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("kernel_module")
    helper: Any = importlib.import_module("helper_module")
    first = module.k.source_key
    helper.FACTOR = 4
    second = module.k.source_key
    exec(compile("def f(v):\n    return v * 5\n", "other", "exec"), module.__dict__)
    third = module.k.source_key
    assert len({first, second, third}) == 3
    assert "x[r] * 5 * 4" in module.k.trace().pretty()


def test_recursive_structures_end() -> None:
    loop: list[Any] = []
    loop.append(loop)

    def again(n: int) -> Any:
        return again(n - 1) if n else 1

    assert made(again, loop).source_key == made(again, loop).source_key
