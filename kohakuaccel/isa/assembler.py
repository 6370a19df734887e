"""Assembly text: one instruction a line, and back.

A line is a mnemonic, the positional operands, ``name=value`` for the others in any order, and
clauses, each after a ``;``. ``#`` and ``//`` begin a comment. Operands that have their default
value may be left out. ::

    loop 8
      fill A l1=a5 l1_stride=4 mem=a1+128 ... ; wait s1>=1 ; post n2:s3
    end
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from kohakuaccel.isa.composite import Slots
from kohakuaccel.isa.errors import AssemblyError, EncodingError, Unfit
from kohakuaccel.isa.instruction_set import InstructionSet
from kohakuaccel.isa.record import Instruction, Operand, Record
from kohakuaccel.isa.types import OperandType

_TOKEN = re.compile(r";|[^\s;]+")
_COMMENT = re.compile(r"#|//")


class _Token(NamedTuple):
    text: str
    column: int  # from 1


class _Line:
    """One line of assembly, being read."""

    def __init__(self, number: int, source: str, instructions: InstructionSet) -> None:
        self.number = number
        self.source = source
        self.instructions = instructions
        code = _COMMENT.split(source, maxsplit=1)[0]
        self.clauses: list[list[_Token]] = [[]]
        self.end = len(code.rstrip()) + 1
        for match in _TOKEN.finditer(code):
            if match[0] == ";":
                self.clauses.append([])
            else:
                self.clauses[-1].append(_Token(match[0], match.start() + 1))

    def fail(self, column: int, problem: str) -> NoReturn:
        raise AssemblyError(self.number, column, self.source, problem)

    def instruction(self) -> Instruction | None:
        """Return what the line says; None if it says nothing."""
        head, *clauses = self.clauses
        if not head:
            if clauses:
                self.fail(self.source.index(";") + 1, "expected a mnemonic before ';'")
            return None
        mnemonic, *tokens = head
        record = self.instructions.by_mnemonic.get(mnemonic.text)
        if record is None:
            known = ", ".join(self.instructions.by_mnemonic)
            self.fail(mnemonic.column, f"no instruction {mnemonic.text!r}; expected one of {known}")
        operands = self.plain_operands(record, tokens)
        for clause in clauses:
            self.clause(record, clause, operands)
        try:
            return record(**operands)
        except EncodingError as error:
            self.fail(mnemonic.column, str(error))

    def plain_operands(self, record: Record, tokens: list[_Token]) -> dict[str, Any]:
        """Return the operands before the clauses."""
        operands: dict[str, Any] = {}
        positional = list(record.positional)
        for token in tokens:
            name, equals, text = token.text.partition("=")
            column = token.column + len(name) + 1
            if not equals:
                if not positional:
                    self.fail(token.column, f"expected name=value, not {token.text!r}")
                name, text, column = positional.pop(0), token.text, token.column
            operand = record.by_name.get(name)
            if operand is None or operand.clause:
                names = ", ".join(o.name for o in record.own) or "none"
                problem = f"{record.mnemonic} has no operand {name!r}; its operands: {names}"
                self.fail(token.column, problem)
            if name in operands:
                self.fail(token.column, f"operand {name} is given twice")
            if name in positional:
                positional.remove(name)
            operands[name] = self.value(operand, operand.kind, _Token(text, column))
        return operands

    def clause(self, record: Record, tokens: list[_Token], operands: dict[str, Any]) -> None:
        """Add the operand that a clause states."""
        expected = " or ".join(o.clause for o in record.operands if o.clause)
        if not tokens:
            self.fail(self.end, f"expected {expected} after ';'")
        keyword, *elements = tokens
        for operand in record.operands:
            if operand.clause == keyword.text and isinstance(operand.kind, Slots):
                if operand.name in operands:
                    self.fail(keyword.column, f"{keyword.text} is there twice")
                kind = operand.kind.element
                if not elements:
                    after = keyword.column + len(keyword.text)
                    self.fail(after, f"{keyword.text}: expected {kind.syntax}")
                values = tuple(self.value(operand, kind, element) for element in elements)
                if len(values) > operand.kind.count:
                    excess = elements[operand.kind.count]
                    self.fail(excess.column, f"{keyword.text}: at most {operand.kind.count}")
                operands[operand.name] = values
                return
        self.fail(keyword.column, f"expected {expected} after ';', not {keyword.text!r}")

    def value(self, operand: Operand, kind: OperandType, token: _Token) -> Any:
        """Return one value, checked, so that a complaint points at it."""
        try:
            return kind.check(kind.read(token.text))
        except Unfit as error:
            where = f"{operand.name}.{error.path}" if error.path else operand.name
            problem = f"{where}: expected {error.expected}, not {error.value!r}"
            if str(error.value) != token.text:
                problem += f", in {token.text!r}"
            self.fail(token.column, problem)


def assemble(text: str, instructions: InstructionSet) -> list[Instruction]:
    """Return the instructions that `text` states.

    Raises
    ------
    AssemblyError
        At the first line that cannot be read.
    """
    result: list[Instruction] = []
    # Not splitlines(): what an editor does not count as a line is no line here.
    for number, source in enumerate(text.split("\n"), start=1):
        instruction = _Line(number, source.rstrip("\r"), instructions).instruction()
        if instruction is not None:
            result.append(instruction)
    return result


def write(instruction: Instruction) -> str:
    """Return the assembly line of one instruction."""
    record = instruction.record
    parts = [record.mnemonic]
    values = instruction.operands
    for operand in record.own:
        if operand.name in record.positional:
            parts.append(operand.kind.write(values[operand.name]))
        elif values[operand.name] != operand.default:
            parts.append(f"{operand.name}={operand.kind.write(values[operand.name])}")
    for operand in record.operands:
        if operand.clause and values[operand.name]:
            parts.append(f"; {operand.clause} {operand.kind.write(values[operand.name])}")
    return " ".join(parts)


def disassemble(
    instructions: Iterable[Instruction], comments: Mapping[int, str] | None = None
) -> str:
    """Return the assembly text of a program, bodies of loops indented.

    Parameters
    ----------
    instructions : iterable of Instruction
        The program.
    comments : mapping, optional
        Text to put in a line of its own before the instruction of that index.
    """
    comments = comments or {}
    lines: list[str] = []
    depth = 0
    for index, instruction in enumerate(instructions):
        block = instruction.record.block
        if block == "end":
            depth = max(0, depth - 1)
        margin = "  " * depth
        lines.extend(f"{margin}# {line}" for line in comments.get(index, "").splitlines())
        lines.append(margin + write(instruction))
        if block == "begin":
            depth += 1
    return "".join(line + "\n" for line in lines)
