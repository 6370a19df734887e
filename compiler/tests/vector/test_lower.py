"""Loops, batches, groups, limits, and that no semaphore can be missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.program import Emit, Loop, UnitTree
from compiler.tests.vector.harness import (
    HERE,
    Stage,
    const,
    load,
    op,
    run_trees,
    same_bits,
)
from compiler.tests.vector.reference import stored, value_of
from compiler.tests.vector.test_rows import check, layernorm, softmax
from compiler.vector import choose_block, places
from kohakuaccel.errors import CapacityError, KernelError
from kohakuaccel.ir.expr import Const, Symbol, binary
from kohakuaccel.ir.nodes import Buffer, Index, Repeat, Statement, Store, Tiling, View
from kohakutpu import isa
from kohakutpu.config import PRESETS, Machine
from kohakutpu.model import Fault

pytestmark = pytest.mark.golden
SMALL, TINY = PRESETS["small"], PRESETS["tiny"]


def halves(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("seed", [None, 3])
def test_batches_repeat_an_instance_and_may_share_operands(seed: int | None) -> None:
    stage = Stage(TINY, size=Const(4), batch=(2, 3))
    arrays = {"x": halves(2, 3, 10, 20), "w": halves(2, 1, 20), "b": halves(20)}
    buffers = {}
    for name, array in arrays.items():
        own = array.shape[2:] if name != "b" else array.shape
        buffers[name] = Buffer(name, "in", tuple(map(Const, own)), "fp16", HERE, name != "b")
        stage.arrays[buffers[name]] = array
    out = Buffer("o", "out", (Const(10), Const(20)), "fp16", HERE, True)
    stage.arrays[out] = np.zeros((2, 3, 10, 20), np.float16)
    stage.tiled = buffers["x"]
    scaled = op("mul", stage.load(buffers["x"]), stage.load(buffers["w"], "channel"))
    value = op("add", softmax(scaled), stage.load(buffers["b"], "channel"))
    lowering = stage.run([stage.store(out, value)], seed)
    assert {p.name for p in lowering.placements if p.role == "resident"} == {"b"}
    for one in range(2):
        for other in range(3):
            now = {
                buffers["x"]: arrays["x"][one, other],
                buffers["w"]: arrays["w"][one, 0],
                buffers["b"]: arrays["b"],
            }
            want = stored(value_of(value, now, {}, (10, 20)), arrays["x"][0, 0])
            assert same_bits(want, stage.arrays[out][one, other])


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_loop_inside_an_instance(seed: int | None) -> None:
    # Instance r handles rows 3r .. 3r + 2 one by one, and a scalar row besides.
    stage = Stage(TINY, size=Const(3))
    x, s = stage.add("x", halves(12, 40)), stage.add("s", halves(12, 1))
    y = stage.add("y", np.zeros((12, 40), np.float16), "out")
    z = stage.add("z", np.zeros((12, 1), np.float16), "out")
    step = Symbol("t", "index")
    inner = binary("+", binary("*", stage.symbol, 3), step)

    def row(of: Buffer) -> View:
        return View(of, "rows", (inner,), (Tiling("rows", of, Const(1), Const(0)),), HERE)

    looped = Store(HERE, row(y), softmax(load(row(x))))
    after = stage.store(z, op("mul", stage.load(s, "column"), const(3.0)), "column")
    body: list[Statement] = [
        Repeat(HERE, Index(step, Const(3), None, HERE), [looped]),
        after,
    ]
    stage.run(body, seed)
    for store in (looped, after):
        array = stage.arrays[store.view.buffer]
        want = stored(value_of(store.value, stage.arrays, {}, (12, 40)), array)
        assert same_bits(want, array)


@pytest.mark.parametrize("seed", [None, 7])
def test_statements_over_blocks_of_different_widths(seed: int | None) -> None:
    stage = Stage(TINY, size=Const(4))
    x, y = stage.add("x", halves(10, 40)), stage.add("y", halves(10, 7, seed=1))
    p = stage.add("p", np.zeros((10, 40), np.float16), "out")
    q = stage.add("q", np.zeros((10, 7), np.float16), "out")
    first, second = stage.store(p, softmax(stage.load(x))), stage.store(q, softmax(stage.load(y)))
    stage.run([first, second], seed)
    for store, width in ((first, 40), (second, 7)):
        array = stage.arrays[store.view.buffer]
        assert same_bits(stored(value_of(store.value, stage.arrays, {}, (10, width)), array), array)


def test_an_expression_of_any_depth() -> None:
    stage = Stage(SMALL, size=Const(4))
    x = stage.add("x", halves(6, 33))
    y = stage.add("y", np.zeros((6, 33), np.float16), "out")
    value = stage.load(x)
    for step in range(1200):
        value = op("max", op("mul", value, const(1.0 + step % 3)), const(-1.0))
        value = op("min", value, const(1.0))
    check(stage, [stage.store(y, value)], (6, 33), None)


def test_more_temporaries_than_registers_hold() -> None:
    machine = Machine("few", TINY.mesh, lanes=4, registers=16, vl1_words=2048)
    stage = Stage(machine, size=Const(4))
    xs = [stage.load(stage.add(f"x{i}", halves(6, 40, seed=i))) for i in range(3)]
    y = stage.add("y", np.zeros((6, 40), np.float16), "out")
    products = [op("exp2", op("add", a, b)) for a in xs for b in xs]
    triples = zip(products, products[1:], products[2:], strict=False)
    picked = [op("select", *triple) for triple in triples]
    value = picked[0]
    for other in (*picked[1:], *products):
        value = op("max", op("add", op("mul", value, other), products[0]), other)
    lowering = stage.run([stage.store(y, value)])
    assert any("temporaries of" in note for note in lowering.notes)
    want = stored(value_of(value, stage.arrays, {}, (6, 40)), stage.arrays[y])
    assert same_bits(want, stage.arrays[y])


@pytest.mark.parametrize("rows", [1, 2])
def test_three_wide_operands_go_through_registers_in_pieces(rows: int) -> None:
    machine = Machine("few", TINY.mesh, lanes=4, registers=64, vl1_words=4096)
    stage = Stage(machine, size=Const(rows))
    a, b, c = (stage.load(stage.add(n, halves(5, 1000, seed=i))) for i, n in enumerate("abc"))
    y = stage.add("y", np.zeros((5, 1000), [np.float16, np.float32][rows - 1]), "out")
    z = stage.add("z", np.zeros((5, 1000), np.float16), "out")
    multiplied = stage.store(y, op("add", op("mul", a, b), c))
    selected = stage.store(z, op("select", a, b, c))
    lowering = stage.run([multiplied, selected], seed=rows)
    loops = [item for item in lowering.body if isinstance(item, Loop)]
    assert len(loops) == 1 + (rows == 1)  # a product may wait in an FP32 output
    for store in (multiplied, selected):
        array = stage.arrays[store.view.buffer]
        assert same_bits(stored(value_of(store.value, stage.arrays, {}, (5, 1000)), array), array)


# ------------------------------------------------------------------- limits


def wide(machine: Machine, width: int, rows: int = 1) -> tuple[Stage, list[Any]]:
    stage = Stage(machine, size=Const(rows))
    x = stage.add("x", np.zeros((rows, width), np.float16))
    w, b = (stage.add(name, np.zeros(width, np.float16)) for name in "wb")
    y = stage.add("y", np.zeros((rows, width), np.float16), "out")
    value = layernorm(stage.load(x), stage.load(w, "channel"), stage.load(b, "channel"), width)
    return stage, [stage.store(y, value)]


def test_a_row_that_does_not_fit_says_what_would() -> None:
    stage, body = wide(TINY, 8000)
    with pytest.raises(CapacityError) as caught:
        stage.lower(body)
    text = str(caught.value)
    assert "3000 L1 words, 2048 are free" in text
    for line in ("`x` read: 500", "`w` read, for all instances: 500", "`y` written: 500"):
        assert line in text
    assert "temporaries that registers do not hold: 1000" in text
    width = int(text.split("a single row of ")[1].split()[0])
    stage, body = wide(TINY, width)
    stage.lower(body)
    stage, body = wide(TINY, width + 16)
    with pytest.raises(CapacityError):
        stage.lower(body)


def test_too_many_rows_say_how_many_fit() -> None:
    stage, body = wide(SMALL, 1024, 64)
    with pytest.raises(CapacityError, match=r"use rows\((\d+)\) or less") as caught:
        stage.lower(body)
    assert places([*body], stage.context()) == 0
    rows = int(str(caught.value).split("use rows(")[1].split(")")[0])
    stage, body = wide(SMALL, 1024, rows)
    assert places([*body], stage.context()) == 1
    few, of_few = wide(SMALL, 1024, 4)
    assert places([*of_few], few.context()) == 2
    lowering, _ = stage.lower(body)
    assert any(note.startswith("single-buffered") for note in lowering.notes)


def test_a_part_that_does_not_fit_says_which_does() -> None:
    stage = Stage(TINY, kind="parts", size=Const(32768))
    x = stage.add("x", np.zeros(1 << 17, np.float16))
    y = stage.add("y", np.zeros(1 << 17, np.float16), "out")
    body = [stage.store(y, op("exp2", stage.load(x)))]
    with pytest.raises(CapacityError, match=r"use parts\(16384\) or less"):
        stage.lower([*body])


def test_row_scalars_must_fit_registers() -> None:
    stage = Stage(TINY, size=Const(1000))
    x = stage.add("x", np.zeros((1000, 1), np.float16))
    y = stage.add("y", np.zeros((1000, 1), np.float16), "out")
    with pytest.raises(CapacityError, match=r"scalars of rows take \d+ registers, 128 are free"):
        stage.lower([stage.store(y, softmax(stage.load(x)))])


@pytest.mark.parametrize(("rows", "cols"), [(5000, 1), (1, 17000)])
def test_instruction_fields_limit_a_block(rows: int, cols: int) -> None:
    stage = Stage(SMALL, size=Const(rows))
    x = stage.add("x", np.zeros((rows, cols), np.float16))
    y = stage.add("y", np.zeros((rows, cols), np.float16), "out")
    with pytest.raises(KernelError, match=r"an instruction takes (4095|16383)"):
        stage.lower([stage.store(y, op("abs", stage.load(x)))])


def test_a_column_kept_in_one_row_is_cut_at_quarters() -> None:
    stage = Stage(SMALL, size=Const(3))
    x = stage.add("x", halves(9, 16))
    s = stage.add("s", halves(9))
    y = stage.add("y", np.zeros((9, 16), np.float16), "out")
    value = op("mul", stage.load(x), stage.load(s, "column"))
    with pytest.raises(KernelError, match=r"`s` is cut every 3 elements(.|\n)*multiple of 4"):
        stage.lower([stage.store(y, value)])


# ------------------------------------------------------------------- choices


@pytest.mark.parametrize("machine", ["tiny", "small", "quad"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1000), (1024, 1024), (100000, 3), (40, 4096)])
def test_chosen_blocks_fit_twice_and_occupy_every_core(
    machine: str, shape: tuple[int, int]
) -> None:
    stage = Stage(PRESETS[machine], size=Symbol("n", "knob"))
    x = stage.add("x", np.zeros(shape, np.float16))
    y = stage.add("y", np.zeros(shape, np.float16), "out")
    body = [stage.store(y, softmax(stage.load(x)))]
    n = choose_block(body, stage.size, stage.context())
    stage.env[stage.size] = n
    lowering, _ = stage.lower([*body])
    assert not any("single" in note for note in lowering.notes)
    instances = -(-shape[0] // n)
    cores = len(PRESETS[machine].of_kind("V"))
    if shape[0] * shape[1] >= 4096 * cores and shape[0] >= 2 * cores:
        assert instances >= 2 * cores
        assert instances % cores == 0 or instances > 8 * cores
    if shape == (1024, 1024):
        assert 2048 <= n * shape[1] <= 16384


@pytest.mark.parametrize("shape", [(1, 5), (1, 100000), (7, 13), (100, 100), (3, 50000)])
def test_chosen_parts_keep_clear_of_padding_where_rows_allow(shape: tuple[int, int]) -> None:
    stage = Stage(SMALL, kind="parts", size=Symbol("n", "knob"))
    x = stage.add("x", np.zeros(shape, np.float16))
    y = stage.add("y", np.zeros(shape, np.float16), "out")
    body = [stage.store(y, op("exp2", stage.load(x)))]
    n = choose_block(body, stage.size, stage.context())
    assert n % 16 == 0
    row = -(-shape[1] // 16) * 16
    if shape[0] > 1 and row <= 16368:
        assert n % row == 0
    stage.env[stage.size] = n
    stage.lower([*body])


# ---------------------------------------------------------------- semaphores


def emits(items: list[Any]) -> list[Emit]:
    found = []
    for item in items:
        if isinstance(item, Loop):
            found += emits(item.body)
        elif isinstance(item, Emit):
            found.append(item)
    return found


def test_no_wait_and_no_post_is_idle() -> None:
    """Without any one of them, some interleaving deadlocks, faults or computes something else."""

    def stage() -> tuple[Stage, Any, UnitTree]:
        made = Stage(TINY, size=Const(2))
        x, w = made.add("x", halves(12, 24)), made.add("w", halves(24))
        y = made.add("y", np.zeros((12, 24), np.float16), "out")
        store = made.store(y, op("mul", softmax(made.load(x)), made.load(w, "channel")))
        return made, store, made.lower([store])[1]

    made, store, tree = stage()
    want = stored(value_of(store.value, made.arrays, {}, (12, 24)), made.arrays[store.view.buffer])
    places = [
        (number, side, which)
        for number, emit in enumerate(emits(tree.body))
        for side in ("waits", "posts")
        for which in range(len(getattr(emit, side)))
    ]
    assert len(places) > 12
    for place in places:
        found = any(differs(*stage(), place, seed, want) for seed in range(12))
        assert found, f"instruction {place[0]} does not need {place[1]}[{place[2]}]"


def differs(
    made: Stage, store: Store, tree: UnitTree, place: tuple[int, str, int], seed: int, want: Any
) -> bool:
    number, side, which = place
    emit = emits(tree.body)[number]
    kept = [s for k, s in enumerate(getattr(emit, side)) if k != which]
    setattr(emit, side, tuple(kept))
    try:
        run_trees(made.machine, [tree], made.arrays, seed)
    except Fault:  # a deadlock is one
        return True
    return not same_bits(want, made.arrays[store.view.buffer])


def test_records_carry_the_users_line() -> None:
    stage = Stage(SMALL, size=Const(2))
    x, y = stage.add("x", halves(4, 8)), stage.add("y", np.zeros((4, 8), np.float16), "out")
    lowering, _ = stage.lower([stage.store(y, op("exp2", stage.load(x)))])
    for emit in emits(lowering.body):
        if emit.record is not isa.SYNC:
            assert emit.loc is HERE


@pytest.mark.parametrize("seed", [None, 4])
def test_the_next_block_of_rows(seed: int | None) -> None:
    # An index that is no plain grid index names no tiling: the block is that of the statement.
    stage = Stage(TINY, size=Const(4))
    x, z = stage.add("x", halves(12, 20)), stage.add("z", halves(16, 20, seed=1))
    y = stage.add("y", np.zeros((12, 20), np.float16), "out")
    shifted = View(z, "rows", (binary("+", stage.symbol, 1),), (None,), HERE)
    stage.run([stage.store(y, op("add", stage.load(x), load(shifted)))], seed)
    want = stage.arrays[x].astype(np.float32) + stage.arrays[z][4:].astype(np.float32)
    assert same_bits(want.astype(np.float16), stage.arrays[y])


def test_rows_of_another_width_are_refused() -> None:
    stage = Stage(TINY, size=Const(4))
    x, z = stage.add("x", halves(12, 20)), stage.add("z", halves(12, 21))
    y = stage.add("y", np.zeros((12, 20), np.float16), "out")
    shifted = View(z, "rows", (binary("+", stage.symbol, 0),), (None,), HERE)
    with pytest.raises(KernelError, match="rows of `z` have 21 elements, those of the statement"):
        stage.lower([stage.store(y, op("add", stage.load(x), load(shifted)))])
    with pytest.raises(KernelError, match=r"rows of `y`: 4 x 20; rows of `z`: 4 x 21"):
        stage.lower([stage.store(y, op("add", stage.load(x), stage.load(z)))])


@pytest.mark.parametrize("seed", [None, 9])
def test_scalars_and_columns_alone(seed: int | None) -> None:
    stage = Stage(TINY, size=Const(4))
    s, t = stage.add("s", halves(10, 1)), stage.add("t", halves())
    flat = stage.add("flat", halves(10, seed=2))
    y = stage.add("y", np.zeros((10, 1), np.float16), "out")
    z = stage.add("z", np.zeros(10, np.float32), "out")
    value = op("add", op("mul", stage.load(s, "column"), stage.load(t, "scalar")), const(2.0))
    body = [
        stage.store(y, value, "column"),
        stage.store(z, op("sub", stage.load(flat, "column"), value), "column"),
    ]
    check(stage, body, (10, 1), seed)
