"""Computed operands on the right of ``@``, on the golden machine, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.pipeline import compile_kernel
from compiler.tests.fused import gaussian
from compiler.tests.golden import assert_same, run, spec_of, to_fp16
from compiler.tests.right import (
    CASES,
    both,
    both_statement,
    chunked,
    dequantised,
    dequantised_statement,
    rotated,
    rotated_statement,
)
from compiler.tests.semaphores import goes_wrong, without_semaphore
from kohakuaccel.lang import dims, grid
from kohakuaccel.lang import sweep as loop
from kohakutpu import lang as L
from kohakutpu.config import PRESETS, preset
from kohakutpu.lang import kernel

pytestmark = pytest.mark.golden

M, N, K = dims("M, N, K")
SIZES = (1, 3, 15, 16, 17, 31, 32, 33, 65, 80)
sizes = st.sampled_from(SIZES)
machines = st.sampled_from([PRESETS["tiny"], PRESETS["small"], PRESETS["duo"]])
precisions = st.sampled_from(("default", "left", "high"))
SPECIAL = (np.nan, np.inf, -np.inf, 65504.0, 0.0)


def arguments(shapes: list[tuple[int, ...]], seed: int = 0) -> list[Any]:
    return [gaussian(seed + n, *shape) for n, shape in enumerate(shapes)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
@pytest.mark.parametrize("machine", ["tiny", "small", "duo"])
@pytest.mark.parametrize("shape", [(20, 70), (16, 32), (3, 129), (1, 1)], ids=str)
def test_equals_the_statement(case: Any, machine: str, shape: tuple[int, int]) -> None:
    made, statement, shapes = case
    args = arguments(shapes(*shape))
    if made is dequantised:
        args[2] = args[2].astype(np.float32)
    for seed in (1, 2):
        found = run(made, *args, machine=PRESETS[machine], poison=True, seed=seed)
        assert_same(found, statement(*args))


@settings(max_examples=40, deadline=None)
@given(
    m=sizes, n=sizes, k=sizes, gm=st.integers(1, 5), gn=st.integers(1, 5), nk=st.integers(1, 3),
    machine=machines, precision=precisions, seed=st.integers(0, 99), special=st.booleans(),
)  # fmt: skip
def test_weights_scaled_on_the_fly(
    m: int, n: int, k: int, gm: int, gn: int, nk: int,
    machine: Any, precision: str, seed: int, special: bool,
) -> None:  # fmt: skip
    a, w, scale, point = arguments([(m, k), (n, k), (n,), (k,)], seed)
    scale = scale.astype(np.float32)
    if special:
        chance = np.random.default_rng(seed)
        for array in (a, w, scale):
            array.flat[chance.integers(array.size)] = chance.choice(SPECIAL)
    knobs = {"gm": gm, "gn": gn, "nk": nk, "precision": precision}
    found = run(
        dequantised, a, w, scale, point, machine=machine, knobs=knobs, poison=True, seed=seed
    )
    assert_same(found, dequantised_statement(a, w, scale, point, nk, precision))


@pytest.mark.parametrize("precision", ["left", "high"])
@pytest.mark.parametrize("machine", ["tiny", "small"])
def test_residuals_of_either_side(machine: str, precision: str) -> None:
    options: dict[str, Any] = {
        "machine": preset(machine), "knobs": {"precision": precision}, "poison": True, "seed": 3,
    }  # fmt: skip
    q, k = arguments([(20, 40), (70, 40)])
    assert_same(run(both, q, k, **options), both_statement(q, k, precision=precision))
    args = arguments([(20, 40), (20, 40), *[(70, 40)] * 4, (70, 20)])
    assert_same(run(rotated, *args, **options), rotated_statement(*args, precision=precision))


def test_a_batch_with_shared_weights() -> None:
    a, w, scale, point = arguments([(3, 20, 40), (21, 40), (21,), (40,)])
    scale = scale.astype(np.float32)
    found = run(dequantised, a, w, scale, point, machine=preset("duo"), poison=True, seed=1)
    for one, element in zip(found, a, strict=True):
        assert_same(one, dequantised_statement(element, w, scale, point))


def test_open_sizes() -> None:
    a, w, scale, point = arguments([(40, 100), (50, 100), (50,), (100,)])
    scale = scale.astype(np.float32)
    for name in ("tiny", "small"):
        knobs = {"gm": None, "gn": None, "nk": None}
        found = run(dequantised, a, w, scale, point, machine=preset(name), knobs=knobs, poison=True)
        assert_same(found, dequantised_statement(a, w, scale, point))


@kernel
def regions(a=L.In(M, K), w=L.In(N, K), c=L.Out(M, N)):
    for i, j in grid(a.tiles(2), w.tiles(3)):
        ra, rb = L.region(2, 1), L.region(3, 1)
        acc = L.tile()
        for k in loop(a.chunks32(1)):
            ra <<= L.relu(a[i, k])
            rb <<= w[j, k] * 2
            acc += ra @ rb
        c[i, j] <<= acc


def test_regions_hold_values_too() -> None:
    a, w = arguments([(20, 40), (21, 40)])
    left, right = np.maximum(a, np.float16(0)), to_fp16(w.astype(np.float32) * 2)
    found = run(regions, a, w, machine=preset("tiny"), poison=True, seed=1)
    assert_same(found, to_fp16(chunked(left, right, 32, "default")))


def test_the_hand_over_needs_its_semaphores() -> None:
    machine = preset("tiny")
    args = arguments([(20, 160), (70, 160), (70,), (160,)])
    args[2] = args[2].astype(np.float32)
    compiled = compile_kernel(dequantised, [spec_of(arg) for arg in args], {}, machine)
    expected = dequantised_statement(*args)
    cluster, vector = 0, 1
    for unit in (cluster, vector):  # full at one, empty at the other: both are number 0
        broken = without_semaphore(compiled, unit, 0)
        assert any(goes_wrong(broken, args, machine, seed, expected) for seed in range(12)), unit
