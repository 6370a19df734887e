"""Computed operands on the right of ``@``, on the golden machine, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.pipeline import compile_kernel
from compiler.tests.fused import gaussian
from compiler.tests.golden import Launch, assert_same, run, spec_of, to_fp16
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
    args = arguments([(20, 300), (400, 300), (400,), (300,)])  # too much to stay
    args[2] = args[2].astype(np.float32)
    compiled = compile_kernel(dequantised, [spec_of(arg) for arg in args], {}, machine)
    expected = dequantised_statement(*args)
    cluster, vector = 0, 1
    for unit in (cluster, vector):  # full at one, empty at the other: both are number 0
        broken = without_semaphore(compiled, unit, 0)
        assert any(goes_wrong(broken, args, machine, seed, expected) for seed in range(12)), unit


@pytest.mark.parametrize("precision", ["default", "high"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["alone", "batch"])
def test_what_no_loop_changes_is_computed_once(batch: tuple[int, ...], precision: str) -> None:
    machine = preset("tiny")
    a, w, scale, point = arguments([(*batch, 60, 96), (45, 96), (45,), (96,)])
    args = [a, w, scale.astype(np.float32), point]
    knobs = {"gm": 4, "gn": 4, "nk": 2, "precision": precision}
    compiled = compile_kernel(dequantised, [spec_of(arg) for arg in args], knobs, machine)
    assert "the right operand of acc is computed once for all of" in compiled.plan.pretty()
    launch = Launch(compiled, args, machine, poison=True, seed=2)
    vector = next(unit for unit in launch.run().units if unit.kind == "V")
    assert vector.read_words <= 45 * 6 + 45 + 6 * 4  # w once, and what goes with its columns
    for one, element in zip(
        launch.results()[0].reshape(-1, 60, 45), a.reshape(-1, 60, 96), strict=True
    ):
        expected = dequantised_statement(element, w, args[2], point, 2, precision)
        assert_same(one, expected)


def test_what_does_not_fit_is_computed_again() -> None:
    machine = preset("tiny")
    args = arguments([(20, 300), (400, 300), (400,), (300,)])
    args[2] = args[2].astype(np.float32)
    compiled = compile_kernel(dequantised, [spec_of(arg) for arg in args], {}, machine)
    assert "computed once" not in compiled.plan.pretty()
    assert_same(
        run(dequantised, *args, machine=machine, poison=True, seed=1), dequantised_statement(*args)
    )


@kernel
def left(a=L.In(M, K), s=L.In(M), w=L.In(N, K), c=L.Out(M, N), *, gm=2, gn=2, nk=1):
    for i, j in grid(a.tiles(gm), w.tiles(gn)):
        acc = L.tile()
        for k in loop(a.chunks32(nk)):
            acc += (a[i, k] * s[i]) @ w[j, k]
        c[i, j] <<= L.relu(acc)


@pytest.mark.parametrize("name", ["tiny", "small", "duo"])
def test_left_operands_stay_for_a_row_of_tiles(name: str) -> None:
    a, s, w = arguments([(33, 70), (33,), (40, 70)])
    machine = preset(name)
    plan = compile_kernel(left, [spec_of(x) for x in (a, s, w)], {}, machine).plan.pretty()
    assert "the left operand of acc is computed once for all of" in plan
    value = to_fp16(a.astype(np.float32) * s.astype(np.float32)[:, None])
    expected = np.maximum(to_fp16(chunked(value, w, 32, "default")), np.float16(0))
    for seed in (1, 2):
        found = run(left, a, s, w, machine=machine, poison=True, seed=seed)
        assert_same(found, expected)
