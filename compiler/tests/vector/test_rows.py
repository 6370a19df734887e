"""Rows and parts on the golden machine, to the bit, poisoned and interleaved by chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.tests.vector.expressions import expressions, numbers
from compiler.tests.vector.harness import Stage, const, op, same_bits, show
from compiler.tests.vector.reference import stored, value_of
from compiler.vector import choose_block
from kohakuaccel.ir.expr import Const, Symbol
from kohakuaccel.ir.nodes import Statement, Store
from kohakutpu.config import PRESETS, Machine

pytestmark = pytest.mark.golden

MACHINES = ("tiny", "small")
WIDTHS = (1, 2, 5, 16, 33, 100, 384, 1000, 1024, 4096)


def check(stage: Stage, body: list[Store], shape: tuple[int, int], seed: int | None) -> None:
    """Run ``body`` and compare every output with what its value means."""
    statements: list[Statement] = list(body)
    stage.run(statements, seed)
    for store in body:
        array = stage.arrays[store.view.buffer]
        if stage.batch:
            continue
        want = stored(shaped(value_of(store.value, stage.arrays, {}, shape), array), array)
        assert same_bits(want, array), f"{store.view.buffer.name} differs"


def shaped(values: Any, array: Any) -> Any:
    return values.reshape(-1) if array.ndim == 1 else values


def softmax(x: Any) -> Any:
    e = op("exp2", op("mul", op("sub", x, op("row_max", x)), const(1.4426950408889634)))
    return op("mul", e, op("recip", op("row_sum", e)))


def layernorm(x: Any, w: Any, b: Any, width: int) -> Any:
    t = op("sub", x, op("mul", op("row_sum", x), const(1 / width)))
    variance = op("mul", op("row_sum", op("mul", t, t)), const(1 / width))
    scaled = op("mul", t, op("rsqrt", op("add", variance, const(1e-5))))
    return op("add", op("mul", scaled, w), b)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("machine", MACHINES)
def test_row_functions_at_every_width(machine: str, width: int) -> None:
    rng = np.random.default_rng(width)
    stage = Stage(PRESETS[machine], size=Symbol("n", "knob"))
    rows = 11
    x = stage.add("x", rng.standard_normal((rows, width)).astype(np.float16))
    w = stage.add("w", rng.standard_normal(width).astype(np.float16))
    b = stage.add("b", rng.standard_normal(width).astype(np.float16))
    y = stage.add("y", np.zeros((rows, width), np.float16), "out")
    z = stage.add("z", np.zeros((rows, width), np.float16), "out")
    value = stage.load(x)
    for body in (
        [stage.store(y, softmax(value))],
        [
            stage.store(
                z, layernorm(value, stage.load(w, "channel"), stage.load(b, "channel"), width)
            )
        ],
    ):
        stage.env[stage.size] = choose_block(body, stage.size, stage.context())
        check(stage, body, (rows, width), None)
        check(stage, body, (rows, width), width)


class Case(NamedTuple):
    """A stage, its statements, rows and width, and the adversary's seed."""

    stage: Stage
    body: list[Store]
    shape: tuple[int, int]
    seed: int | None

    def __repr__(self) -> str:
        stores = "; ".join(f"{s.view.buffer.name} <<= {show(s.value)}" for s in self.body)
        return f"{self.stage} {self.shape} seed {self.seed}: {stores}"


@st.composite
def row_stages(draw: Any) -> Case:
    machine = PRESETS[draw(st.sampled_from(MACHINES))]
    if draw(st.booleans()):  # registers that hold little, so that temporaries go to L1
        machine = Machine("odd", machine.mesh, lanes=machine.lanes, registers=24, vl1_words=2048)
    rows, width = draw(st.integers(1, 9)), draw(st.sampled_from((1, 2, 5, 16, 33, 40)))
    stage = Stage(machine, size=Const(draw(st.sampled_from((1, 2, 4, 8)))))
    dtypes = st.sampled_from((np.float16, np.float16, np.float32))
    leaves = []
    for name in ("x", "y", "z")[: draw(st.integers(1, 3))]:
        array = numbers(draw, rows, width, dtype=draw(dtypes))
        leaves.append(stage.load(stage.add(name, array)))
    extra = {
        "channel": lambda: stage.load(stage.add("w", numbers(draw, width)), "channel"),
        "second": lambda: stage.load(stage.add("v", numbers(draw, width)), "channel"),
        "column": lambda: stage.load(
            stage.add("s", numbers(draw, rows, 1, dtype=draw(dtypes))), "column"
        ),
        "scalar": lambda: stage.load(stage.add("t", numbers(draw).reshape(())), "scalar"),
    }
    if stage.size.value % 4 == 0:
        extra["flat column"] = lambda: stage.load(stage.add("r", numbers(draw, rows)), "column")
    for name in draw(st.sets(st.sampled_from(sorted(extra)))):
        leaves.append(extra[name]())
    values = draw(expressions(leaves, rows=True))
    body = []
    for number, value in enumerate(
        [values[-1], *draw(st.lists(st.sampled_from(values), max_size=2))]
    ):
        dtype = draw(dtypes)
        if value.extent in ("row", "scalar") and draw(st.booleans()):
            flat = stage.size.value % 4 == 0 and draw(st.booleans())
            out = np.zeros(rows if flat else (rows, 1), dtype)
            body.append(stage.store(stage.add(f"o{number}", out, "out"), value, "column"))
        else:
            out = np.zeros((rows, width), dtype)
            body.append(stage.store(stage.add(f"o{number}", out, "out"), value))
    return Case(stage, body, (rows, width), draw(st.one_of(st.none(), st.integers(0, 1000))))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(row_stages())
def test_any_expression_over_rows(case: Case) -> None:
    check(*case)


@st.composite
def part_stages(draw: Any) -> Case:
    machine = PRESETS[draw(st.sampled_from(MACHINES))]
    rows, width = draw(st.sampled_from(((1, 5), (1, 100), (3, 16), (7, 64), (5, 13), (4, 33))))
    n = draw(st.sampled_from((16, 32, 48, 64, 112, 1024)))
    stage = Stage(machine, kind="parts", size=Const(n))
    shape = (width,) if rows == 1 else (rows, width)
    alike = width % 16 == 0 or rows == 1 or width == 13
    dtypes = st.sampled_from((np.float16, np.float32) if alike else (np.float16,))
    leaves = [
        stage.load(stage.add(name, numbers(draw, *shape, dtype=draw(dtypes))))
        for name in ("x", "y", "z")[: draw(st.integers(1, 3))]
    ]
    if draw(st.booleans()):
        leaves.append(stage.load(stage.add("t", numbers(draw).reshape(())), "scalar"))
    values = draw(expressions(leaves, rows=False))
    out = stage.add("flat", np.zeros(shape, draw(dtypes)), "out")
    body = [stage.store(out, values[-1])]
    return Case(stage, body, (rows, width), draw(st.one_of(st.none(), st.integers(0, 1000))))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(part_stages())
def test_any_expression_over_parts(case: Case) -> None:
    check(*case)
