"""FILL, GEMM and DRAIN by single instructions and as a blocked matmul."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakutpu import isa
from kohakutpu.config import PRESETS, preset
from kohakutpu.isa import Flag, Instruction
from kohakutpu.model import Fault, GoldenMachine, Report
from tests.model import reference
from tests.model.programs import FREE, LOADED, TILE_DONE, TILE_FREE, Matmul
from tests.model.support import DATA, OFF, ON, at, chain, full, put, row_words, run, take

pytestmark = pytest.mark.golden
TINY = preset("tiny")
C, V = 0, 1
A, B, OUT = DATA, 5 * DATA, 9 * DATA  # byte addresses of operands and result
WORDS = 1 << 16


def gaussian(shape: tuple[int, int], seed: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float16)


def sequential(*instructions: Instruction) -> list[Instruction]:
    return chain(C, instructions)


def fill(buffer: str, where: int, stride: int, g: int, nk: int, **changes: Any) -> Instruction:
    operands: dict[str, Any] = {
        "l1": at(0), "l1_stride": nk, "rows": full(4 * g), "k": full(32 * nk), "mode": "fp16",
    }  # fmt: skip
    operands |= {"buffer": buffer, "mem": at(where // 8), "stride": stride, "g": g, "nk": nk}
    return isa.FILL(**(operands | changes))


def gemm(gm: int, gn: int, nk: int, accumulate: Flag = OFF, **changes: Any) -> Instruction:
    operands: dict[str, Any] = {"a": at(0), "b": at(0), "acc": at(0)}
    operands |= {"gm": gm, "gn": gn, "nk": nk, "a_stride": nk, "b_stride": nk}
    return isa.GEMM(**(operands | {"accumulate": accumulate} | changes))


def drain(gm: int, gn: int, where: int = OUT, **changes: Any) -> Instruction:
    operands: dict[str, Any] = {"acc": at(0), "gm": gm, "gn": gn, "to": "memory"}
    operands |= {"mem": at(where // 8), "stride": row_words(4 * gn, 4), "rows": full(4 * gm)}
    operands |= {"cols": full(4 * gn), "format": "fp32", "order": "row"}
    return isa.DRAIN(**(operands | changes))


@pytest.fixture(params=[True, False], ids=["fast", "plain"])
def golden(request: pytest.FixtureRequest) -> GoldenMachine:
    return GoldenMachine(TINY, memory_words=WORDS, poison=True, fast=request.param)


def test_ones(golden: GoldenMachine) -> None:
    ones = np.ones((4, 128), np.float16)
    stride = put(golden, A, ones)
    run(golden, {C: sequential(
        fill("A", A, stride, 1, 4), fill("B", A, stride, 1, 4), gemm(1, 1, 4), drain(1, 1)
    )})  # fmt: skip
    np.testing.assert_array_equal(take(golden, OUT, 4, 4, np.float32), np.full((4, 4), 128.0))


def test_bytes_of_a_packed_entry(golden: GoldenMachine) -> None:
    # One A entry: lane r holds element value r + 1 at k = 0, scale 127 + r. B: 64 (1.0) at k = 0.
    packed_a = np.zeros(5 * 32, np.uint8)
    packed_b = np.zeros(5 * 32, np.uint8)
    for lane in range(4):
        packed_a[32 * lane] = lane + 1
        packed_a[128 + lane] = 127 + lane
        packed_b[32 * lane] = 64
        packed_b[128 + lane] = 127
    packed_a[32] = 0x80  # -128: our quantiser never makes it
    golden.memory.write(A, packed_a)
    golden.memory.write(B, packed_b)
    packed = {"mode": "packed", "rows": full(0), "k": full(0)}
    run(golden, {C: sequential(
        fill("A", A, 0, 1, 1, **packed), fill("B", B, 0, 1, 1, **packed), gemm(1, 1, 1), drain(1, 1)
    )})  # fmt: skip
    rows = [1 / 64, -128 / 64 * 2, 3 / 64 * 4, 4 / 64 * 8]
    expected = np.repeat(np.array(rows, np.float32)[:, None], 4, 1)
    np.testing.assert_array_equal(take(golden, OUT, 4, 4, np.float32), expected)


@pytest.mark.parametrize("form", ["fp16", "fp32"])
def test_nan_and_infinity_leave_in_canonical_form(golden: GoldenMachine, form: str) -> None:
    # Row 0 has a NaN, row 1 an infinity: both make a block NaN. Row 2 overflows FP16, row 3 is 0.
    x = np.zeros((4, 32), np.float16)
    x[0, 3], x[1, 5], x[2] = np.nan, -np.inf, 60000
    y = np.full((4, 32), -2, np.float16)
    a, b = put(golden, A, x), put(golden, B, y)
    run(golden, {C: sequential(
        fill("A", A, a, 1, 1), fill("B", B, b, 1, 1), gemm(1, 1, 1), drain(1, 1, format=form)
    )})  # fmt: skip
    if form == "fp16":
        rows = [0x7E00, 0x7E00, 0xFC00, 0]
        got = take(golden, OUT, 4, 8, np.uint16)[:, :4]
    else:
        # 60000 / 2**15 = 1.83 is 117 / 64.
        rows = [0x7FC00000, 0x7FC00000, int(np.float32(-2 * 32 * 117 * 512).view(np.uint32)), 0]
        got = take(golden, OUT, 4, 4, np.uint32)
    np.testing.assert_array_equal(got, np.repeat(np.array(rows, got.dtype)[:, None], 4, 1))


@settings(max_examples=40)
@given(st.data())
def test_one_tile(data: st.DataObject) -> None:
    draw = data.draw
    gm, gn, nk = (draw(st.integers(1, n)) for n in (5, 5, 3))
    m, n, k = (draw(st.integers(1, limit)) for limit in (4 * gm, 4 * gn, 32 * nk))
    seed = draw(st.integers(0, 99))
    transpose, residual = draw(st.booleans()), draw(st.booleans())
    x, y = gaussian((m, k), seed, 2.0 ** draw(st.integers(-20, 10))), gaussian((n, k), seed + 1)
    golden = GoldenMachine(TINY, memory_words=WORDS, poison=True, fast=draw(st.booleans()))
    a_stride = put(golden, A, x)
    b_stride = put(golden, B, np.ascontiguousarray(y.T) if transpose else y)
    mode = {"mode": "residual" if residual else "fp16", "k": full(k)}
    # Regions anywhere, groups further apart than they are long.
    a, b, acc = (draw(st.integers(0, 50)) for _ in range(3))
    pad = draw(st.integers(0, 3))
    cols = draw(st.integers(0, 4 * gn))
    order = draw(st.sampled_from(["row", "tile"]))
    half = draw(st.booleans())
    size, dtype = (2, np.float16) if half else (4, np.float32)
    start = OUT + (0 if order == "tile" else 8 * draw(st.integers(0, 3)))
    stride = gn * size // 2 if order == "tile" else row_words(4 * gn, size) + 1
    extents = (0, 0) if order == "tile" else (m, cols)
    golden.memory.write(OUT, np.full(4 * gm * 32 * 16, 0xAB, np.uint8))
    run(golden, {C: sequential(
        fill("A", A, a_stride, gm, nk, l1=at(a), l1_stride=nk + pad, rows=full(m), **mode),
        fill("B", B, b_stride, gn, nk, l1=at(b), l1_stride=nk + pad, rows=full(n),
             transpose=transpose, **mode),
        gemm(gm, gn, nk, a=at(a), b=at(b), acc=at(acc), a_stride=nk + pad, b_stride=nk + pad),
        drain(gm, gn, start, acc=at(acc), rows=full(extents[0]), cols=full(extents[1]),
              stride=stride, format="fp16" if half else "fp32", order=order),
    )})  # fmt: skip
    want = np.zeros((4 * gm, 4 * gn), np.float32)
    want[:m, :n] = reference.contract(
        reference.quantise(x, residual), reference.quantise(y, residual)
    )
    want = want.astype(dtype)
    memory = golden.memory.read(OUT, 4 * gm * 32 * 16)
    expected = np.full(len(memory), 0xAB, np.uint8)
    if order == "tile":
        for g in range(gm):
            for h in range(gn):
                at_word = 32 * (g * stride + h * size // 2)
                block = want[4 * g : 4 * g + 4, 4 * h : 4 * h + 4]
                expected[at_word : at_word + 16 * size] = np.frombuffer(block.tobytes(), np.uint8)
    else:
        kept = -(-cols * size // 8) * 8
        for r in range(m):
            first = start - OUT + 32 * stride * r
            row = np.frombuffer(want[r].tobytes(), np.uint8)
            expected[first : first + kept] = row[:kept]
    np.testing.assert_array_equal(memory, expected)


def matmul(
    golden: GoldenMachine, x: Any, y: Any, **shape: int
) -> tuple[Report, dict[int, list[Instruction]], Matmul]:
    a_stride, b_stride = put(golden, A, x), put(golden, B, y)
    c_stride = row_words(y.shape[1])
    plan = Matmul(
        x.shape[0], y.shape[1], x.shape[1], A, B, OUT, a_stride, b_stride, c_stride, **shape
    )
    programs = {C: plan.cluster(C)}
    return run(golden, programs), programs, plan


SIZES = st.sampled_from([1, 3, 4, 7, 16, 31, 32, 33, 48, 100])


@settings(max_examples=25)
@given(SIZES, SIZES, SIZES, st.sampled_from([(4, 4, 2), (1, 8, 1), (3, 4, 3)]), st.booleans())
def test_blocked_matmul(m: int, n: int, k: int, shape: tuple[int, int, int], fast: bool) -> None:
    x, y = gaussian((m, k), m), gaussian((k, n), n + 1)
    golden = GoldenMachine(TINY, memory_words=WORDS, poison=True, fast=fast)
    gm, gn, nk = shape
    report, _, plan = matmul(golden, x, y, gm=gm, gn=gn, nk=nk)
    want = reference.matmul(x, y).astype(np.float16)
    np.testing.assert_array_equal(take(golden, OUT, m, n), want)
    mt, nt, kt = plan.tiles
    assert report.macs == mt * nt * kt * gm * gn * nk * 16 * 32
    assert report.cycles > report.macs // TINY.macs_per_cycle


def test_presets_agree() -> None:
    x, y = gaussian((33, 100), 5), gaussian((100, 48), 6)
    want = reference.matmul(x, y).astype(np.float16)
    for machine in PRESETS.values():
        golden = GoldenMachine(machine, memory_words=WORDS)
        a, b = put(golden, A, x), put(golden, B, y)
        node = machine.of_kind("C")[-1].id
        run(golden, {node: Matmul(33, 48, 100, A, B, OUT, a, b, 3).cluster(node)})
        np.testing.assert_array_equal(take(golden, OUT, 33, 48), want)


def test_three_sweeps_of_high_precision(golden: GoldenMachine) -> None:
    x, y = gaussian((8, 64), 1), gaussian((8, 64), 2)
    a, b = put(golden, A, x), put(golden, B, y)
    run(golden, {C: sequential(
        fill("A", A, a, 2, 2), fill("B", B, b, 2, 2), gemm(2, 2, 2),
        fill("B", B, b, 2, 2, mode="residual"), gemm(2, 2, 2, ON),
        fill("A", A, a, 2, 2, mode="residual"), fill("B", B, b, 2, 2), gemm(2, 2, 2, ON),
        drain(2, 2),
    )})  # fmt: skip
    (lead_a, rest_a), (lead_b, rest_b) = (
        (reference.quantise(z), reference.quantise(z, residual=True)) for z in (x, y)
    )
    want = reference.contract(lead_a, lead_b)
    want = reference.contract(lead_a, rest_b, want)
    want = reference.contract(rest_a, lead_b, want)
    np.testing.assert_array_equal(take(golden, OUT, 8, 8, np.float32), want)
    exact = x.astype(np.float64) @ y.astype(np.float64).T
    assert np.sqrt(np.mean((want - exact) ** 2) / np.mean(exact**2)) < 3e-4


@pytest.mark.parametrize("seed", range(12))
def test_any_interleaving_gives_the_same_bits(seed: int) -> None:
    x, y = gaussian((20, 100), 3), gaussian((100, 36), 4)
    golden = GoldenMachine(TINY, memory_words=WORDS, poison=True, seed=seed)
    report, _, _ = matmul(golden, x, y, gm=2, gn=4, nk=1)
    want = reference.matmul(x, y).astype(np.float16)
    np.testing.assert_array_equal(take(golden, OUT, 20, 36), want)
    assert report.cycles == 0


@pytest.mark.parametrize("semaphore", [FREE, LOADED, TILE_FREE, TILE_DONE])
def test_a_missing_semaphore_is_found(semaphore: int) -> None:
    x, y = gaussian((20, 100), 3), gaussian((100, 36), 4)
    want = reference.matmul(x, y).astype(np.float16)
    plan = Matmul(20, 36, 100, A, B, OUT, row_words(100), row_words(36), row_words(36), 2, 4, 1)
    program = [
        i.replace(
            waits=tuple(w for w in i.waits if w.semaphore != semaphore),
            posts=tuple(p for p in i.posts if p.semaphore != semaphore),
        )
        for i in plan.cluster(C)
    ]
    found = 0
    causes: set[str] = set()
    for seed in range(8):
        golden = GoldenMachine(TINY, memory_words=WORDS, poison=True, seed=seed)
        put(golden, A, x)
        put(golden, B, y)
        try:
            run(golden, {C: program})
        except Fault as fault:
            causes.add(fault.cause)
            found += 1
        else:
            found += not np.array_equal(take(golden, OUT, 20, 36), want)
    assert found >= 4
    assert causes <= {"UNWRITTEN"}
