"""Bit positions: complete, without overlap, the common ones everywhere the same."""

import pytest

from kohakutpu import isa

RECORDS = sorted({*isa.records("C"), *isa.records("V")}, key=lambda record: record.opcode)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_fields_follow_each_other(record: isa.Record) -> None:
    position = 0
    for _, offset, width in record.layout:
        assert offset == position
        assert width > 0
        position += width
    assert position <= 256
    paths = [field.path for field in record.layout]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_common_fields_stand_still(record: isa.Record) -> None:
    assert [field for field in record.layout if field.offset < 48] == [
        ("opcode", 0, 8),
        ("waits.0.valid", 8, 1),
        ("waits.0.semaphore", 9, 5),
        ("waits.0.count", 14, 4),
        ("waits.1.valid", 18, 1),
        ("waits.1.semaphore", 19, 5),
        ("waits.1.count", 24, 4),
        ("posts.0.valid", 28, 1),
        ("posts.0.node", 29, 4),
        ("posts.0.semaphore", 33, 5),
        ("posts.1.valid", 38, 1),
        ("posts.1.node", 39, 4),
        ("posts.1.semaphore", 43, 5),
    ]


def widths(record: isa.Record) -> dict[str, int]:
    return {operand.name: operand.kind.width for operand in record.own}


def test_widths_are_those_of_the_contract() -> None:
    local, memory, extent, flag, source, destination = 18, 38, 28, 5, 35, 34
    assert widths(isa.SETA) == {"rd": 4, "imm": 34}
    assert widths(isa.ADDA) == {"rd": 4, "rs": 4, "imm": 34, "modulo": 34}
    assert widths(isa.LOOP) == {"count": 28}
    assert widths(isa.SYNC) == {"engine": 2}
    for record in (isa.END, isa.BARRIER, isa.HALT):
        assert widths(record) == {}
    assert widths(isa.FILL) == {
        "buffer": 1,
        "l1": local,
        "l1_stride": 14,
        "mem": memory,
        "stride": 24,
        "g": 10,
        "nk": 10,
        "rows": extent,
        "k": extent,
        "mode": 2,
        "transpose": 1,
        "nodes": 16,
    }
    assert widths(isa.GEMM) == {
        "a": local,
        "b": local,
        "acc": local,
        "gm": 10,
        "gn": 10,
        "nk": 10,
        "a_stride": 14,
        "b_stride": 14,
        "accumulate": flag,
    }
    leaving = {"nodes": 16, "buffer": 2, "residual": 1}
    assert widths(isa.DRAIN) == {
        "acc": local,
        "gm": 10,
        "gn": 10,
        "to": 1,
        "mem": memory,
        "stride": 24,
        "rows": extent,
        "cols": extent,
        "format": 1,
        "order": 1,
        **leaving,
    }
    window = {"rows": 12, "row_extent": extent, "cols": 16, "col_extent": extent, "format": 1}
    assert widths(isa.VFILL) == {
        "mem": memory,
        "stride": 24,
        "l1": local,
        "l1_stride": 14,
        **window,
        "nodes": 16,
    }
    assert widths(isa.VDRAIN) == {
        "l1": local,
        "l1_stride": 14,
        **window,
        "order": 1,
        "to": 1,
        "mem": memory,
        "stride": 24,
        **leaving,
    }
    assert widths(isa.EXEC) == {
        "rows": 12,
        "cols": 14,
        "f": 3,
        "a": source,
        "b": source,
        "c": source,
        "unary": 3,
        "dst": destination,
        "reduce": 2,
        "red": local,
    }


def test_codes_are_those_of_the_contract() -> None:
    codes = {
        f"{record.name}.{operand.name}": getattr(operand.kind, "names", None)
        for record in RECORDS
        for operand in record.own
    }
    assert {name: names for name, names in codes.items() if names} == {
        "FILL.buffer": ("A", "B"),
        "FILL.mode": ("fp16", "residual", "packed"),
        "DRAIN.to": ("memory", "node"),
        "DRAIN.format": ("fp16", "fp32"),
        "DRAIN.order": ("row", "tile"),
        "DRAIN.buffer": ("vector", "l1a", "l1b"),
        "VFILL.format": ("fp16", "fp32"),
        "EXEC.f": ("mac", "max", "min", "lt", "le", "eq", "select"),
        "EXEC.unary": ("none", "abs", "neg", "exp2", "log2", "recip", "rsqrt"),
        "EXEC.reduce": ("none", "sum", "max", "min"),
        "VDRAIN.format": ("fp16", "fp32"),
        "VDRAIN.order": ("row", "tile"),
        "VDRAIN.to": ("memory", "node"),
        "VDRAIN.buffer": ("vector", "l1a", "l1b"),
    }
    assert {record.name: (record.opcode, record.engine) for record in RECORDS} == {
        "SETA": (1, None),
        "ADDA": (2, None),
        "LOOP": (3, None),
        "END": (4, None),
        "BARRIER": (5, None),
        "HALT": (6, None),
        "SYNC": (7, None),
        "FILL": (8, 0),
        "GEMM": (9, 1),
        "DRAIN": (10, 2),
        "VFILL": (12, 0),
        "EXEC": (13, 1),
        "VDRAIN": (14, 2),
    }
