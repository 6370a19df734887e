"""What goes wrong with instructions, one exception for each place it can be noticed.

`Unfit` is raised by operand types, which do not know where they stand; whoever does know turns
it into one of the others.
"""

from __future__ import annotations


class TableError(ValueError):
    """A record or an instruction set that contradicts itself; found when it is made."""


class Unfit(ValueError):
    """A value, text or bit pattern that an operand type refuses.

    Parameters
    ----------
    expected : str
        What would have been accepted, as a noun phrase.
    path : str
        The component of a composite operand that is at fault, ``""`` for the operand itself.
    value : object
        The offending component.
    """

    def __init__(self, expected: str, value: object, path: str = "") -> None:
        super().__init__(f"expected {expected}, not {value!r}")
        self.expected = expected
        self.value = value
        self.path = path

    def within(self, name: str) -> Unfit:
        """Return the same complaint, about component `name` of what surrounds it."""
        return Unfit(self.expected, self.value, f"{name}.{self.path}" if self.path else name)


class EncodingError(ValueError):
    """An instruction that cannot be made.

    Attributes
    ----------
    record : str
        Name of the record.
    operand : str
        Name of the operand or component (``l1.imm``) at fault; for a constraint between
        operands, its name.
    value : object
        The refused value; for a constraint, the operands.
    expected : str
        What would have been accepted.
    message : str
        The whole message, where the usual one does not fit.
    """

    def __init__(
        self, record: str, operand: str, value: object, expected: str, message: str = ""
    ) -> None:
        usual = f"{record}, operand {operand}: expected {expected}, not {value!r}"
        super().__init__(message or usual)
        self.record = record
        self.operand = operand
        self.value = value
        self.expected = expected


class IllegalInstruction(ValueError):
    """A word that is no instruction of the unit it was decoded for.

    Attributes
    ----------
    kind : str
        The unit kind.
    word : bytes
        The word.
    reason : str
        What is wrong with it.
    """

    def __init__(self, kind: str, word: bytes, reason: str) -> None:
        super().__init__(
            f"illegal instruction for unit kind {kind!r}: {reason} (word {word.hex()})"
        )
        self.kind = kind
        self.word = word
        self.reason = reason


class AssemblyError(ValueError):
    """A line of assembly that cannot be read.

    Attributes
    ----------
    line, column : int
        Where, both counted from 1.
    source : str
        The whole line.
    problem : str
        What was found and what was expected.
    """

    def __init__(self, line: int, column: int, source: str, problem: str) -> None:
        # Tabs stay tabs in the margin, so that the caret lands below its character.
        margin = "".join("\t" if c == "\t" else " " for c in source[: column - 1])
        super().__init__(f"line {line}, column {column}: {problem}\n  {source}\n  {margin}^")
        self.line = line
        self.column = column
        self.source = source
        self.problem = problem
