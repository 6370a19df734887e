"""Records: everything that is said about an instruction, in one place.

A record states the opcode, the operands in order, the constraints between them and what the
instruction means. Bit positions, construction, encoding, decoding, assembly and the reference
page follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from kohakuaccel.isa.composite import Slots, place
from kohakuaccel.isa.errors import EncodingError, TableError, Unfit
from kohakuaccel.isa.types import Field, OperandType

REQUIRED: Any = object()
"""The default of an operand that has none."""


@dataclass(frozen=True)
class Operand:
    """A named operand.

    Parameters
    ----------
    name : str
        Keyword in Python and in assembly.
    kind : OperandType
        Its values and their encoding.
    meaning : str
        What it says, for the reference; no closing full stop.
    default : object, optional
        The value when left out, in Python and in assembly.
    clause : str, optional
        For `Slots` only: written as a clause of its own, after ``;`` and this word.
    """

    name: str
    kind: OperandType
    meaning: str
    default: Any = REQUIRED
    clause: str = ""


@dataclass(frozen=True)
class Check:
    """A constraint between operands.

    Parameters
    ----------
    name : str
        What error messages call it.
    text : str
        What must hold, a sentence for the reference; no closing full stop.
    holds : callable
        Tells of an instruction whether it does.
    """

    name: str
    text: str
    holds: Callable[[Instruction], bool]


@dataclass(frozen=True)
class Format:
    """What all instruction words of a machine have in common.

    The opcode is at bit 0, the common operands follow, and the operands of the record come last.

    Parameters
    ----------
    width : int
        Bits of a word, a multiple of 8.
    opcode_width : int
        Bits of the opcode.
    common : tuple of Operand
        Operands that every record has; they have defaults.
    checks : tuple of Check
        Constraints that every record has.
    """

    width: int
    opcode_width: int
    common: tuple[Operand, ...] = ()
    checks: tuple[Check, ...] = ()


class Instruction:
    """One instruction: a record and its operands, checked, immutable and hashable.

    Operands are attributes. Made by calling a record.

    Attributes
    ----------
    record : Record
        What it is an instruction of.
    name : str
        The record's name.
    engine : int or None
        The queue it goes to; None if the front end executes it.
    """

    record: Record
    name: str
    engine: int | None
    _key: tuple[Any, ...]

    def __init__(self, record: Record, operands: Mapping[str, Any]) -> None:
        # One dictionary holds everything: attribute access is what the machine models do most.
        attributes: dict[str, Any] = {"record": record, "name": record.name}
        attributes["engine"] = record.engine
        attributes.update(operands)
        attributes["_key"] = (record.name, *operands.values())
        object.__setattr__(self, "__dict__", attributes)

    @property
    def operands(self) -> dict[str, Any]:
        """The operands by name, the common ones first."""
        return dict(zip(self.record.names, self._key[1:], strict=True))

    def replace(self, **operands: Any) -> Instruction:
        """Return the same instruction with some operands changed, checked anew.

        Raises
        ------
        EncodingError
            As from the record.
        """
        return self.record(**{**self.operands, **operands})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instruction):
            return NotImplemented
        return self._key == other._key and self.record is other.record

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        written = ", ".join(f"{name}={value!r}" for name, value in self.operands.items())
        return f"{self.name}({written})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__dict__.get('name', 'Instruction')} has no operand {name!r}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"instructions are immutable; use replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("instructions are immutable")


class Record:
    """One instruction of an instruction set. Calling it makes an `Instruction`.

    Parameters
    ----------
    name : str
        Upper case; the mnemonic is the same in lower case.
    opcode : int
        Its number; 0 is kept illegal, so that cleared memory is no program.
    operands : tuple of Operand
        In order of their bits.
    form : Format
        What it has in common with the other records of the machine.
    summary : str
        What it does, in a line; no closing full stop.
    meaning : str
        What it does, exactly: MyST paragraphs for the reference.
    checks : tuple of Check
        Constraints between its operands.
    engine : int or None
        The queue it goes to; None if the front end executes it, or if an operand named
        ``engine`` says so.
    positional : int
        So many operands, the first ones, are written without their names in assembly.
    block : {"", "begin", "end"}
        Whether it begins or ends a block that a listing indents.

    Raises
    ------
    TableError
        If the operands do not fit the word, or the record contradicts itself.
    """

    def __init__(
        self,
        name: str,
        opcode: int,
        operands: tuple[Operand, ...],
        *,
        form: Format,
        summary: str,
        meaning: str,
        checks: tuple[Check, ...] = (),
        engine: int | None = None,
        positional: int = 0,
        block: Literal["", "begin", "end"] = "",
    ) -> None:
        self.name = name
        self.mnemonic = name.lower()
        self.opcode = opcode
        self.form = form
        self.operands = form.common + operands
        self.own = operands
        self.names = tuple(operand.name for operand in self.operands)
        self.by_name = {operand.name: operand for operand in self.operands}
        self.summary = summary
        self.meaning = meaning
        self.checks = form.checks + checks
        self.engine = engine
        self.positional = tuple(operand.name for operand in operands[:positional])
        self.block = block
        self._reject_contradictions()
        self._placed: list[tuple[str, OperandType, int, int]] = []
        offset = form.opcode_width
        for operand in self.operands:
            mask = (1 << operand.kind.width) - 1
            self._placed.append((operand.name, operand.kind, offset, mask))
            offset += operand.kind.width
        self.used = offset
        if offset > form.width:
            raise TableError(f"{name} takes {offset} bits of a word of {form.width}")

    def _reject_contradictions(self) -> None:
        if not 0 < self.opcode < 1 << self.form.opcode_width:
            raise TableError(f"{self.name}: opcode {self.opcode} is 0 or too wide")
        reserved = {"record", "name", "operands", "replace"} | {"opcode"}
        for name in self.names:
            if self.names.count(name) > 1 or name in reserved or not name.isidentifier():
                raise TableError(f"{self.name}: operand {name!r} is named twice or reserved")
        for operand in self.operands:
            if bool(operand.clause) != isinstance(operand.kind, Slots):
                raise TableError(f"{self.name}: {operand.name} is slots without a clause, or not")
            if operand.default is not REQUIRED:
                try:
                    operand.kind.check(operand.default)
                except Unfit as error:
                    message = f"{self.name}: the default of {operand.name} is no value of it"
                    raise TableError(message) from error

    @property
    def layout(self) -> list[Field]:
        """Every field of the word as ``(path, offset, width)``, from bit 0 up, without gaps."""
        parts = {name: kind for name, kind, _, _ in self._placed}
        start = self.form.opcode_width
        moved = (Field(f.path, start + f.offset, f.width) for f in place(parts))
        return [Field("opcode", 0, start), *moved]

    def __call__(self, *values: Any, **operands: Any) -> Instruction:
        """Make an instruction; own operands may be given by position, all by name.

        Raises
        ------
        EncodingError
            If an operand is unknown, missing, given twice or out of range, or a check fails.
        """
        if values:
            operands = self._named(values, operands)
        checked: dict[str, Any] = {}
        given = 0
        name = ""
        try:
            for operand in self.operands:
                name = operand.name
                if name in operands:
                    checked[name] = operand.kind.check(operands[name])
                    given += 1
                elif operand.default is REQUIRED:
                    message = f"{self.name}, operand {name} is missing: {operand.kind.description}"
                    raise EncodingError(self.name, name, None, "a value", message)
                else:
                    checked[name] = operand.default
        except Unfit as error:
            path = f"{name}.{error.path}" if error.path else name
            raise EncodingError(self.name, path, error.value, error.expected) from None
        if given != len(operands):
            unknown = next(key for key in operands if key not in self.by_name)
            known = ", ".join(self.names)
            message = f"{self.name} has no operand {unknown}; it has {known}"
            raise EncodingError(self.name, unknown, operands[unknown], known, message)
        instruction = Instruction(self, checked)
        violated = self.violated(instruction)
        if violated is not None:
            message = f"{self.name}: {violated.text} (check {violated.name!r}) in {instruction!r}"
            raise EncodingError(self.name, violated.name, checked, violated.text, message)
        return instruction

    def violated(self, instruction: Instruction) -> Check | None:
        """Return the first check that does not hold, None if all do."""
        for check in self.checks:
            if not check.holds(instruction):
                return check
        return None

    def _named(self, values: tuple[Any, ...], operands: dict[str, Any]) -> dict[str, Any]:
        names = tuple(operand.name for operand in self.own)
        if len(values) > len(names):
            expected = f"at most {len(names)} operands by position"
            message = f"{self.name} takes {expected}, not {len(values)}"
            raise EncodingError(self.name, "", len(values), expected, message)
        named = dict(zip(names, values, strict=False))
        for name in named:
            if name in operands:
                message = f"{self.name}, operand {name} is given by position and by name"
                raise EncodingError(self.name, name, operands[name], "one value", message)
        return {**named, **operands}

    def encode(self, instruction: Instruction) -> int:
        """Return the word of an instruction of this record, as an integer."""
        bits = self.opcode
        values = instruction.__dict__
        for name, kind, offset, _ in self._placed:
            bits |= kind.encode(values[name]) << offset
        return bits

    def decode(self, bits: int) -> Instruction:
        """Return the instruction of a word whose opcode is this record's; checks are not made.

        Raises
        ------
        Unfit
            If an operand is illegal or a bit outside the fields is set.
        """
        if bits >> self.used:
            raise Unfit(f"zeros from bit {self.used} on", bits >> self.used, "reserved")
        values: dict[str, Any] = {}
        for name, kind, offset, mask in self._placed:
            try:
                values[name] = kind.decode(bits >> offset & mask)
            except Unfit as error:
                raise error.within(name) from None
        return Instruction(self, values)

    def __repr__(self) -> str:
        return f"<record {self.name}, opcode {self.opcode:#04x}>"
