"""The plan's cycles against those of the golden machine, which runs the instructions."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.pipeline import compile_kernel
from compiler.program import Emit, Loop
from compiler.schedule import stage_cycles
from compiler.tests.fused import attention, causal, gaussian, mlp
from compiler.tests.golden import Launch, spec_of
from kohakuaccel.errors import InternalError
from kohakutpu import costs, isa, kernels
from kohakutpu.config import preset

pytestmark = pytest.mark.golden

CASES = [
    (kernels.matmul, [(256, 256), (256, 256)], {}),
    (kernels.matmul, [(33, 100), (17, 100)], {}),
    (kernels.linear_silu, [(128, 256), (192, 256)], {}),
    (kernels.softmax, [(256, 256)], {}),
    (kernels.swiglu, [(64, 96), (80, 96), (80, 96)], {}),
    (attention, [(2, 200, 64), (2, 150, 64), (2, 150, 64)], {"block": 64, "keys": 64, "nk": 2}),
    (causal, [(200, 64), (200, 64), (200, 20)], {"nk": 2}),
    (mlp, [(100, 64), (200, 64), (48, 200)], {"block": 32, "hidden": 64}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
@pytest.mark.parametrize("name", ["tiny", "small", "duo"])
def test_within_five_percent(case: Any, name: str) -> None:
    kernel, shapes, knobs = case
    machine = preset(name)
    args = [gaussian(n, *shape) for n, shape in enumerate(shapes)]
    if name == "tiny" and kernel is attention:
        knobs = {**knobs, "block": 16}
    compiled = compile_kernel(kernel, [spec_of(a) for a in args], knobs, machine)
    cycles = Launch(compiled, args, machine).run().cycles
    assert abs(compiled.plan.cycles - cycles) <= 0.05 * cycles + 40


def gemm(**options: Any) -> Emit:
    operands = {"a": 0, "b": 0, "acc": 0, "gm": 4, "gn": 4, "nk": 1}
    return Emit(isa.GEMM, operands, **options)


def test_semaphores_order_two_units() -> None:
    machine = preset("small")
    one = costs.gemm(machine, 4, 4, 1).cycles
    alone = stage_cycles({0: [gemm()]}, machine)
    assert alone == one + costs.GEMM
    # The second unit's contraction starts when the first one's post has crossed.
    items = {0: [gemm(posts=((2, 5),))], 2: [gemm(waits=((5, 1),))]}
    assert stage_cycles(items, machine) == 2 * (one + costs.GEMM) + costs.POST
    # Without waiting they overlap.
    assert stage_cycles({0: [gemm()], 2: [gemm()]}, machine) == alone


def test_two_engines_at_one_semaphore_are_an_internal_error() -> None:
    machine = preset("small")
    drain = Emit(isa.SYNC, {"engine": 2}, ((5, 1),))
    items = {0: [Loop("n", 2, [gemm(waits=((5, 1),)), drain])]}
    with pytest.raises(InternalError, match="two engines of unit 0 wait for semaphore 5"):
        stage_cycles(items, machine)


def test_a_long_stage_is_extrapolated() -> None:
    machine = preset("small")
    one = costs.gemm(machine, 4, 4, 1).cycles
    found = stage_cycles({0: [Loop("n", 100_000, [gemm()])]}, machine)
    assert abs(found - 100_000 * one) <= 0.01 * 100_000 * one
