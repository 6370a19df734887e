"""Words: pinned by hand, against an obvious reference, there and back, hostile."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakuaccel.isa import Enumeration, Slots, Struct, Union
from kohakutpu import isa
from kohakutpu.isa import (
    ADDA,
    EXEC,
    FILL,
    GEMM,
    SYNC,
    Address,
    Destination,
    Extent,
    Flag,
    IllegalInstruction,
    Instruction,
    Post,
    Source,
    Wait,
)
from tests.isa.strategies import any_instruction, leaves

KINDS = ("C", "V")

# Written out by hand from the layout, byte by byte.
PINNED = [
    (
        "V",
        SYNC(engine=2, waits=(Wait(3, 2),), posts=(Post(4, 1),)),
        "07 87 00 90 02 00 02",
    ),
    (
        "C",
        ADDA(rd=1, rs=2, imm=-4, modulo=3),
        "02 00 00 00 00 00 21 fc ff ff ff 0f",
    ),
    (
        "C",
        GEMM(
            a=Address(1, 2),
            b=Address(0, 3),
            acc=Address(2, 1),
            gm=4,
            gn=2,
            nk=1,
            a_stride=1,
            b_stride=3,
            accumulate=Flag(False, 3),
        ),
        "09 00 00 00 00 00 21 00 c0 00 20 01 00 01 02 04 10 00 0c 00 06",
    ),
    (
        "C",
        FILL(
            buffer="B",
            l1=Address(1, 1),
            l1_stride=2,
            mem=Address(4, 1),
            stride=1,
            g=1,
            nk=1,
            rows=Extent(5, 2),
            k=Extent(1, 1),
            mode="residual",
            transpose=True,
            nodes=1,
        ),
        "08 00 00 00 00 00 23 00 10 00 28 00 00 00 80 00 00 80 00 02 28 00 00 90 00 00 80 68",
    ),
    (
        "V",
        EXEC(
            rows=2,
            cols=5,
            f="select",
            a=Source.imm(1.0),
            b=Source.row(Address(1, 1)),
            c=Source.l1h(Address(0, 2), 4),
            unary="abs",
            dst=Destination.l1f(Address(0, 1), 1),
            reduce="max",
            red=Address(1, 5),
        ),
        "0d 00 00 00 00 00 02 50 00 38 00 00 80 3f 8d 00 00 00 18 08 00 04 40 86 00 20 00 30 0a",
    ),
]


@pytest.mark.parametrize(
    ("kind", "instruction", "text"), PINNED, ids=lambda v: getattr(v, "name", "")
)
def test_pinned_words(kind: str, instruction: Instruction, text: str) -> None:
    word = bytes.fromhex(text).ljust(32, b"\0")
    assert isa.encode(instruction).hex(" ") == word.hex(" ")
    assert isa.decode(kind, word) == instruction


def number(kind: Any, value: Any) -> int:
    """Return the bits of a simple value."""
    return kind.names.index(value) if isinstance(kind, Enumeration) else int(value)


def reference_fields(name: str, kind: Any, value: Any) -> dict[str, int]:
    """Return the bits of every field of an operand, looked up by path."""
    if isinstance(kind, Slots):
        result: dict[str, int] = {}
        for slot, element in enumerate(value):
            result[f"{name}.{slot}.valid"] = 1
            result |= reference_fields(f"{name}.{slot}", kind.element, element)
        return result
    if isinstance(kind, Union):
        inside = leaves(value)
        payload = sum(
            int(inside[field.path]) << field.offset for field in kind.payload_fields(value.kind)
        )
        return {f"{name}.kind": kind.tags.index(value.kind), f"{name}.payload": payload}
    if isinstance(kind, Struct):
        return {f"{name}.{path}": int(leaf) for path, leaf in leaves(value).items()}
    return {name: number(kind, value)}


def reference_word(instruction: Instruction) -> int:
    bits = {"opcode": instruction.record.opcode}
    for operand in instruction.record.operands:
        bits |= reference_fields(operand.name, operand.kind, getattr(instruction, operand.name))
    word = 0
    for path, offset, width in instruction.record.layout:
        value = bits.pop(path, 0)
        assert value < 1 << width
        word += value << offset
    assert not bits
    return word


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
def test_words_follow_the_layout_and_lead_back(kind: str, data: st.DataObject) -> None:
    instruction = data.draw(any_instruction(kind))
    word = isa.encode(instruction)
    assert int.from_bytes(word, "little") == reference_word(instruction)
    decoded = isa.decode(kind, word)
    assert decoded == instruction
    assert hash(decoded) == hash(instruction)
    assert decoded.operands == instruction.operands
    assert instruction.replace() == instruction


def decodes_to_itself(kind: str, word: bytes) -> None:
    """A word is either an instruction of exactly this word, or illegal: nothing else is raised."""
    try:
        instruction = isa.decode(kind, word)
    except IllegalInstruction:
        return
    assert isa.encode(instruction) == word


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_words(kind: str, data: st.DataObject) -> None:
    word = isa.encode(data.draw(any_instruction(kind)))
    for bit in data.draw(st.lists(st.integers(0, 255), min_size=1, max_size=24)):
        damaged = int.from_bytes(word, "little") ^ 1 << bit
        decodes_to_itself(kind, damaged.to_bytes(32, "little"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
def test_noise(kind: str, data: st.DataObject) -> None:
    opcode = data.draw(st.sampled_from(range(16)))
    noise = data.draw(st.binary(min_size=31, max_size=31))
    decodes_to_itself(kind, bytes([opcode]) + noise)


@pytest.mark.parametrize("kind", KINDS)
def test_every_reserved_bit_is_illegal(kind: str) -> None:
    for record in isa.records(kind):
        end = max(offset + width for _, offset, width in record.layout)
        word = next(
            isa.encode(instruction)
            for instruction in SMALLEST[kind]
            if instruction.record is record
        )
        for bit in range(end, 256):
            damaged = (int.from_bytes(word, "little") | 1 << bit).to_bytes(32, "little")
            with pytest.raises(IllegalInstruction, match="zeros from bit"):
                isa.decode(kind, damaged)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_opcodes(kind: str) -> None:
    known = {record.opcode for record in isa.records(kind)}
    for opcode in set(range(256)) - known:
        with pytest.raises(IllegalInstruction, match=f"unknown opcode {opcode:#04x}"):
            isa.decode(kind, bytes([opcode]).ljust(32, b"\0"))


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_words_of_a_wrong_size(length: int) -> None:
    with pytest.raises(IllegalInstruction, match=f"32 bytes, not {length}"):
        isa.decode("C", b"\6".ljust(length, b"\0")[:length])


def test_unit_kinds_do_not_mix() -> None:
    for kind, other in ("CV", "VC"):
        for instruction in SMALLEST[kind]:
            if instruction.record in isa.records(other):
                assert isa.decode(other, isa.encode(instruction)) == instruction
            else:
                with pytest.raises(IllegalInstruction, match="unknown opcode"):
                    isa.decode(other, isa.encode(instruction))


def test_units_without_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 'C' or 'V', not 'M'"):
        isa.decode("M", bytes(32))


def flipped(instruction: Instruction, *bits: int) -> bytes:
    word = int.from_bytes(isa.encode(instruction), "little")
    for bit in bits:
        word ^= 1 << bit
    return word.to_bytes(32, "little")


def test_empty_slots_are_zero_and_come_last() -> None:
    halt = isa.HALT()
    for bit in [*range(9, 18), *range(19, 28), *range(29, 38), *range(39, 48)]:
        with pytest.raises(IllegalInstruction, match="empty slot"):
            isa.decode("C", flipped(halt, bit))  # no valid bit
    with pytest.raises(IllegalInstruction, match=r"waits\.0"):
        isa.decode("C", flipped(halt, 18, 24))  # the second wait without the first
    with pytest.raises(IllegalInstruction, match=r"waits\.0\.count.* 1 to 15, not 0"):
        isa.decode("C", flipped(halt, 8))


def test_unused_payload_bits_are_zero() -> None:
    copy = EXEC(rows=1, cols=1, f="mac", a=Source.row(Address(0, 0)), dst=Destination.none())
    for bit in range(80 + 18, 80 + 32):
        with pytest.raises(IllegalInstruction, match=r"EXEC, a\.payload: expected zeros"):
            isa.decode("V", flipped(copy, bit))
    for bit in range(115, 115 + 32):  # of `b`, which is none
        with pytest.raises(IllegalInstruction, match=r"EXEC, b\.payload: expected zeros"):
            isa.decode("V", flipped(copy, bit))
    with pytest.raises(IllegalInstruction, match=r"EXEC, a\.kind: expected a kind from 0 to 5"):
        isa.decode("V", flipped(copy, 78))  # 5 -> 7


def test_immediates_keep_their_bits() -> None:
    for bits in [*range(0, 0x1_0000_0000, 0x00FF_F7ED), 0x7F800001, 0x80000000, 0xFFFFFFFF]:
        instruction = EXEC(rows=1, cols=1, f="mac", a=Source.imm_bits(bits), dst=Destination.none())
        word = isa.encode(instruction)
        assert word[10:14] == bits.to_bytes(4, "little")
        assert isa.decode("V", word).a.bits == bits


def smallest(record: isa.Record) -> Instruction:
    """Return an instruction with every operand as near to zero bits as is legal."""
    operands: dict[str, Any] = {}
    for operand in record.operands:
        zero = operand.kind.zero
        operands[operand.name] = 1 if zero is None else zero
    if record.name == "EXEC":
        operands["a"] = Source.imm(0)
    return record(**operands)


SMALLEST = {kind: [smallest(record) for record in isa.records(kind)] for kind in KINDS}
