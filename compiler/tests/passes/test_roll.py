"""Rolled programs hand their engines what the tree says, instruction by instruction."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.passes.registers import window_size
from compiler.passes.roll import Line, roll
from compiler.passes.simplify import simplify
from compiler.program import (
    Advance,
    Affine,
    Emit,
    Left,
    Loop,
    Nonzero,
    Ring,
    UnitTree,
    Window,
)
from kohakuaccel.errors import CapacityError, InternalError
from kohakutpu import isa
from kohakutpu.isa.operands import FLAG, MEMORY

MASK = (1 << 34) - 1


def base_of(operand: int) -> int:
    """Where an operand lies, in quarters."""
    return 4 * 40961 * (operand + 1)


def evaluate(value: Affine, index: dict[Loop, int], places: dict[Ring, int]) -> int:
    total = value.constant + sum(stride * index[loop] for loop, stride in value.terms)
    if value.operand is not None:
        total += base_of(value.operand)
    if value.ring is not None:
        total += value.ring.base + value.ring.size * places.get(value.ring, 0)
    return total


def run_tree(body: list[Any]) -> list[tuple[Any, ...]]:
    """The engine instructions of a tree, in order, every operand a number."""
    out: list[tuple[Any, ...]] = []
    index: dict[Loop, int] = {}
    places: dict[Ring, int] = {}

    def resolve(emit: Emit, name: str, value: Any) -> Any:
        kind = emit.record.by_name[name].kind
        if isinstance(value, Affine):
            return evaluate(value, index, places) & MASK
        if isinstance(value, Left):
            left = value.limit - evaluate(value.position, index, places)
            return max(0, min(window_size(emit, name), left))
        if isinstance(value, Nonzero):
            return evaluate(value.position, index, places) != 0
        if isinstance(value, Window):
            base = evaluate(value.base, index, places) if value.kind not in ("none", "imm") else 0
            return (value.kind, base, value.stride, value.value)
        assert kind is not MEMORY
        return value

    def visit(items: list[Any]) -> None:
        for item in items:
            if isinstance(item, Loop):
                for number in range(item.count):
                    index[item] = number
                    visit(item.body)
                index.pop(item, None)
            elif isinstance(item, Advance):
                places[item.ring] = (places.get(item.ring, 0) + 1) % item.ring.slots
            else:
                values = {n: resolve(item, n, v) for n, v in item.operands.items()}
                out.append((item.record.name, values, item.waits, item.posts))

    visit(body)
    return out


def run_lines(lines: list[Line]) -> list[tuple[Any, ...]]:
    """The same of a program, by a front end without a queue."""
    out: list[tuple[Any, ...]] = []
    a = [0] * 16
    stack: list[list[int]] = []
    pc = 0

    def resolve(instruction: Any, value: Any, emit: Any, name: str) -> Any:
        if isinstance(value, isa.Address):
            return (a[value.reg] + value.imm) & MASK
        if isinstance(value, isa.Extent):
            signed = a[value.reg] - (1 << 34) if a[value.reg] >> 33 else a[value.reg]
            return max(0, min(window_size(emit, name), value.limit - signed))
        if isinstance(value, isa.Flag):
            return value.imm or a[value.reg] != 0
        if isinstance(value, (isa.Source, isa.Destination)):
            number = value.value if isinstance(value, isa.Source) else 0.0
            base = (a[value.base.reg] + value.base.imm) & MASK
            return (value.kind, base, value.stride, number)
        return value

    while True:
        instruction = lines[pc].instruction
        kind = instruction.name
        if kind == "HALT":
            assert pc == len(lines) - 1
            assert not stack
            return out
        if kind == "SETA":
            operand = lines[pc].operand
            a[instruction.rd] = (
                instruction.imm + (0 if operand is None else base_of(operand))
            ) & MASK
        elif kind == "ADDA":
            value = (a[instruction.rs] + instruction.imm) & MASK
            if instruction.modulo and value >= instruction.modulo:
                value -= instruction.modulo
            a[instruction.rd] = value
        elif kind == "LOOP":
            assert instruction.count.reg == 0
            assert instruction.count.imm > 1
            stack.append([pc, instruction.count.imm])
            assert len(stack) <= 8
        elif kind == "END":
            stack[-1][1] -= 1
            if stack[-1][1]:
                pc = stack[-1][0]
            else:
                stack.pop()
        else:
            operands = instruction.operands
            waits = tuple((w.semaphore, w.count) for w in operands.pop("waits"))
            posts = tuple((p.node, p.semaphore) for p in operands.pop("posts"))
            emit = Emit(instruction.record, operands)
            values = {n: resolve(instruction, v, emit, n) for n, v in operands.items()}
            out.append((kind, values, waits, posts))
        pc += 1


class Trees:
    """Random trees that the contract of ``compiler.program`` allows."""

    def __init__(self, seed: int, rings: int = 3, depth: int = 4) -> None:
        self.random = Random(seed)
        self.depth = depth
        shapes = [(self.random.choice([16, 40, 128]), self.random.choice([1, 2, 2, 3]))] * 2
        shapes.append((8, 2))
        self.rings = [
            Ring(f"ring{i}", 512 * i, size, slots) for i, (size, slots) in enumerate(shapes[:rings])
        ]
        self.forms: list[Affine] = []

    def affine(self, chain: list[Loop], big: bool, ring: bool = False) -> Affine:
        r = self.random
        if self.forms and r.random() < 0.3:
            # the same form again, as far as it means something here
            form = r.choice(self.forms)
            if all(loop in chain for loop, _ in form.terms) and (big or form.operand is None):
                return form
        terms: list[tuple[Loop, int]] = []
        for loop in chain:
            if r.random() < 0.5:
                terms.append((loop, r.choice([0, 1, 4, 8, 64] if not big else [4, 100, -12, 4096])))
        if terms and r.random() < 0.1:
            terms.append(terms[0])
        if ring:
            return Affine(r.choice([0, 0, 5]), (), None, r.choice(self.rings))
        operand = r.choice([None, 0, 1, 2]) if big else None
        constant = 1 << 16 if big else r.choice([0, 0, 32, 7])
        form = Affine(constant, tuple(terms), operand)
        self.forms.append(form)
        return form

    def local(self, chain: list[Loop]) -> Affine:
        return self.affine(chain, big=False, ring=self.random.random() < 0.5)

    def left(self, chain: list[Loop]) -> Left:
        position = self.affine(chain, big=self.random.random() < 0.3)
        if position.operand is not None:
            position = Affine(position.constant, position.terms)
        return Left(self.random.choice([0, 1, 33, 100, 70000, 1 << 26]), position)

    def emit(self, chain: list[Loop]) -> Emit:
        r = self.random
        semaphores: dict[str, Any] = {
            "waits": ((r.randrange(4), 1),),
            "posts": ((0, r.randrange(4)),),
        }
        kind = r.randrange(5)
        if kind == 0:
            operands: dict[str, Any] = {
                "buffer": r.choice("AB"), "l1": self.local(chain), "l1_stride": 4,
                "mem": self.affine(chain, big=True), "stride": 3, "g": r.choice([1, 2, 30]),
                "nk": r.choice([1, 3]), "rows": self.left(chain), "k": self.left(chain),
                "mode": "fp16", "transpose": False, "nodes": 0,
            }  # fmt: skip
            return Emit(isa.FILL, operands, **semaphores)
        if kind == 1:
            position = self.affine(chain, big=False)
            flag: Any = r.choice([True, False, Nonzero(position), Nonzero(position.plus(1))])
            operands = {
                "a": self.local(chain), "b": self.local(chain), "acc": self.local(chain),
                "gm": 2, "gn": 3, "nk": 1, "a_stride": 4, "b_stride": 4, "accumulate": flag,
            }  # fmt: skip
            return Emit(isa.GEMM, operands, **semaphores)
        if kind == 2:
            operands = {
                "rows": 8, "cols": 33, "f": "mac", "a": Window("l1h", self.local(chain), 3),
                "b": Window("imm", value=0.5), "c": Window("row", self.local(chain)),
                "unary": "none", "dst": Window("reg", self.local(chain), 9),
                "reduce": "sum", "red": self.local(chain),
            }  # fmt: skip
            return Emit(isa.EXEC, operands, **semaphores)
        if kind == 3:
            return Emit(isa.SYNC, {"engine": r.randrange(3)}, **semaphores)
        operands = {
            "l1": self.local(chain), "l1_stride": 8, "rows": 16, "row_extent": self.left(chain),
            "cols": 100, "col_extent": self.left(chain), "format": "fp16", "order": "row",
            "to": "memory", "mem": self.affine(chain, big=True), "stride": 7, "nodes": 0,
            "buffer": "vector", "residual": False,
        }  # fmt: skip
        return Emit(isa.VDRAIN, operands, **semaphores)

    def body(self, chain: list[Loop]) -> list[Any]:
        r = self.random
        result: list[Any] = []
        for _ in range(r.choice([1, 2, 2, 3])):
            what = r.random()
            if what < 0.45 and len(chain) < self.depth:
                loop = Loop(f"l{len(chain)}", r.choice([0, 1, 2, 3, 3, 5]))
                loop.body = self.body([*chain, loop])
                result.append(loop)
            elif what < 0.6:
                result.extend(Advance(ring) for ring in r.sample(self.rings, r.randrange(1, 3)))
            else:
                result.append(self.emit(chain))
        return result


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 1 << 32))
def test_programs_do_what_their_trees_say(seed: int) -> None:
    body = Trees(seed).body([])
    expected = run_tree(body)
    try:
        lines = roll(UnitTree(3, "C", simplify(body)))
    except CapacityError as error:
        refused = error
    else:
        assert run_lines(lines) == expected
        return
    numbers = re.findall(r"(\d+) address registers .* (\d+)$", refused.message)[0]
    needs, there_are = map(int, numbers)
    assert needs == len(refused.notes) > there_are


def gemm(**operands: Any) -> Emit:
    zero = Affine()
    given = {
        "a": zero, "b": zero, "acc": zero, "gm": 1, "gn": 1, "nk": 1,
        "a_stride": 1, "b_stride": 1, "accumulate": False, **operands,
    }  # fmt: skip
    return Emit(isa.GEMM, given)


def fill(**operands: Any) -> Emit:
    given = {
        "buffer": "A", "l1": Affine(), "l1_stride": 1, "mem": Affine(), "stride": 1, "g": 1,
        "nk": 1, "rows": Left(4), "k": Left(32), "mode": "fp16", "transpose": False, "nodes": 0,
        **operands,
    }  # fmt: skip
    return Emit(isa.FILL, given)


def names(lines: list[Line]) -> list[str]:
    return [line.instruction.name for line in lines]


def test_a_walk_over_a_matrix_by_hand() -> None:
    i, k = Loop("i", 10), Loop("k", 6)
    i.body, k.body = [k], [fill(mem=Affine(8, ((i, 400), (k, 16)), operand=2))]
    lines = roll(UnitTree(0, "C", [i]))
    # The way back (6 * 16) and the step of i are one ADDA.
    assert names(lines) == ["SETA", "LOOP", "LOOP", "FILL", "ADDA", "END", "ADDA", "END", "HALT"]
    assert lines[0].instruction == isa.SETA(1, 0)
    assert lines[0].operand == 2
    assert lines[3].instruction.mem == isa.Address(1, 8)
    assert lines[4].instruction == isa.ADDA(1, 1, 16)
    assert lines[6].instruction == isa.ADDA(1, 1, 400 - 96)


def test_a_contiguous_walk_owes_nothing() -> None:
    i, k = Loop("i", 10), Loop("k", 6)
    i.body, k.body = [k], [fill(mem=Affine(0, ((i, 96), (k, 16)), operand=0))]
    lines = roll(UnitTree(0, "C", [i]))
    assert names(lines) == ["SETA", "LOOP", "LOOP", "FILL", "ADDA", "END", "END", "HALT"]


def test_a_use_before_the_way_back_is_paid_has_it_in_its_immediate() -> None:
    i, k = Loop("i", 10), Loop("k", 6)
    k.body = [fill(mem=Affine(500, ((i, 400), (k, 16)), operand=0))]
    i.body = [k, fill(mem=Affine(800, ((i, 400),), operand=0), rows=Left(9, Affine(0, ((i, 1),))))]
    lines = roll(UnitTree(0, "C", [i]))
    assert names(lines) == [
        "SETA", "LOOP", "LOOP", "FILL", "ADDA", "END", "FILL", "ADDA", "ADDA", "END", "HALT",
    ]  # fmt: skip
    assert lines[6].instruction.mem == isa.Address(1, 800 - 96)
    assert lines[7].instruction == isa.ADDA(1, 1, 400 - 96)


def test_rings_of_one_shape_share_a_register() -> None:
    a, b = Ring("a", 0, 64, 2), Ring("b", 256, 64, 2)
    k = Loop("k", 5)
    k.body = [gemm(a=Affine(ring=a), b=Affine(ring=b)), Advance(a), Advance(b)]
    lines = roll(UnitTree(0, "C", [k]))
    assert names(lines) == ["LOOP", "GEMM", "ADDA", "END", "HALT"]
    assert lines[1].instruction.a == isa.Address(1, 0)
    assert lines[1].instruction.b == isa.Address(1, 256)
    assert lines[2].instruction == isa.ADDA(1, 1, 64, modulo=128)


def test_a_flag_shares_the_register_of_a_position() -> None:
    k = Loop("k", 4)
    k.body = [
        gemm(accumulate=Nonzero(Affine(0, ((k, 1),)))),
        fill(k=Left(100, Affine(0, ((k, 32),)))),
    ]
    lines = roll(UnitTree(0, "C", [k]))
    assert names(lines) == ["LOOP", "GEMM", "FILL", "ADDA", "END", "HALT"]
    assert lines[1].instruction.accumulate == isa.Flag(False, 1)
    assert lines[2].instruction.k == isa.Extent(100, 1)


def test_an_extent_that_never_bites_needs_no_register() -> None:
    k = Loop("k", 4)
    k.body = [fill(k=Left(128, Affine(0, ((k, 32),))))]
    lines = roll(UnitTree(0, "C", [k]))
    assert names(lines) == ["LOOP", "FILL", "END", "HALT"]
    assert lines[1].instruction.k == isa.Extent(32, 0)


def crowd(count: int, moving: bool) -> list[Any]:
    i = Loop("i", 3)
    i.body = [
        fill(mem=Affine(0, ((i, 4 + n),) if moving else ((i, 4),) if n == 0 else (), operand=n))
        for n in range(count)
    ]
    return [i]


def test_fifteen_registers_are_enough_for_fifteen_walks() -> None:
    lines = roll(UnitTree(0, "C", crowd(15, moving=True)))
    assert {line.instruction.mem.reg for line in lines if line.instruction.name == "FILL"} == set(
        range(1, 16)
    )


def test_sixteen_walks_are_refused_with_the_table() -> None:
    with pytest.raises(
        CapacityError, match="needs 16 address registers at once, there are 15"
    ) as e:
        roll(UnitTree(0, "C", crowd(16, moving=True)))
    assert str(e.value).count("FILL mem, operand") == 16


def test_constants_are_set_before_each_use_when_registers_are_short() -> None:
    body = crowd(30, moving=False)
    expected = run_tree(body)
    lines = roll(UnitTree(0, "C", body))
    assert run_lines(lines) == expected


def test_nine_loops_are_too_deep() -> None:
    body: list[Any] = [gemm()]
    for depth in range(9):
        body = [Loop(f"l{depth}", 2, body)]
    with pytest.raises(CapacityError, match="nest deeper than 8"):
        roll(UnitTree(0, "C", body))


def test_a_term_of_a_loop_elsewhere_is_an_internal_error() -> None:
    i, j = Loop("i", 3), Loop("j", 3)
    i.body, j.body = [gemm(a=Affine(0, ((j, 1),)))], [gemm()]
    with pytest.raises(InternalError, match="not around it"):
        roll(UnitTree(0, "C", [i, j]))


def test_flags_that_are_numbers() -> None:
    assert isa.GEMM.by_name["accumulate"].kind is FLAG
    lines = roll(UnitTree(0, "C", [gemm(accumulate=True), gemm(accumulate=Nonzero(Affine()))]))
    assert [line.instruction.accumulate for line in lines[:2]] == [
        isa.Flag(True, 0),
        isa.Flag(False, 0),
    ]
