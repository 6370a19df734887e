"""Hypothesis strategies for instructions, derived from the records."""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from kohakuaccel.isa import (
    BitSet,
    Boolean,
    Enumeration,
    Modular,
    OperandType,
    Record,
    Slots,
    Struct,
    Union,
    Unsigned,
)
from kohakutpu import isa
from kohakutpu.isa import Address, Extent, Instruction, Source

INTERESTING_FP32 = (
    0x00000000,  # +0
    0x80000000,  # -0
    0x00000001,  # smallest subnormal
    0x3DCCCCCD,  # 0.1
    0x7F7FFFFF,  # largest finite
    0x7F800000,  # +inf
    0xFF800000,  # -inf
    0x7FC00000,  # the canonical NaN
    0xFFC00000,  # the same, negative
    0x7F800001,  # a signalling NaN
)


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Integers of any number of bits, the ends often."""
    return st.one_of(st.sampled_from((low, high)), st.integers(low, high))


def values(kind: OperandType) -> st.SearchStrategy[Any]:
    """Return a strategy for every value of an operand type, in canonical form."""
    if isinstance(kind, Unsigned):
        if kind.width == 32:
            return st.one_of(st.sampled_from(INTERESTING_FP32), integers(kind.low, kind.high))
        return integers(kind.low, kind.high)
    if isinstance(kind, (Modular, BitSet)):
        return integers(0, (1 << kind.width) - 1)
    if isinstance(kind, Enumeration):
        return st.sampled_from(kind.names)
    if isinstance(kind, Boolean):
        return st.booleans()
    if isinstance(kind, Struct):
        return st.builds(kind.cls, **{name: values(part) for name, part in kind.parts.items()})
    if isinstance(kind, Union):
        return st.sampled_from(kind.tags).flatmap(
            lambda tag: st.builds(
                kind.cls,
                st.just(tag),
                **{name: values(part) for name, part in kind.variants[tag].items()},
            )
        )
    if isinstance(kind, Slots):
        return st.lists(values(kind.element), max_size=kind.count).map(tuple)
    raise TypeError(f"no strategy for {kind!r}")


def settle(name: str, operands: dict[str, Any]) -> None:
    """Change operands that contradict each other, so that few draws are thrown away."""
    if name == "FILL" and operands["mode"] == "packed":
        operands.update(stride=0, rows=Extent(0, 0), k=Extent(0, 0), transpose=False)
    if name in ("DRAIN", "VDRAIN"):
        if operands["to"] == "memory":
            operands.update(nodes=0, buffer="vector", residual=False)
        else:
            operands["nodes"] = operands["nodes"] or 1
        if operands["buffer"] == "vector":
            operands["residual"] = False
        else:
            operands["format"] = "fp16"
    if name == "DRAIN":
        if operands["buffer"] != "vector":
            operands["order"] = "row"
        if operands["to"] == "memory" and operands["order"] == "tile":
            operands.update(rows=Extent(0, 0), cols=Extent(0, 0))
    if name == "VDRAIN" and operands["order"] == "tile":
        operands.update(rows=max(4, operands["rows"] & ~3), cols=max(4, operands["cols"] & ~3))
    if name == "EXEC":
        some = Source.imm(1)
        for source in (
            "abc" if operands["f"] == "select" else "a" if operands["f"] == "mac" else "ab"
        ):
            if operands[source].kind == "none":
                operands[source] = some
        if operands["f"] not in ("mac", "select"):
            operands["c"] = Source.none()
        if all(operands[source].kind in ("l1h", "l1f") for source in "abc"):
            operands["b"] = some
        if operands["reduce"] == "none":
            operands["red"] = Address(0, 0)
    if len(operands["waits"]) == 2 and len({wait.semaphore for wait in operands["waits"]}) == 1:
        operands["waits"] = operands["waits"][:1]


@st.composite
def instructions(draw: st.DrawFn, record: Record) -> Instruction:
    """Draw a legal instruction of one record."""
    operands = {operand.name: draw(values(operand.kind)) for operand in record.operands}
    settle(record.name, operands)
    return record(**operands)


def any_instruction(unit_kind: str) -> st.SearchStrategy[Instruction]:
    """Return a strategy for the legal instructions of a unit kind."""
    return st.sampled_from(isa.records(unit_kind)).flatmap(instructions)


def programs(unit_kind: str, max_size: int = 8) -> st.SearchStrategy[list[Instruction]]:
    """Return a strategy for sequences of legal instructions; loops need not match."""
    return st.lists(any_instruction(unit_kind), max_size=max_size)


def leaves(value: object) -> dict[str, Any]:
    """Return the parts of a dataclass instance by dotted path, an obvious way to look inside."""
    result: dict[str, Any] = {}
    for part in fields(value):  # pyright: ignore[reportArgumentType]
        inner = getattr(value, part.name)
        nested = leaves(inner) if hasattr(inner, "__dataclass_fields__") else {"": inner}
        for path, leaf in nested.items():
            result[f"{part.name}.{path}" if path else part.name] = leaf
    return result
