"""Compiled once for what decides a compilation, again when any of it changes."""

import types
from typing import Any

import numpy as np
import pytest

from kohakuaccel.lang import grid
from kohakutpu import api as ktpu
from kohakutpu import kernels
from kohakutpu import lang as L
from kohakutpu.api.compilation import COMPILATIONS, Compilations
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden


def compiles(call: object) -> int:
    before = COMPILATIONS.compiles
    assert callable(call)
    call()
    return COMPILATIONS.compiles - before


def helper(value: Any) -> Any:
    return value * 2


FACTOR = 3.0


@kernel
def scaled(x=L.In(...), y=L.Out(...), *, n=None):
    for e in grid(x.parts(n)):
        y[e] <<= helper(x[e]) + FACTOR


def test_an_edited_helper_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ktpu.tensor([1.0, 2.0])
    scaled(x)
    assert compiles(lambda: scaled(x)) == 0
    assert scaled(x).numpy().tolist() == [5, 7]
    # What an editor and a reload do: the same name, the same line, another body.
    edited = types.ModuleType(__name__)
    exec("def helper(value):\n    return value * 10\n", vars(edited))
    monkeypatch.setitem(globals(), "helper", edited.helper)
    assert scaled(x).numpy().tolist() == [13, 23]


def test_an_edited_global_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ktpu.tensor([1.0, 2.0])
    assert scaled(x).numpy().tolist() == [5, 7]
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert scaled(x).numpy().tolist() == [6, 8]


def test_a_changed_closure_compiles_again() -> None:
    offset = 1.0
    table = np.ones(2, np.float16)

    @kernel
    def moved(x=L.In(...), y=L.Out(...), *, n=None):
        for e in grid(x.parts(n)):
            y[e] <<= x[e] + (offset + float(table[0]))

    x = ktpu.tensor([1.0, 2.0])
    assert moved(x).numpy().tolist() == [3, 4]
    offset = 5.0
    assert moved(x).numpy().tolist() == [7, 8]
    table[0] = 10
    assert moved(x).numpy().tolist() == [16, 17]
    assert compiles(lambda: moved(x)) == 0


def test_what_else_decides() -> None:
    x = ktpu.tensor(np.ones((4, 40)))
    kernels.silu(x)
    assert compiles(lambda: kernels.silu(ktpu.tensor(np.zeros((4, 40))))) == 0
    assert compiles(lambda: kernels.silu(ktpu.tensor(np.ones((5, 40))))) == 1
    assert compiles(lambda: kernels.silu(x, n=32)) == 1
    assert compiles(lambda: kernels.silu(x, n=32)) == 0
    assert compiles(lambda: kernels.silu(x, n=48)) == 1
    with ktpu.device("golden", machine="tiny"):
        other = ktpu.tensor(np.ones((4, 40)))
        assert compiles(lambda: kernels.silu(other)) == 1
    with ktpu.device("golden", machine="small", seed=1):  # another device, the same machine
        other = ktpu.tensor(np.ones((4, 40)))
        assert compiles(lambda: kernels.silu(other)) == 0
    assert compiles(lambda: kernels.silu.plan(x)) == 0


def test_the_cache_is_bounded() -> None:
    cache = Compilations(limit=2)
    machine = ktpu.device().machine
    from compiler.pipeline import ArgSpec

    first = cache.get(kernels.relu, [ArgSpec((1,), "fp16")], {}, machine)
    for width in (2, 1, 3):  # 1 is used again, so 2 goes
        cache.get(kernels.relu, [ArgSpec((width,), "fp16")], {}, machine)
    assert len(cache) == 2
    assert cache.get(kernels.relu, [ArgSpec((1,), "fp16")], {}, machine) is first
    assert (cache.compiles, cache.hits) == (3, 2)
    cache.clear()
    assert len(cache) == 0
