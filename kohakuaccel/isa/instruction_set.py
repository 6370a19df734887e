"""Instruction sets: the records one kind of unit executes, and the way to and from words."""

from __future__ import annotations

from kohakuaccel.isa.errors import IllegalInstruction, TableError, Unfit
from kohakuaccel.isa.record import Instruction, Record

MEMORY = 1 << 16
"""Words that an instruction set remembers the meaning of."""


class InstructionSet:
    """The records that one kind of unit executes.

    Parameters
    ----------
    kind : str
        The unit kind.
    title : str
        What the reference calls the unit.
    records : tuple of Record
        In the order of the reference.

    Raises
    ------
    TableError
        If two records share an opcode or a name, or have different formats.
    """

    def __init__(self, kind: str, title: str, records: tuple[Record, ...]) -> None:
        self.kind = kind
        self.title = title
        self.records = records
        self.form = records[0].form
        self.by_opcode = {record.opcode: record for record in records}
        self.by_mnemonic = {record.mnemonic: record for record in records}
        for record in records:
            if self.by_opcode[record.opcode] is not record:
                raise TableError(f"{kind}: opcode {record.opcode:#x} is used twice")
            if self.by_mnemonic[record.mnemonic] is not record:
                raise TableError(f"{kind}: the name {record.name} is used twice")
            if record.form is not self.form:
                raise TableError(f"{kind}: {record.name} has a format of its own")
        self.word_bytes = self.form.width // 8
        self._decoded: dict[bytes, Instruction] = {}

    def encode(self, instruction: Instruction) -> bytes:
        """Return the word of an instruction, little-endian.

        Raises
        ------
        TableError
            If it is no instruction of this set.
        """
        record = instruction.record
        if self.by_opcode.get(record.opcode) is not record:
            raise TableError(f"unit kind {self.kind!r} has no instruction {record.name}")
        return encode(instruction)

    def decode(self, word: bytes) -> Instruction:
        """Return the instruction a word stands for.

        Raises
        ------
        IllegalInstruction
            If it stands for none.
        """
        known = self._decoded.get(word)
        if known is not None:
            return known
        if len(word) != self.word_bytes:
            reason = f"a word has {self.word_bytes} bytes, not {len(word)}"
            raise IllegalInstruction(self.kind, bytes(word), reason)
        bits = int.from_bytes(word, "little")
        opcode = bits & ((1 << self.form.opcode_width) - 1)
        record = self.by_opcode.get(opcode)
        if record is None:
            raise IllegalInstruction(self.kind, bytes(word), f"unknown opcode {opcode:#04x}")
        try:
            instruction = record.decode(bits)
        except Unfit as error:
            reason = f"{record.name}, {error.path}: expected {error.expected}, not {error.value!r}"
            raise IllegalInstruction(self.kind, bytes(word), reason) from None
        violated = record.violated(instruction)
        if violated is not None:
            raise IllegalInstruction(self.kind, bytes(word), f"{record.name}: {violated.text}")
        if len(self._decoded) >= MEMORY:
            self._decoded.clear()
        self._decoded[bytes(word)] = instruction
        return instruction


def encode(instruction: Instruction) -> bytes:
    """Return the word of an instruction, little-endian."""
    record = instruction.record
    return record.encode(instruction).to_bytes(record.form.width // 8, "little")
