"""State carried over loops and values contracted again, on the golden machine, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.pipeline import compile_kernel
from compiler.tests.fused import (
    attention,
    attention_statement,
    biased,
    biased_statement,
    causal,
    causal_statement,
    chain,
    chain_statement,
    gaussian,
    mlp,
    mlp_statement,
    scores,
    scores_statement,
)
from compiler.tests.golden import Launch, assert_same, run, spec_of
from kohakutpu.config import PRESETS, preset

pytestmark = pytest.mark.golden

SMALL = preset("small")
SIZES = (1, 3, 15, 16, 17, 31, 32, 33, 63, 65, 80)
sizes = st.sampled_from(SIZES)
machines = st.sampled_from([PRESETS["tiny"], SMALL, PRESETS["duo"]])
seeds = st.one_of(st.none(), st.integers(0, 1 << 16))
precisions = st.sampled_from(("default", "left", "high"))


@settings(max_examples=60, deadline=None)
@given(
    m=sizes, n=sizes, d=sizes, e=st.sampled_from((1, 4, 17, 32, 40)),
    block=st.sampled_from((4, 8, 16)), keys=st.sampled_from((32, 64)), nk=st.sampled_from((1, 2)),
    machine=machines, seed=st.integers(0, 99), adversary=seeds, precision=precisions,
)  # fmt: skip
def test_attention_equals_the_statement(
    m: int, n: int, d: int, e: int, block: int, keys: int, nk: int,
    machine: Any, seed: int, adversary: Any, precision: str,
) -> None:  # fmt: skip
    q, k, v = gaussian(seed, m, d), gaussian(seed + 1, n, d), gaussian(seed + 2, n, e)
    knobs = {"block": block, "keys": keys, "nk": nk, "precision": precision}
    found = run(attention, q, k, v, machine=machine, knobs=knobs, poison=True, seed=adversary)
    assert_same(found, attention_statement(q, k, v, keys, 0.25, precision))


@settings(max_examples=40, deadline=None)
@given(
    m=sizes, k=sizes, f=sizes, n=st.sampled_from((1, 5, 16, 33, 64)),
    block=st.sampled_from((4, 16)), hidden=st.sampled_from((32, 64)),
    machine=machines, seed=st.integers(0, 99), adversary=seeds, precision=precisions,
)  # fmt: skip
def test_mlp_equals_the_statement(
    m: int, k: int, f: int, n: int, block: int, hidden: int,
    machine: Any, seed: int, adversary: Any, precision: str,
) -> None:  # fmt: skip
    x, up, down = gaussian(seed, m, k), gaussian(seed + 1, f, k), gaussian(seed + 2, n, f)
    knobs = {"block": block, "hidden": hidden, "precision": precision}
    found = run(mlp, x, up, down, machine=machine, knobs=knobs, poison=True, seed=adversary)
    assert_same(found, mlp_statement(x, up, down, hidden, precision))


@settings(max_examples=25, deadline=None)
@given(
    m=sizes, d=sizes, e=st.sampled_from((1, 17, 32)), block=st.sampled_from((16, 32)),
    machine=machines, seed=st.integers(0, 99), adversary=seeds,
)  # fmt: skip
def test_causal_attention_equals_the_statement(
    m: int, d: int, e: int, block: int, machine: Any, seed: int, adversary: Any
) -> None:
    if block == 16 and m > 16:
        block = 32  # columns of an operand come in multiples of 32, but for the last
    q, k, v = gaussian(seed, m, d), gaussian(seed + 1, m, d), gaussian(seed + 2, m, e)
    knobs = {"block": block}
    found = run(causal, q, k, v, machine=machine, knobs=knobs, poison=True, seed=adversary)
    assert_same(found, causal_statement(q, k, v, block, 0.25))


@settings(max_examples=25, deadline=None)
@given(
    m=sizes, n=sizes, block=st.sampled_from((4, 16)), machine=machines,
    seed=st.integers(0, 99), adversary=seeds,
)  # fmt: skip
def test_bias_and_padding_equal_the_statement(
    m: int, n: int, block: int, machine: Any, seed: int, adversary: Any
) -> None:
    q, k, v = gaussian(seed, m, 33), gaussian(seed + 1, n, 33), gaussian(seed + 2, n, 20)
    bias, pad = gaussian(seed + 3, m, n), gaussian(seed + 4, n)
    bias[gaussian(seed + 5, m, n) > 0.5] = -np.inf
    bias[0] = -np.inf  # nothing counts
    knobs = {"block": block}
    args = q, k, v, bias, pad
    found = run(biased, *args, machine=machine, knobs=knobs, poison=True, seed=adversary)
    assert_same(found, biased_statement(*args, 32))
    assert np.isnan(found[0]).all()


@pytest.mark.parametrize("machine", [PRESETS["tiny"], SMALL], ids=["tiny", "small"])
@pytest.mark.parametrize("shape", [(5, 7, 40), (33, 128, 33), (16, 100, 64)])
def test_without_a_loop(machine: Any, shape: tuple[int, int, int]) -> None:
    m, n, d = shape
    q, k, v = gaussian(1, m, d), gaussian(2, n, d), gaussian(3, n, 24)
    for seed in range(4):
        options = {"machine": machine, "poison": True, "seed": seed}
        assert_same(run(scores, q, k, **options), scores_statement(q, k))
        assert_same(run(chain, q, k, v, **options), chain_statement(q, k, v))


def test_a_batch_of_heads() -> None:
    q, k, v = gaussian(1, 2, 3, 40, 32), gaussian(2, 2, 3, 70, 32), gaussian(3, 2, 3, 70, 16)
    for machine in (SMALL, PRESETS["duo"]):
        found = run(attention, q, k, v, machine=machine, poison=True, seed=5)
        for head in np.ndindex(2, 3):
            assert_same(found[head], attention_statement(q[head], k[head], v[head], 32, 0.25))


def test_nothing_but_operands_and_the_result_crosses_the_port() -> None:
    q, k, v = gaussian(1, 64, 64), gaussian(2, 128, 64), gaussian(3, 128, 64)
    compiled = compile_kernel(attention, [spec_of(a) for a in (q, k, v)], {}, SMALL)
    assert [info.kind for info in compiled.image.operands] == ["in", "in", "in", "out"]
    assert compiled.plan.words_written == 64 * 4
    Launch(compiled, (q, k, v), SMALL, poison=True).run()


@pytest.mark.parametrize("machine", [PRESETS["tiny"], SMALL, PRESETS["duo"]], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 130, 20), (200, 33, 64)])
def test_open_knobs_fit_and_compute_the_same(machine: Any, shape: tuple[int, int, int]) -> None:
    m, n, d = shape
    q, k, v = gaussian(1, m, d), gaussian(2, n, d), gaussian(3, n, 20)
    open_ = {"block": None, "keys": None, "nk": None}
    compiled = compile_kernel(attention, [spec_of(a) for a in (q, k, v)], open_, machine)
    launch = Launch(compiled, (q, k, v), machine, poison=True, seed=1)
    launch.run()
    expected = attention_statement(q, k, v, compiled.plan.sizes["keys"], 0.25)
    assert_same(launch.results()[0], expected)
    x, up, down = gaussian(4, m, d), gaussian(5, n, d), gaussian(6, 40, n)
    knobs = {"block": None, "hidden": None, "nk": None}
    found = run(mlp, x, up, down, machine=machine, knobs=knobs, poison=True, seed=2)
    assert_same(found, mlp_statement(x, up, down, 32, "default"))


def test_chosen_blocks_keep_the_contractions_busy() -> None:
    arrays = [gaussian(n, 512, 64) for n in range(3)]
    knobs = {"block": None, "keys": None, "nk": None}
    compiled = compile_kernel(attention, [spec_of(a) for a in arrays], knobs, SMALL)
    report = Launch(compiled, arrays, SMALL).run()
    assert report.macs / report.cycles >= 0.68 * 512


def test_stages_of_a_band_under_every_adversary() -> None:
    # Units run into each other's next stage: whatever comes early must find its own semaphore.
    q, k, v = gaussian(1, 65, 33), gaussian(2, 65, 33), gaussian(3, 65, 5)
    knobs = {"block": 32}
    compiled = compile_kernel(causal, [spec_of(a) for a in (q, k, v)], knobs, SMALL)
    expected = causal_statement(q, k, v, 32, 0.25)
    for seed in range(60, 90):
        launch = Launch(compiled, (q, k, v), SMALL, poison=True, seed=seed)
        launch.run()
        assert_same(launch.results()[0], expected)


def test_steps_of_one_size_share_their_places() -> None:
    q, k, v = gaussian(1, 128, 64), gaussian(2, 128, 64), gaussian(3, 128, 64)
    specs = [spec_of(a) for a in (q, k, v)]
    text = compile_kernel(causal, specs, {"block": 64}, SMALL).plan.pretty()
    # Twice the tiles and half of the accumulator: the second step has none of its own.
    assert "cluster accumulator: s (tile) 2 x 256, pv (tile) 2 x 256; 1,024 sub-tiles" in text
