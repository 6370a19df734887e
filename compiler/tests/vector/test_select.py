"""How many instructions an expression takes, and which rewrites are allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.program import Emit
from compiler.tests.vector.harness import Stage, const, op, same_bits, show
from compiler.tests.vector.reference import stored, value_of
from compiler.tests.vector.test_rows import layernorm, softmax
from compiler.vector.fold import fold
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const
from kohakuaccel.ir.nodes import Statement, Value
from kohakutpu import isa
from kohakutpu.config import PRESETS

LOG2_E = 1.4426950408889634


class Rows:
    """A stage of rows with the operands that the expressions below name."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.stage = Stage(PRESETS["small"], size=Const(8))
        arrays = {
            "x": (8, 64),
            "y": (8, 64),
            "z": (8, 64),
            "w": (64,),
            "b": (64,),
            "s": (8, 1),
            "t": (),
        }
        made = {
            name: self.stage.add(name, rng.standard_normal(shape).astype(np.float16))
            for name, shape in arrays.items()
        }
        kinds = {"w": "channel", "b": "channel", "s": "column", "t": "scalar"}
        self.leaves = {n: self.stage.load(b, kinds.get(n)) for n, b in made.items()}
        self.outs = 0

    def __getattr__(self, name: str) -> Value:
        return self.leaves[name]

    def lower(self, *values: Value) -> tuple[list[Emit], list[Emit]]:
        """Return the EXECs of prologue and body, after checking the results."""
        body = []
        for value in values:
            out = self.stage.add(f"o{self.outs}", np.zeros((8, 64), np.float16), "out")
            self.outs += 1
            body.append(self.stage.store(out, value))
        statements: list[Statement] = list(body)
        lowering = self.stage.run(statements)
        for store in body:
            array = self.stage.arrays[store.view.buffer]
            want = value_of(store.value, self.stage.arrays, {}, (8, 64))
            assert same_bits(stored(want, array), array), show(store.value)
        return executed(lowering.prologue), executed(lowering.body)


def executed(items: Any) -> list[Emit]:
    return [item for item in items if isinstance(item, Emit) and item.record is isa.EXEC]


def sigmoid(x: Value) -> Value:
    return op("recip", op("add", op("exp2", op("mul", x, const(-LOG2_E))), const(1.0)))


def gelu(x: Value) -> Value:
    inner = op("add", op("mul", op("mul", x, x), const(-0.1)), const(-2.3))
    return op("mul", x, op("recip", op("add", op("exp2", op("mul", x, inner)), const(1.0))))


CASES: dict[str, tuple[Any, int, int]] = {
    "copy": (lambda r: r.x, 0, 1),
    "constant": (lambda _: op("mul", const(3.0), op("recip", const(3.0))), 0, 1),
    "multiply-add": (lambda r: op("add", op("mul", r.x, r.x), const(2.0)), 0, 1),
    "multiply-add of three windows": (lambda r: op("add", op("mul", r.x, r.y), r.z), 0, 2),
    "unary on top": (lambda r: op("exp2", op("add", op("mul", r.x, r.y), const(1.0))), 0, 1),
    "subtract": (lambda r: op("sub", r.x, r.y), 0, 1),
    "subtract a constant": (lambda r: op("sub", r.x, const(2.0)), 0, 1),
    "subtract from a constant": (lambda r: op("sub", const(2.0), r.x), 0, 1),
    "subtract a scaled": (lambda r: op("sub", r.x, op("mul", r.y, const(0.5))), 0, 1),
    "negate": (lambda r: op("neg", op("max", r.x, r.y)), 0, 1),
    "negated factor": (lambda r: op("mul", op("neg", r.x), r.y), 0, 1),
    "relu of a sum": (lambda r: op("max", op("add", r.x, r.y), const(0.0)), 0, 2),
    "bias and scale": (lambda r: op("add", op("mul", r.x, r.w), r.b), 1, 1),
    "channel arithmetic is done once": (
        lambda r: op("add", r.x, op("mul", op("exp2", r.w), r.b)),
        2,
        1,
    ),
    "scalar": (lambda r: op("mul", r.x, r.t), 2, 1),
    "column": (lambda r: op("mul", r.x, op("recip", r.s)), 2, 1),
    "silu": (lambda r: op("mul", r.x, sigmoid(r.x)), 0, 3),
    "gelu": (lambda r: gelu(r.x), 0, 5),
    "softmax": (lambda r: softmax(r.x), 0, 5),
    "layernorm": (lambda r: layernorm(r.x, r.w, r.b, 64), 1, 6),
    "sum of squares": (lambda r: op("mul", r.x, op("row_sum", op("mul", r.x, r.x))), 0, 2),
    "two reductions of one value": (
        lambda r: op(
            "sub",
            op("row_max", op("mul", r.x, r.y)),
            op("row_min", op("mul", r.x, r.y)),
        ),
        0,
        4,
    ),
}


@pytest.mark.golden
@pytest.mark.parametrize("name", CASES)
def test_number_of_instructions(name: str) -> None:
    make, before, inside = CASES[name]
    rows = Rows()
    prologue, body = rows.lower(make(rows))
    assert (len(prologue), len(body)) == (before, inside)


@pytest.mark.golden
def test_common_subexpressions_are_computed_once() -> None:
    rows = Rows()
    once = op("exp2", op("add", rows.x, rows.y))
    again = op("exp2", op("add", rows.x, rows.y))
    _, body = rows.lower(op("mul", once, rows.z), op("add", again, rows.z))
    assert len(body) == 3
    assert sum(emit.operands["unary"] == "exp2" for emit in body) == 1


@pytest.mark.golden
def test_a_reduction_rides_on_the_pass_that_stores() -> None:
    rows = Rows()
    value = op("mul", rows.x, rows.y)
    total = rows.stage.add("total", np.zeros((8, 1), np.float16), "out")
    out = rows.stage.add("out", np.zeros((8, 64), np.float16), "out")
    body = [
        rows.stage.store(out, value),
        rows.stage.store(total, op("row_sum", value), "column"),
    ]
    lowering = rows.stage.run([*body])
    emits = executed(lowering.body)
    assert len(emits) == 2
    assert emits[0].operands["reduce"] == "sum"
    want = value_of(body[1].value, rows.stage.arrays, {}, (8, 64))
    assert same_bits(stored(want, rows.stage.arrays[total]), rows.stage.arrays[total])


@pytest.mark.golden
def test_an_fp32_result_is_its_own_temporary() -> None:
    rows = Rows()
    value = op("mul", rows.x, rows.y)
    wide = rows.stage.add("wide", np.zeros((8, 64), np.float32), "out")
    half = rows.stage.add("half", np.zeros((8, 64), np.float16), "out")
    body = [rows.stage.store(wide, value), rows.stage.store(half, op("add", value, rows.z))]
    lowering = rows.stage.run([*body])
    first, second = executed(lowering.body)
    assert first.operands["dst"].kind == "l1f"
    assert second.operands["a"] == first.operands["dst"]
    for store in body:
        array = rows.stage.arrays[store.view.buffer]
        assert same_bits(
            stored(value_of(store.value, rows.stage.arrays, {}, (8, 64)), array), array
        )


@pytest.mark.unit
def test_constants_fold_with_the_machines_arithmetic() -> None:
    one, third = 0x3F800000, 0x3EAAAAAB
    assert fold("mul", (one, third)) == third
    assert fold("add", (0x80000000, 0x80000000)) == 0x80000000
    assert fold("recip", (0x80000000,)) == 0xFF800000
    assert fold("mul", (0x00000001, one)) == 0  # a subnormal is zero
    assert fold("select", (one, third, 0x80000000)) == third
    assert fold("max", (0x7F800001, one)) == 0x7FC00000


@pytest.mark.unit
def test_a_whole_value_does_not_fit_a_column() -> None:
    rows = Rows()
    out = rows.stage.add("out", np.zeros((8, 1), np.float16), "out")
    with pytest.raises(KernelError, match=r"`out` takes one value a row(.|\n)*row_sum"):
        rows.stage.run([rows.stage.store(out, op("exp2", rows.x), "column")])
