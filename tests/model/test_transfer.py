"""Moves between memory, vector L1 and L1A/L1B: extents, quarters, orders, receivers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.isa import Instruction, Post, Wait
from kohakutpu.model import Fault, GoldenMachine
from tests.model import reference
from tests.model.programs import HANDED, TAKEN, Matmul
from tests.model.support import DATA, at, chain, full, put, row_words, run, take
from tests.model.test_cluster import OUT, A, B, drain, fill, gaussian, gemm
from tests.model.test_execute import load, store, vdrain, vfill

pytestmark = pytest.mark.golden
TINY, DUO = preset("tiny"), preset("duo")
C, V = 0, 1
WORDS = 1 << 16


@settings(max_examples=60)
@given(st.data())
def test_vfill_and_vdrain(data: st.DataObject) -> None:
    """Windows anywhere, extents anywhere, any quarter, FP16 and FP32, repeated rows."""
    draw = data.draw
    size = draw(st.sampled_from([2, 4]))
    dtype = {2: np.uint16, 4: np.uint32}[size]
    form = {2: "fp16", 4: "fp32"}[size]
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 50))
    have_rows, have_cols = draw(st.integers(0, rows)), draw(st.integers(0, cols))
    keep_rows, keep_cols = draw(st.integers(0, rows)), draw(st.integers(0, cols))
    golden = GoldenMachine(TINY, memory_words=WORDS, poison=True, fast=draw(st.booleans()))
    bits = np.random.default_rng(draw(st.integers(0, 99))).integers(
        0, 1 << 8 * size, (rows, 256), dtype=dtype
    )
    shift = draw(st.integers(0, 3)) * 8 // size  # elements
    stride = 0 if draw(st.booleans()) else draw(st.integers(15, 20))
    for r in range(have_rows):  # exactly what is read, by quarters
        if have_cols:
            golden.memory.write(A + 32 * stride * r + size * shift, bits[r, :have_cols])
    shown = bits if stride else np.repeat(bits[max(have_rows, 1) - 1 :][:1], rows, 0)
    width = row_words(cols, size)
    pad = draw(st.integers(0, 2))
    out_shift = draw(st.integers(0, 3)) * 8 // size
    background = np.full(1 << 14, 0xCD, np.uint8)
    golden.memory.write(OUT, background)
    program = [
        vfill(A, 40, rows, cols, format=form, mem=at((A + size * shift) // 8), stride=stride,
              l1_stride=width + pad, row_extent=full(have_rows), col_extent=full(have_cols)),
        vdrain(40, OUT, rows, cols, format=form, mem=at((OUT + size * out_shift) // 8), stride=20,
               l1_stride=width + pad, row_extent=full(keep_rows), col_extent=full(keep_cols)),
    ]  # fmt: skip
    report = run(golden, {V: chain(V, program)})
    window = np.zeros((rows, width * 32 // size), dtype)
    window[:have_rows, :have_cols] = shown[:have_rows, :have_cols]
    expected = background.copy()
    kept = -(-keep_cols * size // 8) * 8 // size
    for r in range(keep_rows):
        row = window[r, :kept].tobytes()
        start = 640 * r + size * out_shift
        expected[start : start + len(row)] = np.frombuffer(row, np.uint8)
    np.testing.assert_array_equal(golden.memory.read(OUT, 1 << 14), expected)

    def touched(shift: int, elements: int) -> int:
        return len({(size * shift + b) // 32 for b in range(-(-elements * size // 8) * 8)})

    assert report.read_words == have_rows * touched(0, have_cols)  # landed; memory reads more
    assert report.written_words == keep_rows * touched(out_shift, keep_cols)


def test_extents_follow_a_position_register(machine: GoldenMachine) -> None:
    # limit - a[r]: 5 - 3 = 2 rows, 20 - (-4) clamps to the 16 columns, 1 - 3 clamps to none.
    store(machine, A, np.arange(64, dtype=np.uint16).reshape(4, 16) + 1)
    machine.memory.write(OUT, np.zeros(256, np.uint8))
    move = vfill(A, 0, 4, 16, row_extent=isa.Extent(5, 1), col_extent=isa.Extent(20, 2))
    none = vfill(A, 8, 4, 16, row_extent=isa.Extent(1, 1))
    program = [isa.SETA(1, 3), isa.SETA(2, -4), move, none, vdrain(0, OUT, 8, 16)]
    report = run(machine, {V: chain(V, [*program[:3], none.replace(l1=at(4)), program[4]])})
    got = load(machine, OUT, 8, 16, np.uint16)
    np.testing.assert_array_equal(got[:2].reshape(-1), np.arange(32) + 1)
    assert not got[2:].any()
    assert report.read_words == 2


@pytest.fixture(params=[True, False], ids=["fast", "plain"])
def machine(request: pytest.FixtureRequest) -> GoldenMachine:
    return GoldenMachine(TINY, memory_words=WORDS, poison=True, fast=request.param)


def through_l1(
    machine: GoldenMachine, x: Any, y: Any, buffer: str, *, residual: bool, cols: int
) -> Any:
    """Send x from the vector core into L1A or L1B, contract it with y, return the tile."""
    rows, k = x.shape
    gx, gy, nk = -(-rows // 4), 1, -(-k // 32)
    stride_x, stride_y = put(machine, A, x), put(machine, B, y)
    mode = {"mode": "residual" if residual else "fp16", "k": full(k)}
    mine, other = ("A", "B") if buffer == "l1a" else ("B", "A")
    gm, gn = (gx, gy) if mine == "A" else (gy, gx)
    vector = [
        vfill(A, 3, 4 * gx, k, stride=stride_x, row_extent=full(rows)),
        vdrain(3, 0, 4 * gx, k, to="node", nodes=1 << C, buffer=buffer, residual=residual,
               mem=at(7), stride=nk + 1, col_extent=full(cols)),
    ]  # fmt: skip
    vector = chain(V, vector)
    vector[1] = vector[1].replace(posts=(*vector[1].posts, Post(C, 1)))
    bases = {"a": at(7), "a_stride": nk + 1} if mine == "A" else {"b": at(7), "b_stride": nk + 1}
    cluster = chain(C, [
        fill(other, B, stride_y, gy, nk, rows=full(len(y)), **mode),
        gemm(gm, gn, nk, **bases),
        drain(gm, gn),
    ])  # fmt: skip
    cluster[1] = cluster[1].replace(waits=(*cluster[1].waits, Wait(1)))
    run(machine, {C: cluster, V: vector})
    tile = take(machine, OUT, 4 * gm, 4 * gn, np.float32)
    return tile if mine == "A" else tile.T


@pytest.mark.parametrize("buffer", ["l1a", "l1b"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("rows", "k", "cols"), [(8, 64, 64), (6, 40, 40), (4, 16, 9), (12, 90, 0)])
def test_vdrain_into_operands(
    machine: GoldenMachine, buffer: str, residual: bool, rows: int, k: int, cols: int
) -> None:
    x, y = gaussian((rows, k), 1), gaussian((4, k), 2)
    got = through_l1(machine, x, y, buffer, residual=residual, cols=cols)
    sent = np.zeros((-(-rows // 4) * 4, k), np.float16)
    sent[:rows, :cols] = x[:, :cols]
    want = reference.contract(reference.quantise(sent, residual), reference.quantise(y, residual))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("order", ["row", "tile"])
@pytest.mark.parametrize("form", ["fp16", "fp32"])
def test_drain_into_vector_l1(machine: GoldenMachine, order: str, form: str) -> None:
    x, y = gaussian((8, 32), 1), gaussian((20, 32), 2)
    a, b = put(machine, A, x), put(machine, B, y)
    size, dtype = (2, np.float16) if form == "fp16" else (4, np.float32)
    words = size // 2
    stride = 5 * words + 1 if order == "tile" else row_words(20, size) + 1
    cluster = chain(C, [
        fill("A", A, a, 2, 1), fill("B", B, b, 5, 1), gemm(2, 5, 1),
        drain(2, 5, to="node", nodes=1 << V, mem=at(9), stride=stride, rows=full(7),
              cols=full(18), format=form, order=order),
    ])  # fmt: skip
    cluster[3] = cluster[3].replace(posts=(*cluster[3].posts, Post(V, 2)))
    vector = [isa.SYNC(2, waits=(Wait(2),)), *chain(V, [
        vdrain(9, OUT, 8, 20, l1_stride=stride, format=form, order=order,
               stride=row_words(20, size)),
    ])]  # fmt: skip
    report = run(machine, {C: cluster, V: vector})
    want = np.zeros((8, 20), np.float32)
    want[:7, :18] = reference.contract(reference.quantise(x), reference.quantise(y))[:7, :18]
    np.testing.assert_array_equal(take(machine, OUT, 8, 20, dtype), want.astype(dtype))
    sent = 2 * 5 * words if order == "tile" else 8 * row_words(20, size)
    assert report.unit(C).noc_words == 8 * 2 + 20 * 2 + sent


def test_drain_into_operands(machine: GoldenMachine) -> None:
    # C = (x @ y.T) rounded to FP16, quantised on its way into L1A, times z.
    x, y, z = gaussian((4, 32), 1), gaussian((12, 32), 2), gaussian((4, 12), 3)
    a, b = put(machine, A, x), put(machine, B, y)
    c = put(machine, A + DATA, z)
    run(machine, {C: chain(C, [
        fill("A", A, a, 1, 1), fill("B", B, b, 3, 1), gemm(1, 3, 1),
        drain(1, 3, to="node", nodes=1 << C, buffer="l1a", mem=at(30), stride=1, format="fp16",
              cols=full(11)),
        fill("B", A + DATA, c, 1, 1, k=full(11), l1=at(3)),
        gemm(1, 1, 1, a=at(30), b=at(3), acc=at(100)),
        drain(1, 1, acc=at(100)),
    ])})  # fmt: skip
    tile = reference.contract(reference.quantise(x), reference.quantise(y)).astype(np.float16)
    want = reference.contract(reference.quantise(tile[:, :11]), reference.quantise(z[:, :11]))
    np.testing.assert_array_equal(take(machine, OUT, 4, 4, np.float32), want)


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_fused_drain_to_the_vector_core(seed: int | None) -> None:
    """A blocked matmul hands tiles to its vector core, which adds 1 and writes them."""
    m, n, k = 20, 36, 100
    x, y = gaussian((m, k), 3), gaussian((k, n), 4)
    golden = GoldenMachine(TINY, memory_words=WORDS, poison=True, seed=seed)
    plan = Matmul(m, n, k, A, B, OUT, put(golden, A, x), put(golden, B, y), row_words(n), 2, 4, 1)
    mt, nt, _ = plan.tiles
    rows, cols = isa.Extent(m, 1), isa.Extent(n, 2)
    window = isa.Source.l1h(at(0), 1)
    vector = [
        isa.SETA(3, OUT // 8),
        isa.SYNC(2, posts=(Post(C, TAKEN),)),
        isa.LOOP(at(mt)),
        isa.SETA(2, 0),
        isa.ADDA(4, 3, 0),
        isa.LOOP(at(nt)),
        isa.EXEC(rows=8, cols=16, f="mac", a=window, b=isa.Source.imm(1), c=isa.Source.imm(1),
                 dst=isa.Destination.l1h(at(0), 1), waits=(Wait(HANDED),), posts=(Post(V, 7),)),
        vdrain(0, 0, 8, 16, mem=isa.Address(4, 0), stride=plan.c_stride, row_extent=rows,
               col_extent=cols).replace(waits=(Wait(7),), posts=(Post(C, TAKEN),)),
        isa.ADDA(2, 2, 16),
        isa.ADDA(4, 4, 4),
        isa.END(),
        isa.ADDA(1, 1, 8),
        isa.ADDA(3, 3, 8 * 4 * plan.c_stride),
        isa.END(),
        isa.HALT(),
    ]  # fmt: skip
    cluster = plan.cluster(C, vector=V)
    cluster[-1:] = [isa.SYNC(2, waits=(Wait(TAKEN),)), isa.HALT()]
    report = run(golden, {C: cluster, V: vector})
    tile = reference.matmul(x, y).astype(np.float16)
    want = (tile.astype(np.float32) + np.float32(1)).astype(np.float16)
    np.testing.assert_array_equal(take(golden, OUT, m, n), want)
    assert report.unit(C).written_words == 0


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_two_pairs_share_fills_and_meet_at_a_barrier(seed: int | None) -> None:
    """One cluster fills B for both; each computes half the rows; then each reads the other's."""
    c0, c1 = (node.id for node in DUO.of_kind("C"))
    x, y = gaussian((16, 32), 1), gaussian((8, 32), 2)
    golden = GoldenMachine(DUO, memory_words=WORDS, poison=True, seed=seed)
    a, b = put(golden, A, x), put(golden, B, y)
    both = 1 << c0 | 1 << c1
    again = 2 * OUT  # second product: (x @ y.T) of the other half, as FP16, times y[:, :8]

    def program(node: int, other: int, half: int) -> list[Instruction]:
        share = fill("B", B, b, 2, 1, nodes=both).replace(
            waits=(Wait(3),), posts=(Post(c0, 0), Post(c1, 0))
        )
        mine = 4 * a * 8 * half  # quarters
        first = [
            isa.SYNC(0, posts=(Post(c0, 3),)),  # this L1B may be written
            *([share.replace(waits=(Wait(3, 2),))] if node == c0 else []),
            fill("A", A, a, 2, 1, mem=at(A // 8 + mine)).replace(posts=(Post(node, 1),)),
            gemm(2, 2, 1).replace(waits=(Wait(0), Wait(1)), posts=(Post(node, 2),)),
            drain(2, 2, OUT + 256 * half, format="fp16", stride=1).replace(waits=(Wait(2),)),
            isa.BARRIER(),
        ]
        theirs = OUT + 256 * (1 - half)
        second = chain(node, [
            fill("A", theirs, 1, 2, 1, k=full(8)),
            fill("B", B, b, 2, 1, k=full(8)),
            gemm(2, 2, 1),
            drain(2, 2, again + 256 * half, format="fp16", stride=1),
        ])  # fmt: skip
        return [*first, *second]

    report = run(golden, {c0: program(c0, c1, 0), c1: program(c1, c0, 1)})
    product = reference.contract(reference.quantise(x), reference.quantise(y)).astype(np.float16)
    np.testing.assert_array_equal(take(golden, OUT, 16, 8), product)
    swapped = np.concatenate([product[8:], product[:8]])
    want = reference.contract(reference.quantise(swapped), reference.quantise(y[:, :8]))
    np.testing.assert_array_equal(take(golden, again, 16, 8), want.astype(np.float16))
    # The shared fill is counted once, by the cluster that asked for it.
    assert report.unit(c0).read_words - report.unit(c1).read_words == 8 * 2


FAULTS = [
    (C, "L1_RANGE", fill("A", A, 1, 2, 1, l1=at(TINY.l1_entries - 1))),
    (C, "L1_RANGE", fill("B", A, 1, 2, 1, l1_stride=TINY.l1_entries)),
    (C, "MISALIGNED", fill("A", A, 1, 1, 1, mem=at(A // 8 + 1))),
    (C, "MEMORY", fill("A", 32 * WORDS - 32, 1, 1, 1)),
    (C, "MEMORY", fill("A", 32 * WORDS - 64, 0, 1, 1, mode="packed", rows=full(0), k=full(0))),
    (C, "MEMORY", fill("A", A, WORDS, 1, 1, transpose=True)),
    (C, "ILLEGAL", fill("A", A, 1, 1, 1, nodes=1 << V)),
    (C, "L1_RANGE", gemm(2, 1, 1, a=at(TINY.l1_entries - 1))),
    (C, "L1_RANGE", gemm(1, 2, 2, b=at(TINY.l1_entries - 3))),
    (C, "ACC_RANGE", gemm(2, 2, 1, acc=at(TINY.acc_subtiles - 3))),
    (C, "ACC_RANGE", drain(2, 2, acc=at(TINY.acc_subtiles - 3))),
    (C, "MEMORY", drain(1, 1, 32 * WORDS - 32)),
    (C, "MISALIGNED", drain(1, 1, OUT + 16, order="tile", rows=full(0), cols=full(0))),
    (C, "L1_RANGE", drain(1, 1, to="node", nodes=1 << V, mem=at(TINY.vl1_words - 3), stride=2)),
    (C, "L1_RANGE", drain(2, 1, to="node", nodes=1 << C, buffer="l1a", format="fp16",
                          mem=at(TINY.l1_entries - 1), stride=1)),
    (C, "ILLEGAL", drain(1, 1, to="node", nodes=1 << V, buffer="l1a", format="fp16")),
    (C, "ILLEGAL", drain(1, 1, to="node", nodes=1 << 2)),
    (V, "L1_RANGE", vfill(A, TINY.vl1_words - 1, 1, 17)),
    (V, "L1_RANGE", vfill(A, 0, 2, 16, l1_stride=TINY.vl1_words)),
    (V, "MEMORY", vfill(32 * WORDS - 32, 0, 2, 16)),
    (V, "MEMORY", vfill(0, 0, 1, 4, mem=at((1 << 34) - 1))),
    (V, "ILLEGAL", vfill(A, 0, 1, 16, nodes=1 << C)),
    (V, "L1_RANGE", vdrain(TINY.vl1_words - 1, OUT, 1, 17)),
    (V, "MEMORY", vdrain(0, 32 * WORDS - 8, 1, 5)),
    (V, "OVERLAP", vdrain(8, 0, 1, 17, to="node", nodes=1 << V, mem=at(9))),
    (V, "OVERLAP", vdrain(8, 0, 1, 17, to="node", nodes=1 << V, mem=at(7))),
    # Between rows that are far apart there are words, too.
    (V, "OVERLAP", vdrain(8, 0, 2, 16, to="node", nodes=1 << V, mem=at(9), l1_stride=2, stride=0)),
]  # fmt: skip


@pytest.mark.parametrize(("node", "cause", "instruction"), FAULTS)
@pytest.mark.parametrize("fast", [True, False])
def test_faults(node: int, cause: str, instruction: Instruction, fast: bool) -> None:
    golden = GoldenMachine(TINY, memory_words=WORDS, fast=fast)
    with pytest.raises(Fault) as caught:
        run(golden, {node: [isa.SETA(1, 1), instruction, isa.HALT()]})
    assert (caught.value.cause, caught.value.node, caught.value.pc) == (cause, node, 1)
    assert caught.value.numbers
    run(golden, {node: [isa.HALT()]})


@pytest.mark.parametrize(
    ("node", "instruction"),
    [
        # Extents keep what lies past memory from being asked for.
        (C, fill("A", 32 * WORDS - 32, 1, 2, 1, rows=full(1), k=full(16))),
        (C, fill("A", 32 * WORDS - 32, 1, 2, 1, rows=full(0))),
        (C, drain(1, 1, 32 * WORDS - 32, rows=full(1), cols=full(4), format="fp16")),
        (V, vfill(32 * WORDS - 32, 0, 2, 17, row_extent=full(1), col_extent=full(16))),
        (V, vdrain(0, 32 * WORDS - 8, 2, 16, row_extent=full(1), col_extent=full(4))),
        (V, vfill(0, 0, 1, 16, mem=at((1 << 34) - 1), col_extent=full(0))),
    ],
)  # fmt: skip
def test_what_is_masked_is_not_touched(node: int, instruction: Instruction) -> None:
    run(GoldenMachine(TINY, memory_words=WORDS), {node: chain(node, [instruction])})


UNWRITTEN = [
    (C, [fill("A", A, 2, 1, 1)], "memory", A // 8),
    (C, [fill("A", DATA * 3, 2, 1, 1, rows=full(1), k=full(9))], "memory", DATA * 3 // 8 + 2),
    (C, [gemm(1, 1, 1)], "L1A", 0),
    (C, [fill("A", B, 2, 1, 1), gemm(1, 1, 1)], "L1B", 0),
    (C, [fill("A", B, 2, 1, 1), fill("B", B, 2, 1, 1), gemm(1, 1, 1, isa.Flag(True, 0))],
     "accumulator", 0),
    (C, [fill("A", B, 2, 1, 1), fill("B", B, 2, 1, 1), gemm(1, 1, 1), drain(2, 1)],
     "accumulator", 1),
    (V, [vfill(A, 0, 1, 16)], "memory", A // 8),
    (V, [vfill(B, 0, 1, 16), vdrain(0, OUT, 1, 17)], "L1", 1),
    (V, [vfill(B, 0, 1, 16), isa.EXEC(rows=2, cols=4, f="mac", a=isa.Source.l1h(at(0), 1),
                                      dst=isa.Destination.reg(at(0), 1))], "L1", 1),
    (V, [isa.EXEC(rows=1, cols=4, f="mac", a=isa.Source.reg(at(5), 1),
                  dst=isa.Destination.l1h(at(0), 1))], "registers", 5),
    (V, [isa.EXEC(rows=1, cols=4, f="mac", a=isa.Source.row(at(6)),
                  dst=isa.Destination.l1h(at(0), 1))], "registers", 6),
]  # fmt: skip


@pytest.mark.parametrize(("node", "instructions", "buffer", "index"), UNWRITTEN)
def test_reading_what_nobody_wrote(
    machine: GoldenMachine, node: int, instructions: list[Instruction], buffer: str, index: int
) -> None:
    machine.memory.write(B, np.ones(512, np.uint8))
    machine.memory.write(DATA * 3, np.ones(16, np.uint8))
    with pytest.raises(Fault) as caught:
        run(machine, {node: chain(node, instructions)})
    assert (caught.value.cause, caught.value.pc) == ("UNWRITTEN", len(instructions) - 1)
    assert caught.value.numbers["buffer"] == buffer
    assert caught.value.numbers["index"] == index
    # Without poison the same program runs.
    plain = GoldenMachine(TINY, memory_words=WORDS)
    run(plain, {node: chain(node, instructions)})


def test_poisoned_again(machine: GoldenMachine) -> None:
    machine.memory.write(B, np.zeros(64, np.uint8))
    fetch = chain(V, [vfill(B, 0, 1, 32)])
    run(machine, {V: fetch})
    machine.memory.poison(B + 8, 8)
    with pytest.raises(Fault, match="quarter 40961 of memory"):
        run(machine, {V: fetch})
    assert np.isnan(machine.memory.read(B + 8, 8).view(np.float16)).all()
