"""The toolkit on a machine of its own: tables that contradict themselves, small types."""

from dataclasses import dataclass
from typing import Any

import pytest

from kohakuaccel.isa import (
    BitSet,
    Boolean,
    Check,
    EncodingError,
    Enumeration,
    Format,
    IllegalInstruction,
    InstructionSet,
    Modular,
    Operand,
    Record,
    Slots,
    Struct,
    TableError,
    Unfit,
    Union,
    Unsigned,
)

BYTE = Format(width=16, opcode_width=3)


def record(name: str, opcode: int, *operands: Operand, form: Format = BYTE, **rest: Any) -> Record:
    return Record(name, opcode, operands, form=form, summary="x", meaning="x", **rest)


def operand(name: str, width: int, **rest: Any) -> Operand:
    return Operand(name, Unsigned(width), "x", **rest)


@dataclass(frozen=True)
class Pair:
    kind: int
    x: int


@dataclass(frozen=True)
class Choice:
    kind: str
    x: int = 0
    pair: Pair = Pair(0, 0)


class PairType(Struct):
    @property
    def syntax(self) -> str:
        return "N,N"

    def write(self, value: Pair) -> str:
        return f"{value.kind},{value.x}"

    def read(self, text: str) -> Pair:
        return Pair(*map(int, text.split(",")))


class ChoiceType(Union):
    @property
    def syntax(self) -> str:
        return "none|N"

    def write(self, value: Choice) -> str:
        return value.kind

    def read(self, text: str) -> Choice:
        return Choice(text)


PAIR = PairType(Pair, kind=Unsigned(2), x=Unsigned(3, low=1))
CHOICE = ChoiceType(Choice, {"none": {}, "one": {"x": Unsigned(4)}, "two": {"pair": PAIR}})


def test_a_small_machine() -> None:
    odd = Check("odd", "`x` is odd", lambda i: i.x % 2 == 1)
    add = record("ADD", 5, operand("x", 4), operand("y", 2, default=1), checks=(odd,))
    assert add.layout == [("opcode", 0, 3), ("x", 3, 4), ("y", 7, 2)]
    machine = InstructionSet("T", "Toy", (add, record("STOP", 1)))
    word = machine.encode(add(x=9, y=2))
    assert word == (5 | 9 << 3 | 2 << 7).to_bytes(2, "little")
    assert machine.decode(word) == add(9, 2)
    assert machine.decode(machine.encode(add(x=9))).y == 1
    with pytest.raises(EncodingError, match="`x` is odd"):
        add(x=8)
    with pytest.raises(IllegalInstruction, match="ADD: `x` is odd"):
        machine.decode((5 | 8 << 3).to_bytes(2, "little"))
    with pytest.raises(TableError, match="unit kind 'T' has no instruction SUB"):
        machine.encode(record("SUB", 5)())


def test_a_full_word_fits_and_one_bit_more_does_not() -> None:
    assert record("FULL", 1, operand("x", 13)).used == 16
    with pytest.raises(TableError, match="FULL takes 17 bits of a word of 16"):
        record("FULL", 1, operand("x", 13), operand("y", 1))


def test_the_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohakuaccel.isa.instruction_set.MEMORY", 4)
    machine = InstructionSet("T", "Toy", (record("ADD", 5, operand("x", 4)),))
    for _ in range(2):
        for x in range(16):
            assert machine.decode((5 | x << 3).to_bytes(2, "little")).x == x
            assert len(machine._decoded) <= 4


def test_opcodes_and_names_are_unique() -> None:
    with pytest.raises(TableError, match="T: opcode 0x1 is used twice"):
        InstructionSet("T", "Toy", (record("A", 1), record("B", 1)))
    with pytest.raises(TableError, match="T: the name A is used twice"):
        InstructionSet("T", "Toy", (record("A", 1), record("A", 2)))
    with pytest.raises(TableError, match="B has a format of its own"):
        InstructionSet("T", "Toy", (record("A", 1), record("B", 2, form=Format(16, 4))))


@pytest.mark.parametrize("opcode", [0, 8, -1])
def test_opcodes_fit(opcode: int) -> None:
    with pytest.raises(TableError, match=f"opcode {opcode} is 0 or too wide"):
        record("A", opcode)


@pytest.mark.parametrize("name", ["record", "replace", "opcode", "not a name"])
def test_operand_names(name: str) -> None:
    with pytest.raises(TableError, match="reserved"):
        record("A", 1, operand(name, 1))
    with pytest.raises(TableError, match="'x' is named twice"):
        record("A", 1, operand("x", 1), operand("x", 1))


def test_slots_need_a_clause_and_defaults_a_legal_value() -> None:
    slots = Slots(Unsigned(2), 2)
    with pytest.raises(TableError, match="slots without a clause"):
        record("A", 1, Operand("x", slots, "x"))
    with pytest.raises(TableError, match="slots without a clause, or not"):
        record("A", 1, operand("x", 1, clause="then"))
    with pytest.raises(TableError, match="A: the default of x is no value of it"):
        record("A", 1, operand("x", 2, default=4))


def test_types_that_cannot_be() -> None:
    for make in (
        lambda: Unsigned(0),
        lambda: Unsigned(2, 3, 2),
        lambda: Unsigned(2, 0, 4),
        lambda: Unsigned(2, -1),
        lambda: Enumeration("one"),
        lambda: Enumeration("one one"),
        lambda: PairType(Pair, x=Unsigned(1)),
        lambda: ChoiceType(Pair, {"none": {}, "some": {"x": Unsigned(1)}}),
    ):
        with pytest.raises(TableError):
            make()


def test_structs_place_their_parts() -> None:
    assert PAIR.fields == (("kind", 0, 2), ("x", 2, 3))
    assert PAIR.encode(Pair(3, 5)) == 3 | 5 << 2
    assert PAIR.decode(3 | 5 << 2) == Pair(3, 5)
    assert PAIR.zero is None  # x = 0 is not allowed
    with pytest.raises(Unfit, match="from 1 to 7") as caught:
        PAIR.decode(3)
    assert caught.value.path == "x"


def test_unions_place_the_tag_first() -> None:
    assert CHOICE.width == 2 + 5
    assert CHOICE.fields == (("kind", 0, 2), ("payload", 2, 5))
    assert CHOICE.payload_fields("two") == (("pair.kind", 0, 2), ("pair.x", 2, 3))
    assert CHOICE.zero == Choice("none")
    for value, bits in (
        (Choice("none"), 0),
        (Choice("one", 9), 1 | 9 << 2),
        (Choice("two", pair=Pair(1, 2)), 2 | 1 << 2 | 2 << 4),
    ):
        assert CHOICE.check(value) is value
        assert CHOICE.encode(value) == bits
        assert CHOICE.decode(bits) == value
    for bits, path in ((3, "kind"), (4, "payload"), (1 | 16 << 2, "payload"), (2, "pair.x")):
        with pytest.raises(Unfit) as caught:
            CHOICE.decode(bits)
        assert caught.value.path == path


def test_every_pattern_of_small_types_is_a_value_or_refused() -> None:
    slots = Slots(PAIR, 2)
    kinds = [Unsigned(4, 2, 11), Modular(4), Enumeration("a b c"), Boolean(), BitSet(5), PAIR]
    for kind in [*kinds, CHOICE, slots]:
        legal = 0
        for bits in range(1 << kind.width):
            try:
                value = kind.decode(bits)
            except Unfit:
                continue
            legal += 1
            assert kind.check(value) == value
            assert kind.encode(value) == bits
        assert 0 < legal
    pairs = 4 * 7
    assert sum(_decodes(slots, bits) for bits in range(1 << slots.width)) == 1 + pairs + pairs**2


def _decodes(kind: Slots, bits: int) -> bool:
    try:
        kind.decode(bits)
    except Unfit:
        return False
    return True
