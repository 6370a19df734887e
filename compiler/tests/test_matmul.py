"""The library's matmul on the golden machine against section 2 of the design, to the bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.pipeline import ArgSpec, compile_kernel
from compiler.tests.golden import (
    Array,
    Launch,
    assert_same,
    contract,
    quantise,
    run,
    spec_of,
    to_fp16,
)
from compiler.tests.semaphores import goes_wrong, semaphores_of, without_semaphore
from kohakuaccel.errors import CapacityError
from kohakutpu.config import PRESETS, preset
from kohakutpu.kernels import batched_matmul, linear_relu, matmul, swiglu

pytestmark = pytest.mark.golden

SIZES = (1, 3, 4, 7, 16, 31, 32, 33, 48, 100, 129, 256)
SMALL = preset("small")
sizes = st.sampled_from(SIZES)
knob = st.sampled_from((None, 1, 2, 3, 4, 8))
machines = st.sampled_from(list(PRESETS.values()))


def gaussian(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@settings(max_examples=150, deadline=None)
@given(
    m=sizes, k=sizes, n=sizes, gm=knob, gn=knob, nk=knob, machine=machines,
    seed=st.integers(0, 99), adversary=st.one_of(st.none(), st.integers(0, 1 << 16)),
    precision=st.sampled_from(("default", "left", "high")),
)  # fmt: skip
def test_equals_the_statement_to_the_bit(
    m: int, k: int, n: int, gm: Any, gn: Any, nk: Any, machine: Any,
    seed: int, adversary: Any, precision: str,
) -> None:  # fmt: skip
    a, b = gaussian(seed, m, k), gaussian(seed + 1, n, k)
    knobs = {"gm": gm, "gn": gn, "nk": nk, "precision": precision}
    c = run(matmul, a, b, machine=machine, knobs=knobs, poison=True, seed=adversary)
    assert_same(c, to_fp16(contract(a, b, precision)))


def test_the_statement_itself() -> None:
    # 1.0 is 64 * 2**-6 at scale 127; 1 + 2**-7 rounds to even, 64.
    elements, scales = quantise(np.array([[1.0, 1.0078125, -1.984375]], np.float16))
    assert elements[0, 0, :3].tolist() == [64, 64, -127]
    assert scales.tolist() == [[127]]
    assert contract(np.ones((1, 1024), np.float16), np.ones((1, 1024), np.float16)) == 1024


@pytest.mark.parametrize("machine", PRESETS.values(), ids=list(PRESETS))
def test_ones_over_k_1024_are_exactly_1024(machine: Any) -> None:
    ones = np.ones((5, 1024), np.float16)
    assert (run(matmul, ones, ones, machine=machine, poison=True) == 1024).all()


def test_knobs_and_presets_do_not_change_a_bit() -> None:
    # Values around the smallest normal FP32: sums that flush to -0 show a block too many.
    scale = np.float16(2.0**-24)
    a, b = gaussian(1, 37, 200), gaussian(2, 29, 200)
    a[:, ::3] *= scale
    b[:, 1::3] *= scale
    a[5, 190], b[7, 3], a[11, 40] = np.nan, np.inf, -np.inf
    expected = to_fp16(contract(a, b))
    assert np.isnan(expected[5]).all()
    assert not np.isnan(expected[0, 0])
    for machine, gm, gn, nk in product(PRESETS.values(), (1, 5, 16), (1, 4, 7), (1, 3, 64)):
        if gm * nk > machine.l1_entries or gn * nk > machine.l1_entries:
            continue
        knobs = {"gm": gm, "gn": gn, "nk": nk}
        assert_same(run(matmul, a, b, machine=machine, knobs=knobs), expected)


def test_cancelling_sums_keep_the_sign_of_zero() -> None:
    # -2**-126 + 2**-126 * (1 - 2**-7) is below the normal range: -0, and +0 after one more block.
    a, b = np.zeros((4, 64), np.float16), np.zeros((4, 64), np.float16)
    a[:, 0], a[:, 32] = 2.0**-24, 2.0**-24 * 1
    b[:, 0], b[:, 32] = -(2.0**-24), 2.0**-24
    for k, nk in ((33, 1), (33, 2), (33, 64), (64, 1)):
        expected = to_fp16(contract(a[:, :k], b[:, :k]))
        for gm in (1, 2):
            knobs = {"gm": gm, "gn": gm, "nk": nk}
            assert_same(
                run(matmul, a[:, :k].copy(), b[:, :k].copy(), machine=SMALL, knobs=knobs), expected
            )


def test_errors_of_both_precisions_on_gaussian_data() -> None:
    a, b = gaussian(3, 256, 1024), gaussian(4, 256, 1024)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    for precision, bound in (("default", 1.3e-2), ("high", 3e-4)):
        c = run(matmul, a, b, machine=SMALL, knobs={"precision": precision}).astype(np.float64)
        assert np.sqrt(np.mean((c - exact) ** 2) / np.mean(exact**2)) <= bound


def test_nan_and_infinity_stay_in_their_rows_and_columns() -> None:
    a, b = gaussian(5, 40, 70), gaussian(6, 50, 70)
    a[3, 5], b[44, 69] = np.nan, np.inf
    c = run(matmul, a, b, machine=SMALL, poison=True)
    bad = ~np.isfinite(c)
    expected = np.zeros_like(bad)
    expected[3], expected[:, 44] = True, True
    assert (bad == expected).all()


def test_no_k_at_all_gives_zeros() -> None:
    for precision in ("default", "high"):
        a, b = np.zeros((9, 0), np.float16), np.zeros((5, 0), np.float16)
        c = run(matmul, a, b, machine=SMALL, knobs={"precision": precision}, poison=True)
        assert_same(c, np.zeros((9, 5), np.float16))


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), ()), ((), (3,)), ((2, 3), (3,)), ((4, 1), (1, 3)), ((2, 1, 3), (2, 2, 1))],
)
@pytest.mark.parametrize("machine", PRESETS.values(), ids=list(PRESETS))
def test_batches_broadcast(left: Any, right: Any, machine: Any) -> None:
    a, b = gaussian(7, *left, 9, 40), gaussian(8, *right, 21, 40)
    c = run(batched_matmul, a, b, machine=machine, poison=True, seed=1)
    batch = np.broadcast_shapes(left, right)
    wide_a = np.broadcast_to(a, (*batch, 9, 40))
    wide_b = np.broadcast_to(b, (*batch, 21, 40))
    expected = np.zeros((*batch, 9, 21), np.float16)
    for place in np.ndindex(*batch):
        expected[place] = to_fp16(contract(wide_a[place], wide_b[place]))
    assert_same(c, expected)


@pytest.mark.parametrize("machine", PRESETS.values(), ids=list(PRESETS))
def test_programs_do_not_grow_with_the_problem(machine: Any) -> None:
    def words(n: int) -> int:
        image = compile_kernel(matmul, [ArgSpec((n, n))] * 2, {}, machine).image
        return max(len(unit.words) for unit in image.units)

    assert words(2048) <= 2 * words(256)
    assert words(8192) <= 2 * words(256)


def test_an_impossible_tile_is_refused() -> None:
    knobs = {"gm": 64, "gn": 64, "nk": 1}
    with pytest.raises(CapacityError, match=r"64 \* 64 = 4096 sub-tiles does not fit"):
        compile_kernel(matmul, [ArgSpec((512, 64))] * 2, knobs, SMALL)


@pytest.mark.parametrize(
    ("kernel", "shapes", "knobs"),
    [
        (matmul, [(64, 2240), (16, 2240)], {"gm": 4, "gn": 4, "nk": 16}),  # both operands stream
        (matmul, [(64, 992), (32, 992)], {"gm": 4, "gn": 4, "nk": 16}),  # A stays for a row
        (matmul, [(96, 64), (32, 64)], {"gm": 2, "gn": 4, "nk": 2}),  # and B for all rows
        (linear_relu, [(96, 64), (32, 64)], {"gm": 2, "gn": 4, "nk": 2}),
        (matmul, [(64, 960), (16, 960)], {"gm": 4, "gn": 4, "nk": 16, "precision": "high"}),
        (matmul, [(48, 64), (32, 64)], {"gm": 2, "gn": 4, "nk": 2, "precision": "high"}),
        (swiglu, [(48, 64), (32, 64), (32, 64)], {"gm": 2, "gn": 4, "nk": 2}),
    ],
    ids=["streams", "panel", "panels", "epilogue", "residuals", "panels of them", "two tiles"],
)
def test_every_semaphore_is_needed(kernel: Any, shapes: Any, knobs: Any) -> None:
    # Without it some interleaving computes something else, or reads what is not there.
    machine = replace(preset("tiny"), queue_depth=64)  # or a full queue would hide it
    args = [gaussian(number, *shape) for number, shape in enumerate(shapes)]
    compiled = compile_kernel(kernel, [spec_of(array) for array in args], knobs, machine)
    expected = to_fp16(contract(args[0], args[1], knobs.get("precision", "default")))
    if kernel is linear_relu:
        expected = np.maximum(expected, np.float16(0))
    launch = Launch(compiled, args, machine, poison=True, seed=1)
    launch.run()
    if kernel is swiglu:
        expected = launch.results()[0]  # stated in tests/kernels
    assert_same(launch.results()[0], expected)
    for unit, semaphore in semaphores_of(compiled):
        broken = without_semaphore(compiled, unit, semaphore)
        assert any(goes_wrong(broken, args, machine, seed, expected) for seed in range(200)), (
            f"semaphore {semaphore} of unit {unit} makes no difference"
        )
