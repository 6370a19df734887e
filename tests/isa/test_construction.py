"""Making instructions: what is refused, at construction and at decode alike."""

import copy
import re
import timeit
from typing import Any

import numpy as np
import pytest

from kohakutpu import isa
from kohakutpu.isa import (
    ADDA,
    DRAIN,
    EXEC,
    FILL,
    GEMM,
    LOOP,
    SETA,
    SYNC,
    VDRAIN,
    VFILL,
    Address,
    Destination,
    EncodingError,
    Extent,
    Flag,
    IllegalInstruction,
    Instruction,
    Post,
    Record,
    Source,
    Wait,
)

ORIGIN = Address(0, 0)
NOTHING = Extent(0, 0)
FULL = Extent(8, 0)
L1 = Source.l1h(ORIGIN, 1)
ONE = Source.imm(1)
ONE_AS_ANY: Any = 1

LEGAL: dict[Record, dict[str, Any]] = {
    SETA: {"rd": 1, "imm": 0},
    ADDA: {"rd": 1, "rs": 0, "imm": 0},
    LOOP: {"count": Address(0, 3)},
    SYNC: {"engine": 0},
    FILL: {
        "buffer": "A",
        "l1": ORIGIN,
        "l1_stride": 1,
        "mem": ORIGIN,
        "stride": 1,
        "g": 1,
        "nk": 1,
        "rows": FULL,
        "k": FULL,
        "mode": "fp16",
    },
    GEMM: {
        "a": ORIGIN,
        "b": ORIGIN,
        "acc": ORIGIN,
        "gm": 1,
        "gn": 1,
        "nk": 1,
        "a_stride": 1,
        "b_stride": 1,
        "accumulate": Flag(True, 0),
    },
    DRAIN: {
        "acc": ORIGIN,
        "gm": 1,
        "gn": 1,
        "to": "memory",
        "mem": ORIGIN,
        "stride": 1,
        "rows": FULL,
        "cols": FULL,
        "format": "fp16",
        "order": "row",
    },
    VFILL: {
        "mem": ORIGIN,
        "stride": 1,
        "l1": ORIGIN,
        "l1_stride": 1,
        "rows": 1,
        "row_extent": FULL,
        "cols": 1,
        "col_extent": FULL,
        "format": "fp32",
    },
    EXEC: {"rows": 1, "cols": 1, "f": "mac", "a": ONE, "dst": Destination.none()},
    VDRAIN: {
        "l1": ORIGIN,
        "l1_stride": 1,
        "rows": 4,
        "row_extent": FULL,
        "cols": 4,
        "col_extent": FULL,
        "format": "fp16",
        "order": "row",
        "to": "memory",
        "mem": ORIGIN,
        "stride": 1,
    },
}

TO_NODE = {"to": "node", "nodes": 2}
PACKED = {"mode": "packed", "stride": 0, "rows": NOTHING, "k": NOTHING}

# What the contract excludes, and next to it what it just allows.
CONTRADICTIONS: list[tuple[Record, str, dict[str, Any], dict[str, Any]]] = [
    (FILL, "packed", {**PACKED, "stride": 1}, PACKED),
    (FILL, "packed", {**PACKED, "rows": Extent(0, 1)}, PACKED),
    (FILL, "packed", {**PACKED, "k": Extent(1, 0)}, PACKED),
    (FILL, "packed", {**PACKED, "transpose": True}, {"transpose": True, "mode": "residual"}),
    (FILL, "two semaphores", {"waits": (Wait(1), Wait(1))}, {"waits": (Wait(1), Wait(2))}),
    (EXEC, "first source", {"a": Source.none()}, {"a": Source.row(ORIGIN)}),
    (EXEC, "pair", {"f": "max"}, {"f": "max", "b": ONE}),
    (EXEC, "pair", {"f": "le", "b": ONE, "c": ONE}, {"f": "le", "b": ONE}),
    (EXEC, "triple", {"f": "select", "c": ONE}, {"f": "select", "b": ONE, "c": ONE}),
    (EXEC, "triple", {"f": "select", "b": ONE}, {"c": ONE}),
    (EXEC, "L1 ports", {"a": L1, "b": L1, "c": L1}, {"a": L1, "b": L1, "c": ONE}),
    (EXEC, "no reduction", {"red": Address(0, 1)}, {"red": Address(0, 1), "reduce": "sum"}),
    (DRAIN, "whole tiles", {"order": "tile"}, {**TO_NODE, "order": "tile"}),
    (
        DRAIN,
        "whole tiles",
        {"order": "tile", "rows": NOTHING},
        {"order": "tile", "rows": NOTHING, "cols": NOTHING},
    ),
    (
        DRAIN,
        "quantised order",
        {**TO_NODE, "buffer": "l1a", "order": "tile"},
        {**TO_NODE, "buffer": "l1b", "residual": True},
    ),
    (VDRAIN, "whole sub-tiles", {"order": "tile", "rows": 5}, {"order": "tile", "rows": 8}),
    (VDRAIN, "whole sub-tiles", {"order": "tile", "cols": 6}, {"cols": 6}),
]
for _record in (DRAIN, VDRAIN):
    CONTRADICTIONS += [
        (_record, "memory receiver", {"nodes": 1}, TO_NODE),
        (_record, "memory receiver", {"buffer": "l1a"}, {**TO_NODE, "buffer": "l1a"}),
        (_record, "some receiver", {"to": "node"}, TO_NODE),
        (
            _record,
            "residual receiver",
            {**TO_NODE, "residual": True},
            {**TO_NODE, "residual": True, "buffer": "l1a"},
        ),
        (
            _record,
            "quantised format",
            {**TO_NODE, "buffer": "l1b", "format": "fp32"},
            {**TO_NODE, "buffer": "vector", "format": "fp32"},
        ),
    ]


def unchecked_word(record: Record, operands: dict[str, Any]) -> bytes:
    """Return the word of operands that no check has seen."""
    values = {operand.name: operand.default for operand in record.operands} | operands
    return record.encode(Instruction(record, values)).to_bytes(32, "little")


def kind_of(record: Record) -> str:
    return "C" if record in isa.records("C") else "V"


@pytest.mark.parametrize(("record", "check", "illegal", "legal"), CONTRADICTIONS)
def test_contradictions(
    record: Record, check: str, illegal: dict[str, Any], legal: dict[str, Any]
) -> None:
    with pytest.raises(EncodingError) as caught:
        record(**(LEGAL[record] | illegal))
    assert (caught.value.record, caught.value.operand) == (record.name, check)
    assert caught.value.expected in str(caught.value)
    with pytest.raises(IllegalInstruction) as refused:
        isa.decode(kind_of(record), unchecked_word(record, LEGAL[record] | illegal))
    assert refused.value.reason == f"{record.name}: {caught.value.expected}"
    allowed = record(**(LEGAL[record] | legal))
    assert isa.decode(kind_of(record), isa.encode(allowed)) == allowed


def test_every_check_is_tested() -> None:
    tested = {(record.name, check) for record, check, _, _ in CONTRADICTIONS}
    stated = {
        (record.name, check.name)
        for kind in "CV"
        for record in isa.records(kind)
        for check in record.checks[len(record.form.checks) :]
    }
    assert stated <= tested
    assert ("FILL", "two semaphores") in tested


RANGES = [
    (SETA, {"rd": 0}, "rd", "from 1 to 15"),
    (SETA, {"rd": 16}, "rd", "from 1 to 15"),
    (SETA, {"imm": 1 << 34}, "imm", "from -8589934592 to 17179869183"),
    (SETA, {"imm": -(1 << 33) - 1}, "imm", "from -8589934592"),
    (ADDA, {"modulo": -1}, "modulo", "from 0 to 17179869183"),
    (LOOP, {"count": Address(0, 1 << 24)}, "count.imm", "from 0 to 16777215"),
    (LOOP, {"count": 3}, "count", "Address"),
    (SYNC, {"engine": 3}, "engine", "from 0 to 2"),
    (SYNC, {"engine": True}, "engine", "from 0 to 2"),
    (SYNC, {"engine": 1.0}, "engine", "from 0 to 2"),
    (SYNC, {"engine": "1"}, "engine", "from 0 to 2"),
    (SYNC, {"waits": (Wait(32),)}, "waits.0.semaphore", "from 0 to 31"),
    (SYNC, {"waits": (Wait(1), Wait(2, 0))}, "waits.1.count", "from 1 to 15"),
    (SYNC, {"waits": (Wait(1, 16),)}, "waits.0.count", "from 1 to 15"),
    (SYNC, {"waits": (Wait(1), Wait(2), Wait(3))}, "waits", "up to 2"),
    (SYNC, {"waits": Wait(1)}, "waits", "up to 2"),
    (SYNC, {"waits": (Post(1, 1),)}, "waits.0", "Wait"),
    (SYNC, {"posts": (Post(16, 0),)}, "posts.0.node", "from 0 to 15"),
    (SYNC, {"posts": [Post(0, 32)]}, "posts.0.semaphore", "from 0 to 31"),
    (FILL, {"buffer": "a"}, "buffer", r"one of A \(0\), B \(1\)"),
    (FILL, {"buffer": 0}, "buffer", "one of A"),
    (FILL, {"l1": Address(0, 1 << 14)}, "l1.imm", "from 0 to 16383"),
    (FILL, {"l1": Address(16, 0)}, "l1.reg", "from 0 to 15"),
    (FILL, {"mem": Address(0, 1 << 34)}, "mem.imm", "from 0 to 17179869183"),
    (FILL, {"mem": Address(0, -1)}, "mem.imm", "from 0 to"),
    (FILL, {"rows": Extent(1 << 24, 0)}, "rows.limit", "from 0 to 16777215"),
    (FILL, {"rows": Address(0, 1)}, "rows", "Extent"),
    (FILL, {"g": 0}, "g", "from 1 to 1023"),
    (FILL, {"nk": 1024}, "nk", "from 1 to 1023"),
    (FILL, {"stride": 1 << 24}, "stride", "from 0 to 16777215"),
    (FILL, {"transpose": 1}, "transpose", "True"),
    (FILL, {"nodes": 1 << 16}, "nodes", "0xffff"),
    (FILL, {"nodes": -1}, "nodes", "0xffff"),
    (GEMM, {"gm": 0}, "gm", "from 1"),
    (GEMM, {"gn": 0}, "gn", "from 1"),
    (GEMM, {"nk": 0}, "nk", "from 1"),
    (GEMM, {"accumulate": Flag(ONE_AS_ANY, 0)}, "accumulate.imm", "True"),
    (GEMM, {"accumulate": True}, "accumulate", "Flag"),
    (VFILL, {"rows": 0}, "rows", "from 1 to 4095"),
    (VFILL, {"cols": 1 << 16}, "cols", "from 1 to 65535"),
    (EXEC, {"rows": 4096}, "rows", "from 1 to 4095"),
    (EXEC, {"cols": 0}, "cols", "from 1 to 16383"),
    (EXEC, {"cols": 1 << 14}, "cols", "from 1 to 16383"),
    (EXEC, {"a": Source("l1x")}, "a.kind", "one of none, imm"),
    (EXEC, {"a": Source.reg(ORIGIN, 1 << 14)}, "a.stride", "from 0 to 16383"),
    (EXEC, {"a": Source.reg(Address(0, 1 << 14), 0)}, "a.base.imm", "from 0 to 16383"),
    (EXEC, {"a": Source("row", 0, ORIGIN, 3)}, "a.stride", "as row has none"),
    (EXEC, {"a": Source("l1h", 7, ORIGIN, 3)}, "a.bits", "as l1h has none"),
    (EXEC, {"a": Source.imm_bits(1 << 32)}, "a.bits", "from 0 to 4294967295"),
    (EXEC, {"a": 1.0}, "a", "Source"),
    (EXEC, {"a": Destination.reg(ORIGIN, 0)}, "a", "Source"),
    (EXEC, {"dst": Destination("row")}, "dst.kind", "one of none, reg, l1h, l1f"),
    (EXEC, {"dst": Source.none()}, "dst", "Destination"),
]


@pytest.mark.parametrize(("record", "operands", "path", "expected"), RANGES)
def test_ranges(record: Record, operands: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(EncodingError, match=expected) as caught:
        record(**(LEGAL[record] | operands))
    assert (caught.value.record, caught.value.operand) == (record.name, path)
    assert f"{record.name}, operand {path}: expected" in str(caught.value)
    assert repr(caught.value.value) in str(caught.value)


@pytest.mark.parametrize("record", LEGAL, ids=lambda record: record.name)
def test_missing_and_unknown_operands(record: Record) -> None:
    for name in LEGAL[record]:
        rest = {key: value for key, value in LEGAL[record].items() if key != name}
        with pytest.raises(EncodingError, match=f"{record.name}, operand {name} is missing"):
            record(**rest)
    with pytest.raises(EncodingError, match=f"{record.name} has no operand width; it has waits"):
        record(**LEGAL[record], width=3)


def test_operands_by_position() -> None:
    assert SETA(1, 2) == SETA(rd=1, imm=2)
    assert SETA(1, imm=2) == SETA(rd=1, imm=2)
    with pytest.raises(EncodingError, match="operand rd is given by position and by name"):
        SETA(1, 2, rd=1)
    with pytest.raises(EncodingError, match="SETA takes at most 2 operands by position, not 3"):
        SETA(1, 2, 3)


def test_registers_wrap() -> None:
    assert SETA(1, -1).imm == (1 << 34) - 1
    assert SETA(1, -1) == SETA(1, (1 << 34) - 1)
    assert ADDA(1, 1, -(1 << 33)).imm == 1 << 33


def test_numpy_integers_become_plain() -> None:
    two: Any = np.int64(2)
    seven: Any = np.uint8(7)
    instruction = LOOP(count=Address(two, seven))
    assert instruction == LOOP(count=Address(2, 7))
    assert type(instruction.count.imm) is int
    source = EXEC(**(LEGAL[EXEC] | {"a": Source.reg(Address(0, 1), two)})).a
    assert type(source.stride) is int
    assert type(SYNC(engine=two).engine) is int
    assert type(FILL(**(LEGAL[FILL] | {"nodes": seven})).nodes) is int


def test_engines() -> None:
    assert isa.HALT().engine is None
    assert [SYNC(engine=engine).engine for engine in range(3)] == [0, 1, 2]
    assert [r(**LEGAL[r]).engine for r in (FILL, GEMM, DRAIN)] == [0, 1, 2]
    assert [r(**LEGAL[r]).engine for r in (VFILL, EXEC, VDRAIN)] == [0, 1, 2]


def test_instructions_are_values() -> None:
    fill = FILL(**LEGAL[FILL], posts=[Post(1, 2)])
    assert fill.posts == (Post(1, 2),)
    assert fill.name == "FILL"
    assert fill.record is FILL
    assert fill.l1.reg == 0
    assert len({fill, fill.replace(), fill.replace(g=2)}) == 2
    assert fill.replace(g=2).g == 2
    assert fill != GEMM(**LEGAL[GEMM])
    assert fill != "FILL"
    assert copy.copy(fill) == fill
    assert repr(SYNC(engine=1)) == "SYNC(waits=(), posts=(), engine=1)"
    with pytest.raises(AttributeError, match=re.escape("use replace(g=...)")):
        fill.g = 2
    with pytest.raises(AttributeError, match="immutable"):
        del fill.g
    with pytest.raises(AttributeError, match="FILL has no operand 'acc'"):
        fill.acc  # noqa: B018
    with pytest.raises(EncodingError, match="from 1 to 1023, not 0"):
        fill.replace(g=0)


def test_immediates_are_fp32() -> None:
    assert Source.imm(0.1).value == float(np.float32(0.1))
    assert Source.imm(np.float32(0.1)) == Source.imm(0.1)
    assert Source.imm(-0.0) != Source.imm(0.0)
    assert Source.imm(float("nan")) == Source.imm(float("nan"))
    assert Source.imm(float("nan")).bits == 0x7FC00000
    assert Source.imm(float("-inf")).value == float("-inf")
    assert Source.imm(1 + 2**-24).value == 1.0  # ties to even
    assert Source.imm(1 + 3 * 2**-24).value == 1 + 2**-22
    with pytest.raises(EncodingError, match=r"operand imm: .* the range of FP32, not 1e\+39"):
        Source.imm(1e39)


def test_speed() -> None:
    # Stated for the compiler: 20 us each on a quiet machine. The bound leaves room for a busy one.
    instruction = FILL(**LEGAL[FILL], waits=(Wait(1),), posts=(Post(1, 2),))
    operands = instruction.operands
    word = isa.encode(instruction)

    def seconds(call: Any) -> float:
        return min(timeit.repeat(call, number=50, repeat=40)) / 50

    assert seconds(lambda: FILL(**operands)) < 40e-6
    assert seconds(lambda: isa.encode(instruction)) < 40e-6
    assert seconds(lambda: isa.decode("C", word)) < 4e-6
