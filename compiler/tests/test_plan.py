"""What a plan says is what the golden machine then counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler import report
from compiler.pipeline import ArgSpec, Compiled, compile_kernel
from compiler.tests.golden import Launch
from kohakutpu import kernels
from kohakutpu.config import PRESETS, preset

Shapes = list[tuple[int, ...]]


def compiled_for(name: str, shapes: Shapes, machine: str, **knobs: Any) -> Compiled:
    specs = [ArgSpec(shape) for shape in shapes]
    return compile_kernel(getattr(kernels, name), specs, knobs, preset(machine))


def test_words_of_a_contraction_by_hand() -> None:
    # 4 x 4 tiles of 64 x 64, K = 128 is 8 words a row. A's rows are read once (256 x 8 words), B
    # streams: all of it again for each of the 4 rows of tiles.
    knobs = {"gm": 16, "gn": 16, "nk": 4}
    plan = compiled_for("matmul", [(256, 128), (256, 128)], "small", **knobs).plan
    assert plan.words_read == 256 * 8 + 4 * 256 * 8
    assert plan.words_written == 256 * 256 // 16
    assert plan.words_sent == 0
    (stage,) = plan.stages
    assert stage.instances == 16
    fill, gemm, drain = (stage.units[0].loads[name] for name in ("FILL", "GEMM", "DRAIN"))
    assert (fill.instructions, gemm.instructions, drain.instructions) == (4 + 16, 16, 16)
    assert gemm.cycles == 16 * (2 + 4 * 256)
    assert stage.limiter == "GEMM of C0"
    sizes = {"M": 256, "K": 128, "N": 256, "gm": 16, "gn": 16, "nk": 4}
    assert plan.sizes == sizes


CASES: list[tuple[str, Shapes]] = [
    ("matmul", [(512, 512), (256, 512)]),
    ("matmul", [(100, 333), (129, 333)]),
    ("batched_matmul", [(6, 64, 96), (64, 96)]),
    ("linear_silu", [(256, 256), (512, 256)]),
    ("silu", [(300, 400)]),
    ("softmax", [(256, 512)]),
]


@pytest.mark.golden
@pytest.mark.parametrize("machine", PRESETS)
@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_estimates_hold(name: str, shapes: Shapes, machine: str) -> None:
    compiled = compiled_for(name, shapes, machine)
    args = [np.ones(shape, np.float16) for shape in shapes]
    counted = Launch(compiled, args, preset(machine)).run()
    plan = compiled.plan
    assert counted.read_words == pytest.approx(plan.words_read, rel=0.02)
    assert counted.written_words == pytest.approx(plan.words_written, rel=0.02)
    busy = {
        (unit.node, engine.name): engine.busy for unit in counted.units for engine in unit.engines
    }
    for unit in plan.stages[0].units:
        for engine, load in unit.loads.items():
            assert busy[unit.share.node, engine] == pytest.approx(load.cycles, rel=0.05, abs=40)
    assert counted.cycles == pytest.approx(plan.cycles, rel=0.2)


def test_everybody_has_a_share() -> None:
    plan = compiled_for("matmul", [(1024, 256), (1024, 256)], "quad").plan
    shares = [unit.share for unit in plan.stages[0].units]
    assert [share.node for share in shares] == [0, 3, 5, 9]
    assert sum(share.length for share in shares) * len(shares) >= shares[0].length * len(shares)
    covered = [n for share in shares for n in range(share.start, share.start + share.length)]
    assert covered == list(range(len(covered)))
    assert set(plan.programs) == {0, 3, 5, 9}


def test_pretty_says_it_all() -> None:
    compiled = compiled_for("linear_silu", [(100, 64), (48, 64)], "small", gm=4, gn=4, nk=1)
    text = compiled.plan.pretty()
    for words in (
        "plan of linear_silu on small: M = 100, K = 64, N = 48",
        "stage 1: contraction at",
        "linear.py:",
        "21 instances",
        "limited by",
        "i split: C0 0..6",
        "cluster L1A: x (resident) 2 x 8",
        "cluster accumulator: acc (tile) 2 x 16; 32 sub-tiles",
        "acc (tile) 2 x 16",
        "x     in    100 x 64  fp16   12,800",
        "relayouts: none",
        "program words: unit 0 ",
        "estimate: ",
    ):
        assert words in text, text
    assert str(compiled.plan) == text


def test_tables_align_numbers_to_the_right() -> None:
    assert report.table(("name", "n"), [("a", "1,000"), ("long", "7")]) == [
        "name      n",
        "a     1,000",
        "long      7",
    ]
