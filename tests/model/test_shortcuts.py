"""The shortcuts change no bit: random programs on the fast machine and on the plain one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.isa import Address, Destination, Extent, Flag, Instruction, Source, Wait
from kohakutpu.model import Fault, GoldenMachine, Report, tables
from tests.model.support import DATA, at, full, run

pytestmark = pytest.mark.golden
TINY = preset("tiny")
C, V = 0, 1
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)  # explaining takes minutes
WORDS = 1 << 14  # 512 KiB
AREA = 32 * WORDS - DATA
QUARTERS = AREA // 8

ON = Flag(True, 0)
small = st.integers(1, 3)


def one_by_one(node: int, instructions: list[Instruction]) -> list[Instruction]:
    """Let the front end wait for each engine instruction before it goes on."""
    result: list[Instruction] = []
    for instruction in instructions:
        result.append(instruction)
        if instruction.engine is not None:
            result[-1] = instruction.replace(posts=(isa.Post(node, 31),))
            result.append(isa.SETA(15, 0, waits=(Wait(31),)))
    return [*result, isa.HALT()]


# Few places and shapes, so that windows meet in every way there is.
words = st.sampled_from([0, 1, 2, 4, 8, 9, 16])
quarters = st.builds(lambda n: DATA // 8 + n, st.one_of(st.integers(0, 64), st.integers(0, 999)))
aligned = quarters.map(lambda q: q // 4 * 4)
extents = st.integers(0, 40)


@st.composite
def window(draw: Any) -> tuple[int, int, int]:
    """Rows, columns and L1 stride; the stride may be too small for rows not to overlap."""
    cols = draw(st.sampled_from([1, 4, 5, 16, 17, 32]))
    return draw(st.sampled_from([1, 2, 4])), cols, draw(st.sampled_from([0, 1, 2, 4]))


@st.composite
def vfill(draw: Any) -> Instruction:
    rows, cols, stride = draw(window())
    return isa.VFILL(
        mem=at(draw(quarters)), stride=draw(st.integers(0, 4)), l1=at(draw(words)),
        l1_stride=stride, rows=rows, row_extent=full(draw(extents)), cols=cols,
        col_extent=full(draw(extents)), format=draw(st.sampled_from(["fp16", "fp16", "fp32"])),
    )  # fmt: skip


@st.composite
def vdrain(draw: Any, receiver: int | None = None) -> Instruction:
    rows, cols, stride = draw(window())
    order = draw(st.sampled_from(["row", "row", "tile"])) if rows % 4 == cols % 4 == 0 else "row"
    where = {"to": "memory", "mem": at(draw(quarters)), "stride": draw(st.integers(0, 4))}
    form = draw(st.sampled_from(["fp16", "fp16", "fp32"]))
    target = draw(st.sampled_from(["memory", "memory", "vector", "l1a"]))
    if target != "memory":
        buffer = {"vector": V, "l1a": C}
        where = {"to": "node", "mem": at(draw(words)), "stride": draw(st.integers(0, 4))}
        where |= {"nodes": 1 << buffer[target], "buffer": target}
        if target == "l1a":
            form = "fp16"
    return isa.VDRAIN(
        l1=at(draw(words)), l1_stride=stride, rows=rows, row_extent=full(draw(extents)), cols=cols,
        col_extent=full(draw(extents)), format=form, order=order, **where,
    )  # fmt: skip


@st.composite
def execute(draw: Any) -> Instruction:
    rows, cols, stride = draw(window())

    def source(optional: bool) -> Source:
        kinds = ["l1h"] * 4 + ["reg"] * 3 + ["imm", "row", "l1f"] + ["none"] * 2 * optional
        kind = draw(st.sampled_from(kinds))
        base = at(draw(words))
        step = draw(st.sampled_from([stride, stride, 0]))
        return {
            "none": Source.none(),
            "imm": Source.imm(draw(st.sampled_from([0.0, 1.0, -1.4375, 3.0]))),
            "row": Source.row(base),
            "reg": Source.reg(base, step),
            "l1h": Source.l1h(base, step),
            "l1f": Source.l1f(base, step),
        }[kind]

    f = draw(st.sampled_from(["mac", "mac", "mac", "max", "le", "select"]))
    a, b = source(False), source(f == "mac")
    c = source(f == "mac") if f in ("mac", "select") else Source.none()
    if sum(s.kind in ("l1h", "l1f") for s in (a, b, c)) > 2:
        c = Source.imm(1)
    target = at(draw(words))
    dst = draw(st.sampled_from([
        Destination.l1h(target, stride), Destination.l1h(a.base, a.stride),
        Destination.reg(target, stride), Destination.reg(target, -(-cols // 4)),
        Destination.l1f(target, stride), Destination.none(),
    ]))  # fmt: skip
    reduce = draw(st.sampled_from(["none", "none", "none", "sum", "max"]))
    return isa.EXEC(
        rows=rows, cols=cols, f=f, a=a, b=b, c=c, dst=dst, reduce=reduce,
        unary=draw(st.sampled_from(["none", "none", "exp2", "recip", "abs"])),
        red=at(draw(words)) if reduce != "none" else at(0),
    )  # fmt: skip


@st.composite
def fill(draw: Any) -> Instruction:
    nk = draw(small)
    mode = draw(st.sampled_from(["fp16", "fp16", "residual", "packed"]))
    rest: dict[str, Any] = {"rows": full(0), "k": full(0), "stride": 0}
    if mode != "packed":
        rest = {"rows": full(draw(extents)), "k": full(draw(st.integers(0, 99)))}
        rest |= {"stride": draw(st.integers(0, 6)), "transpose": draw(st.booleans())}
    return isa.FILL(
        buffer=draw(st.sampled_from("AB")), l1=at(draw(words)), mode=mode, g=draw(small), nk=nk,
        l1_stride=draw(st.sampled_from([nk, nk, nk, 1, 4])), mem=at(draw(aligned)), **rest,
    )  # fmt: skip


@st.composite
def gemm(draw: Any) -> Instruction:
    nk = draw(small)
    strides = st.sampled_from([nk, nk, 1, 4])
    accumulate = Flag(draw(st.booleans()), 0)
    return isa.GEMM(
        a=at(draw(words)), b=at(draw(words)), acc=at(draw(words)), gm=draw(small), gn=draw(small),
        nk=nk, a_stride=draw(strides), b_stride=draw(strides), accumulate=accumulate,
    )  # fmt: skip


@st.composite
def drain(draw: Any) -> Instruction:
    gm, gn = draw(small), draw(small)
    target = draw(st.sampled_from(["memory", "memory", "l1a", "l1b"]))
    form, order = draw(st.sampled_from(["fp16", "fp32"])), draw(st.sampled_from(["row", "tile"]))
    rest: dict[str, Any] = {"to": "memory", "stride": draw(st.integers(0, 6))}
    rows, cols = full(draw(extents)), full(draw(extents))
    mem = at(draw(quarters))
    if target != "memory":
        form, order, mem = "fp16", "row", at(draw(words))
        rest |= {"to": "node", "nodes": 1 << C, "buffer": target}
        rest |= {"residual": draw(st.booleans())}
    elif order == "tile":
        rows, cols, mem = full(0), full(0), at(draw(aligned))
    return isa.DRAIN(
        acc=at(draw(words)), gm=gm, gn=gn, mem=mem, rows=rows, cols=cols, format=form, order=order,
        **rest,
    )  # fmt: skip


def look(node: int) -> list[Instruction]:
    """Instructions that show everything the unit holds, in memory."""
    if node == V:
        dump = isa.VDRAIN(
            l1=at(0), l1_stride=8, rows=8, row_extent=full(8), cols=128, col_extent=full(128),
            format="fp16", order="row", to="memory", mem=at((DATA + AREA // 2) // 8), stride=8,
        )  # fmt: skip
        registers = isa.EXEC(
            rows=1, cols=512, f="mac", a=Source.reg(at(0), 0), dst=Destination.l1f(at(200), 0)
        )
        return [
            dump,
            registers,
            dump.replace(l1=at(200), mem=Address(0, (DATA + AREA * 3 // 4) // 8)),
        ]
    dump = isa.DRAIN(
        acc=at(0), gm=8, gn=8, to="memory", mem=at((DATA + AREA // 2) // 8), stride=4,
        rows=full(32), cols=full(32), format="fp32", order="row",
    )  # fmt: skip
    sweep = isa.GEMM(
        a=at(0), b=at(0), acc=at(0), gm=8, gn=8, nk=4, a_stride=4, b_stride=4,
        accumulate=Flag(False, 0),
    )  # fmt: skip
    return [dump, sweep, dump.replace(mem=at((DATA + AREA * 3 // 4) // 8))]


def outcome(golden: GoldenMachine, node: int, program: list[Instruction], fill: Any) -> Any:
    """What two machines must agree on: memory, and the report or the fault."""
    golden.memory.write(DATA, fill)
    result: Report | tuple[Any, ...]
    try:
        result = run(golden, {node: program})
    except Fault as fault:
        result = (fault.pc, fault.cause, fault.numbers, fault.message)
    return result, golden.memory.read(DATA, AREA)


def same(node: int, instructions: list[Instruction], seed: int, poison: bool) -> None:
    """Run on both machines; where both fault alike, leave that instruction out and run again."""
    numbers = np.random.default_rng(seed)
    bits = numbers.integers(0, 1 << 16, AREA // 2, dtype=np.uint16)
    # Mostly numbers of a middling size, as FP16, with everything else in between.
    some = bits[:: 1 + seed % 3]
    some[:] = numbers.normal(size=len(some)).astype("<f2").view("<u2")
    fast = GoldenMachine(TINY, memory_words=WORDS, poison=poison)
    plain = GoldenMachine(TINY, memory_words=WORDS, poison=poison, fast=False)
    rest = [*instructions, *look(node)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PATIENCE", 0)
        while True:
            program = one_by_one(node, rest)
            one, other = (outcome(golden, node, program, bits) for golden in (fast, plain))
            assert one[0] == other[0]
            np.testing.assert_array_equal(one[1], other[1])
            if isinstance(one[0], Report):
                break
            del rest[one[0][0] // 2]
        one = outcome(fast, node, program, bits)  # once more, with warm memos
        assert one[0] == other[0]
        np.testing.assert_array_equal(one[1], other[1])
    event(f"{len(rest)} instructions ran")


vector_programs = st.lists(st.one_of(vfill(), vdrain(), execute(), execute()), max_size=12)
cluster_programs = st.lists(st.one_of(fill(), fill(), gemm(), drain()), max_size=12)


@settings(max_examples=80, phases=PHASES)
@given(vector_programs, st.integers(0, 50), st.sampled_from([False, False, True]))
def test_vector_programs(program: list[Instruction], seed: int, poison: bool) -> None:
    same(V, program, seed, poison)


@settings(max_examples=80, phases=PHASES)
@given(cluster_programs, st.integers(0, 50), st.sampled_from([False, False, True]))
def test_cluster_programs(program: list[Instruction], seed: int, poison: bool) -> None:
    same(C, program, seed, poison)


def silu(rows: int, cols: int) -> list[Instruction]:
    """Silu in three passes, out of an FP16 window into another, and what is left in between."""
    stride, beats = cols // 16, cols // 4
    window, kept = Source.l1h(at(0), stride), Source.reg(at(0), beats)
    base = {"rows": rows, "cols": cols, "f": "mac"}
    return [
        isa.EXEC(**base, a=window, b=Source.imm(-1.4426950408889634), unary="exp2",
                 dst=Destination.reg(at(0), beats)),
        isa.EXEC(**base, a=kept, c=Source.imm(1), unary="recip", dst=Destination.reg(at(0), beats),
                 reduce="sum", red=at(120)),
        isa.EXEC(**base, a=window, b=kept, dst=Destination.l1h(at(1024), stride)),
        # FP16 results as operands again, and a window that another one cuts.
        isa.EXEC(**base, a=Source.l1h(at(1024), stride), unary="abs",
                 dst=Destination.l1f(at(512), 2 * stride)),
        isa.EXEC(rows=1, cols=16, f="mac", a=Source.l1f(at(513), 0), c=Source.reg(at(8), 0),
                 dst=Destination.reg(at(2), 0)),
        isa.EXEC(**base, a=kept, c=Source.row(at(120)), dst=Destination.l1h(at(0), stride)),
    ]  # fmt: skip


def test_a_chain_of_tables_over_every_code() -> None:
    """All 65,536 codes through silu, 256 at a time; the tables are made on the way."""
    codes = np.random.default_rng(3).permutation(1 << 16).astype(np.uint16)
    results: list[Any] = []
    for fast in (True, False):
        golden = GoldenMachine(TINY, memory_words=1 << 15, fast=fast)
        golden.memory.write(DATA, codes)
        rows, cols = 4, 64
        move: dict[str, Any] = {"rows": rows, "cols": cols, "row_extent": full(rows)}
        move |= {"col_extent": full(cols), "format": "fp16", "stride": 4, "l1_stride": 4}
        block = [
            isa.VFILL(mem=Address(1, 0), l1=at(0), **move),
            *silu(rows, cols),
            *[
                isa.VDRAIN(l1=at(place), order="row", to="memory", mem=Address(2, 64 * n), **move)
                for n, place in enumerate((1024, 0))
            ],
        ]
        program = [
            isa.SETA(1, DATA // 8),
            isa.SETA(2, 4 * DATA // 8),
            isa.LOOP(at(256)),
            *one_by_one(V, block)[:-1],
            isa.ADDA(1, 1, 64),
            isa.ADDA(2, 2, 128),
            isa.END(),
            isa.HALT(),
        ]
        report = run(golden, {V: program})
        results.append((report, golden.memory.read(4 * DATA, 1 << 18)))
        if fast:
            first = golden.memory.read(4 * DATA, 512).view(np.float16)
            x = codes[:256].view(np.float16).astype(np.float64)
            with np.errstate(all="ignore"):
                want = x / (1 + np.exp(-x))
            finite = np.isfinite(x) & (np.abs(want) > 2.0**-14)
            np.testing.assert_allclose(first[finite], want[finite], rtol=2.0**-10)
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


def normalise(rows: int, cols: int, mem: int, out: int) -> list[Instruction]:
    """A softmax of ``[rows, cols]`` FP16, 3 rows at a time through rings of two, as a loop."""
    words, beats, step = -(-cols // 16), -(-cols // 4), 3
    window = Source.l1h(Address(2, 0), words)
    stored = {"l1_stride": words, "rows": step, "row_extent": Extent(rows, 3), "cols": cols}
    stored |= {"col_extent": full(cols), "format": "fp16", "stride": words}
    block = {"rows": step, "cols": cols, "f": "mac"}
    line = {"rows": 1, "cols": step, "f": "mac"}
    kept = Source.reg(at(8), beats)
    return [
        isa.SETA(1, mem // 8),
        isa.SETA(4, out // 8),
        *[isa.SYNC(1, posts=(isa.Post(V, 0),)), isa.SYNC(2, posts=(isa.Post(V, 2),))] * 2,
        isa.LOOP(at(-(-rows // step))),
        isa.VFILL(mem=Address(1, 0), l1=Address(2, 0), **stored, waits=(Wait(0),),
                  posts=(isa.Post(V, 1),)),
        isa.EXEC(**block, a=window, dst=Destination.none(), reduce="max", red=at(0),
                 waits=(Wait(1),)),
        isa.EXEC(**line, a=Source.reg(at(0), 1), b=Source.imm(-1.4427),
                 dst=Destination.reg(at(0), 1)),
        isa.EXEC(**block, a=window, b=Source.imm(1.4427), c=Source.row(at(0)), unary="exp2",
                 dst=Destination.reg(at(8), beats), reduce="sum", red=at(1),
                 posts=(isa.Post(V, 0),)),
        isa.EXEC(**line, a=Source.reg(at(1), 1), unary="recip", dst=Destination.reg(at(1), 1)),
        isa.EXEC(**block, a=kept, b=Source.row(at(1)), dst=Destination.l1h(Address(2, 512), words),
                 waits=(Wait(2),), posts=(isa.Post(V, 3),)),
        isa.VDRAIN(l1=Address(2, 512), order="row", to="memory", mem=Address(4, 0), **stored,
                   waits=(Wait(3),), posts=(isa.Post(V, 2),)),
        isa.ADDA(1, 1, 4 * words * step),
        isa.ADDA(2, 2, words * step, modulo=2 * words * step),
        isa.ADDA(3, 3, step),
        isa.ADDA(4, 4, 4 * words * step),
        isa.END(),
        isa.SYNC(0, waits=(Wait(0, 2),)),
        isa.SYNC(1, waits=(Wait(2, 2),)),
        isa.BARRIER(),
    ]  # fmt: skip


@pytest.mark.parametrize("cols", [5, 16, 72])
@pytest.mark.parametrize("poison", [False, True])
def test_blocks_worked_out_together(cols: int, poison: bool) -> None:
    """Two loops, the second on what the first wrote, in place and not."""
    rows = 50
    words = -(-cols // 16)
    x = np.random.default_rng(cols).normal(size=(rows, cols)).astype(np.float16) * 4
    padded = np.full((rows, words * 16), np.nan, np.float16)
    padded[:, :cols] = x
    out = DATA + 4 * DATA // 2
    results: list[Any] = []
    for fast in (True, False):
        golden = GoldenMachine(TINY, memory_words=WORDS, poison=poison, fast=fast)
        golden.memory.write(DATA, padded)
        again = normalise(rows, cols, out, out)
        restart = [isa.SETA(2, 0), isa.SETA(3, 0)]
        program = [*normalise(rows, cols, DATA, out), *restart, *again, isa.HALT()]
        report = run(golden, {V: program})
        got = golden.memory.read(out, rows * words * 32).view(np.float16)
        results.append((report, got.reshape(rows, words * 16)[:, :cols]))
    assert results[0][0] == results[1][0]
    bits = [result[1].view(np.uint16) for result in results]
    np.testing.assert_array_equal(bits[0], bits[1])
    want = x.astype(np.float64)
    for _ in range(2):
        powers = np.exp(want - want.max(axis=1, keepdims=True))
        want = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(results[0][1], want, atol=2e-3)


def test_a_fault_leaves_what_was_written_before_it() -> None:
    rows, cols = 12, 16
    x = np.random.default_rng(1).normal(size=(rows, cols)).astype(np.float16)
    memories: list[Any] = []
    for fast in (True, False):
        golden = GoldenMachine(TINY, memory_words=WORDS, fast=fast)
        golden.memory.write(DATA, x)
        with pytest.raises(Fault, match="ILLEGAL"):
            run(golden, {V: [*normalise(rows, cols, DATA, 2 * DATA), bytes(32)]})
        memories.append(golden.memory.read(2 * DATA, rows * 32))
    np.testing.assert_array_equal(memories[0], memories[1])
    assert memories[0].view(np.float16).astype(np.float32).sum() == pytest.approx(rows, abs=0.05)
