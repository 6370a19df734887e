"""EXEC against the scalar numbers, element by element, and the faults of its windows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakutpu import isa
from kohakutpu.config import preset
from kohakutpu.isa import Address, Destination, Instruction, Source
from kohakutpu.model import Fault, GoldenMachine
from kohakutpu.numerics.scalar import formats, fp32, reduction, seeds
from tests.model.support import DATA, ORIGIN, at, chain, full, run

pytestmark = pytest.mark.golden
TINY = preset("tiny")
V = 1
OUT = 8 * DATA
WORDS = 1 << 16
BITS = 0xFFFFFFFF

FUNCTIONS = {
    "max": fp32.maximum, "min": fp32.minimum, "lt": fp32.lt, "le": fp32.le, "eq": fp32.eq,
}  # fmt: skip
UNARY = {
    "none": fp32.canonical, "abs": fp32.absolute, "neg": fp32.neg, "exp2": seeds.exp2,
    "log2": seeds.log2, "recip": seeds.recip, "rsqrt": seeds.rsqrt,
}  # fmt: skip
REDUCE = {"sum": reduction.row_sum, "max": reduction.row_max, "min": reduction.row_min}


def scalar(f: str, unary: str, a: int | None, b: int | None, c: int | None) -> int:
    assert a is not None
    if f == "mac":
        value = fp32.canonical(a)
        if b is not None:
            value = fp32.mul(value, b)
        if c is not None:
            value = fp32.add(value, c)
    elif f == "select":
        assert b is not None
        assert c is not None
        value = fp32.select(c, a, b)
    else:
        assert b is not None
        value = FUNCTIONS[f](a, b)
    return UNARY[unary](value)


def each(function: Any, codes: Any, dtype: Any) -> Any:
    return np.array([function(int(code)) for code in codes.flat], dtype).reshape(codes.shape)


def vfill(where: int, base: int, rows: int, cols: int, **changes: Any) -> Instruction:
    operands: dict[str, Any] = {
        "mem": at(where // 8), "l1": at(base), "rows": rows, "cols": cols, "row_extent": full(rows),
        "col_extent": full(cols), "format": "fp16",
    }  # fmt: skip
    size = 4 if changes.get("format") == "fp32" else 2
    operands["stride"] = operands["l1_stride"] = -(-cols * size // 32)
    return isa.VFILL(**(operands | changes))


def vdrain(base: int, where: int, rows: int, cols: int, **changes: Any) -> Instruction:
    operands: dict[str, Any] = {
        "mem": at(where // 8), "l1": at(base), "rows": rows, "cols": cols, "row_extent": full(rows),
        "col_extent": full(cols), "format": "fp16", "order": "row", "to": "memory",
    }  # fmt: skip
    size = 4 if changes.get("format") == "fp32" else 2
    operands["stride"] = operands["l1_stride"] = -(-cols * size // 32)
    return isa.VDRAIN(**(operands | changes))


CODES = [0, 1 << 31, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF,
         0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x33800000]  # fmt: skip
numbers = st.one_of(
    st.sampled_from(CODES),
    st.integers(0, BITS),
    st.floats(-8, 8, width=32).map(lambda x: int(np.float32(x).view(np.uint32))),
)


@settings(max_examples=60)
@given(st.data())
def test_one_instruction(data: st.DataObject) -> None:
    draw = data.draw
    machine = draw(st.sampled_from([TINY, preset("small")]))
    lanes = machine.lanes
    rows, cols = draw(st.integers(1, 9)), draw(st.integers(1, 3 * lanes))
    f = draw(st.sampled_from(["mac", *FUNCTIONS, "select"]))
    unary = draw(st.sampled_from(list(UNARY)))
    reduce = draw(st.sampled_from(["none", *REDUCE]))
    kinds = ["imm", "reg", "l1h", "l1f", "row"]
    optional = ["none", *kinds] if f == "mac" else kinds
    chosen = [draw(st.sampled_from(kinds)), draw(st.sampled_from(optional))]
    chosen.append(draw(st.sampled_from(optional if f in ("mac", "select") else ["none"])))
    while sum(kind[0] == "l" for kind in chosen) > 2:
        chosen[2] = "imm"
    if f == "select" and chosen[2] == "none":
        chosen[2] = "row"
    bits = np.array(draw(st.lists(numbers, min_size=16, max_size=16)), np.uint32)
    pool = np.random.default_rng(draw(st.integers(0, 99))).choice(bits, (3, rows, cols))

    program: list[Instruction] = []
    sources: list[Source] = []
    values: list[Any] = []
    golden = GoldenMachine(machine, memory_words=WORDS, poison=True, fast=draw(st.booleans()))
    for n, kind in enumerate(chosen):
        operand = pool[n]
        base = 600 * n  # words of L1
        mem = DATA + n * DATA // 2
        beats = -(-cols // lanes)
        repeat = draw(st.booleans()) and kind in ("reg", "l1h", "l1f")
        if kind == "none":
            sources.append(Source.none())
            values.append(None)
            continue
        if kind == "imm":
            operand = np.full((rows, cols), operand[0, 0], np.uint32)
            sources.append(Source.imm_bits(int(operand[0, 0])))
        elif kind == "l1h":
            half = operand.astype(np.uint16)
            store(golden, mem, half)
            program.append(vfill(mem, base, rows, cols))
            operand = each(formats.widen, half, np.uint32)
            sources.append(Source.l1h(at(base), 0 if repeat else -(-cols // 16)))
        else:
            if kind == "row":
                operand = np.repeat(operand[:, :1], cols, 1)
                stored = operand[:, 0].reshape(1, rows)
            else:
                stored = operand
            store(golden, mem, stored)
            program.append(vfill(mem, base, *stored.shape, format="fp32"))
            stride = -(-stored.shape[1] // 8)
            if kind == "l1f":
                sources.append(Source.l1f(at(base), 0 if repeat else stride))
            else:  # through the register file, which holds no subnormals
                operand = each(fp32.canonical, operand, np.uint32)
                window = -(-stored.shape[1] // lanes)
                place = at(n * 27)
                lines, width = stored.shape
                move = Source.l1f(at(base), stride), Destination.reg(place, window)
                program.append(execute(lines, width, a=move[0], dst=move[1]))
                row = Source.row(place)
                sources.append(row if kind == "row" else Source.reg(place, 0 if repeat else beats))
        if repeat:
            operand = np.repeat(operand[:1], rows, 0)
        values.append(operand)
    sink = draw(st.sampled_from(["l1h", "l1f", "reg"]))
    destination = {
        "l1h": Destination.l1h(at(1800), -(-cols // 16)),
        "l1f": Destination.l1f(at(1800), -(-cols // 8)),
        "reg": Destination.reg(at(81), 1 + -(-cols // lanes)),
    }[sink]
    if reduce != "none" and draw(st.booleans()):
        destination = Destination.none()
    red = at(120) if reduce != "none" else ORIGIN
    program.append(execute(
        rows, cols, f=f, unary=unary, a=sources[0], b=sources[1], c=sources[2],
        dst=destination, reduce=reduce, red=red,
    ))  # fmt: skip
    if sink == "reg" and destination.kind == "reg":
        program.append(execute(
            rows, cols, a=Source.reg(at(81), destination.stride),
            dst=Destination.l1f(at(1800), -(-cols // 8)),
        ))  # fmt: skip
    if destination.kind != "none":
        form = "fp16" if sink == "l1h" else "fp32"
        program.append(vdrain(1800, OUT, rows, cols, format=form))
    if reduce != "none":
        program.append(execute(
            1, rows, a=Source.reg(red, 0), dst=Destination.l1f(at(1700), 8)
        ))  # fmt: skip
        program.append(vdrain(1700, 2 * OUT, 1, rows, format="fp32"))
    run(golden, {V: chain(V, program)})

    want = np.array([
        [scalar(f, unary, *(None if v is None else int(v[r, c]) for v in values))
         for c in range(cols)] for r in range(rows)
    ], np.uint32)  # fmt: skip
    if destination.kind != "none":
        if sink == "l1h":
            got = load(golden, OUT, rows, cols, np.uint16)
            want16 = each(formats.narrow, want, np.uint16)
            np.testing.assert_array_equal(got, want16)
        else:
            np.testing.assert_array_equal(load(golden, OUT, rows, cols, np.uint32), want)
    if reduce != "none":
        got = load(golden, 2 * OUT, 1, rows, np.uint32)[0]
        assert got.tolist() == [REDUCE[reduce]([int(x) for x in row]) for row in want]


def execute(rows: int, cols: int, f: str = "mac", **operands: Any) -> Instruction:
    return isa.EXEC(rows=rows, cols=cols, f=f, **({"dst": Destination.none()} | operands))


def store(golden: GoldenMachine, address: int, matrix: Any) -> None:
    """Write rows that start on words, padding all ones (NaN)."""
    rows, cols = matrix.shape
    stride = -(-cols * matrix.itemsize // 32) * 32 // matrix.itemsize
    padded = np.full((rows, stride), np.iinfo(matrix.dtype).max, matrix.dtype)
    padded[:, :cols] = matrix
    golden.memory.write(address, padded)


def load(golden: GoldenMachine, address: int, rows: int, cols: int, dtype: Any) -> Any:
    size = np.dtype(dtype).itemsize
    stride = -(-cols * size // 32) * 32
    data = golden.memory.read(address, rows * stride).view(dtype)
    return data.reshape(rows, stride // size)[:, :cols]


L1, REG = TINY.vl1_words, TINY.registers


@pytest.mark.parametrize(
    ("cause", "instruction"),
    [
        ("L1_RANGE", execute(2, 16, a=Source.l1h(at(L1 - 1), 1), dst=Destination.reg(ORIGIN, 4))),
        ("L1_RANGE", execute(1, 9, a=Source.l1f(at(L1 - 1), 2), dst=Destination.reg(ORIGIN, 4))),
        ("L1_RANGE", execute(2, 16, a=Source.imm(1), dst=Destination.l1h(at(L1 - 1), 1))),
        ("REG_RANGE", execute(2, 4, a=Source.reg(at(REG - 1), 1), dst=Destination.l1h(at(0), 1))),
        ("REG_RANGE", execute(5, 4, a=Source.row(at(REG - 1)), dst=Destination.l1h(at(0), 1))),
        ("REG_RANGE", execute(1, 5, a=Source.imm(1), dst=Destination.reg(at(REG - 1), 2))),
        ("REG_RANGE", execute(5, 4, a=Source.imm(1), reduce="sum", red=at(REG - 1))),
        # A window of another format, stride or base that shares a word with dst.
        ("OVERLAP", execute(2, 16, a=Source.l1f(at(0), 2), dst=Destination.l1h(at(0), 2))),
        ("OVERLAP", execute(2, 16, a=Source.l1h(at(0), 1), dst=Destination.l1h(at(0), 2))),
        ("OVERLAP", execute(2, 16, a=Source.l1h(at(0), 1), dst=Destination.l1h(at(1), 1))),
        ("OVERLAP", execute(2, 16, a=Source.l1h(at(1), 0), dst=Destination.l1h(at(0), 1))),
        ("OVERLAP", execute(2, 8, a=Source.reg(at(0), 2), dst=Destination.reg(at(1), 2))),
        ("OVERLAP", execute(2, 8, a=Source.row(at(3)), dst=Destination.reg(at(0), 2))),
        # Rows of dst that overlap; dst over red; red over a source of another kind.
        ("OVERLAP", execute(2, 8, a=Source.imm(1), dst=Destination.reg(at(0), 1))),
        ("OVERLAP", execute(2, 8, a=Source.imm(1), dst=Destination.reg(at(0), 2), reduce="sum",
                            red=at(3))),
        ("OVERLAP", execute(2, 8, a=Source.reg(at(0), 2), reduce="sum", red=at(3))),
        ("OVERLAP", execute(8, 8, a=Source.row(at(0)), reduce="sum", red=at(1))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fast", [True, False])
def test_window_faults(cause: str, instruction: Instruction, fast: bool) -> None:
    golden = GoldenMachine(TINY, memory_words=WORDS, fast=fast)
    with pytest.raises(Fault) as caught:
        run(golden, {V: [isa.SETA(1, 1), instruction, isa.HALT()]})
    assert (caught.value.cause, caught.value.node, caught.value.pc) == (cause, V, 1)
    assert caught.value.numbers


@pytest.mark.parametrize(
    "instruction",
    [
        execute(2, 16, a=Source.l1h(at(0), 1), dst=Destination.l1h(at(0), 1)),
        execute(2, 16, a=Source.l1h(at(0), 0), dst=Destination.l1h(at(1), 1)),
        execute(4, 16, a=Source.l1h(at(0), 2), dst=Destination.l1h(at(1), 2)),  # interleaved
        execute(8, 8, a=Source.row(at(0)), reduce="max", red=at(0)),
        execute(2, 16, a=Source.l1h(at(L1 - 2), 1), dst=Destination.reg(at(REG - 8), 4)),
    ],
)
def test_allowed_windows(instruction: Instruction) -> None:
    golden = GoldenMachine(TINY, memory_words=WORDS)
    run(golden, {V: [instruction, isa.HALT()]})


def test_bases_are_resolved_when_handed_over() -> None:
    golden = GoldenMachine(TINY, memory_words=WORDS)
    store(golden, DATA, np.arange(64, dtype=np.uint16).reshape(4, 16) + 0x3C00)
    program = [
        vfill(DATA, 0, 4, 16),
        isa.SETA(1, 2),
        isa.SETA(2, 9),
        execute(1, 16, a=Source.l1h(Address(1, 1), 1), dst=Destination.l1h(Address(2, 0), 1)),
        isa.SETA(1, 0),
        isa.SETA(2, 0),
        vdrain(9, OUT, 1, 16),
    ]
    run(golden, {V: chain(V, program)})
    np.testing.assert_array_equal(
        load(golden, OUT, 1, 16, np.uint16)[0], np.arange(48, 64) + 0x3C00
    )
