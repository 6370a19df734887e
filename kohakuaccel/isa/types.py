"""Operand types that stand for one bit field: how a value is checked, stored and written.

A type knows its width and nothing of where it stands in a word: a `Record` places it.
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from kohakuaccel.isa.errors import TableError, Unfit


class Field(NamedTuple):
    """A named run of bits; `offset` counts from the least significant bit of what holds it."""

    path: str
    offset: int
    width: int


class OperandType(ABC):
    """What every operand type can do.

    Attributes
    ----------
    width : int
        Bits of the encoding.
    zero : object
        The value that all bits zero stand for; None if that encodes no value.
    """

    width: int
    zero: Any = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The leaf fields, offsets relative to this operand; a simple type is one, unnamed."""
        return (Field("", 0, self.width),)

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return `value` in canonical form.

        Raises
        ------
        Unfit
            If this type cannot hold it.
        """

    @abstractmethod
    def encode(self, value: Any) -> int:
        """Return the bits of a checked value."""

    @abstractmethod
    def decode(self, bits: int) -> Any:
        """Return the value of `bits`.

        Raises
        ------
        Unfit
            If they encode no value.
        """

    @abstractmethod
    def write(self, value: Any) -> str:
        """Return the assembly text of a checked value: no blanks, no ``;``, no ``#``."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """Return the value that `text` stands for, not yet checked.

        Raises
        ------
        Unfit
            If the text is not in the syntax of this type.
        """

    @property
    @abstractmethod
    def syntax(self) -> str:
        """What the assembly text looks like, for the reference."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What values there are, for the reference."""


_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)")


def read_integer(text: str) -> int:
    """Read a decimal, ``0x`` or ``0b`` integer.

    Raises
    ------
    Unfit
        If it is not one.
    """
    # The longest number any word holds has far fewer digits; Python refuses to read thousands.
    if len(text) > 300 or _INTEGER.fullmatch(text) is None:
        raise Unfit("an integer", text)
    digits = text.lstrip("-")
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 10)
    magnitude = int(digits, base)
    return -magnitude if text.startswith("-") else magnitude


class Unsigned(OperandType):
    """An integer from `low` to `high`, stored as it is.

    Parameters
    ----------
    width : int
        Bits.
    low, high : int
        The smallest and largest value allowed; all that fit when left out.
    prefix : str
        Written before the number in assembly, ``"a"`` for a register ``a3``.
    """

    def __init__(self, width: int, low: int = 0, high: int | None = None, prefix: str = "") -> None:
        self.width = width
        self.low = low
        self.high = (1 << width) - 1 if high is None else high
        self.prefix = prefix
        self.zero = 0 if low == 0 else None
        if width < 1 or not 0 <= low <= self.high < 1 << width:
            raise TableError(f"{low} to {self.high} does not fit {width} bits")

    def check(self, value: Any) -> int:
        """See `OperandType.check`; any integer but a bool is taken."""
        if type(value) is not int:
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise Unfit(self.description, value)
            value = operator.index(value)
        if not self.low <= value <= self.high:
            raise Unfit(self.description, value)
        return value

    def encode(self, value: int) -> int:
        """See `OperandType.encode`."""
        return value

    def decode(self, bits: int) -> int:
        """See `OperandType.decode`."""
        if not self.low <= bits <= self.high:
            raise Unfit(self.description, bits)
        return bits

    def write(self, value: int) -> str:
        """See `OperandType.write`."""
        return f"{self.prefix}{value}"

    def read(self, text: str) -> int:
        """See `OperandType.read`."""
        if not text.startswith(self.prefix):
            raise Unfit(self.syntax, text)
        return read_integer(text[len(self.prefix) :])

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return f"{self.prefix}N"

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        return f"an integer from {self.low} to {self.high}"


class Modular(OperandType):
    """An integer modulo ``2**width``; negative ones are taken, the residue is kept."""

    zero = 0

    def __init__(self, width: int) -> None:
        self.width = width

    def check(self, value: Any) -> int:
        """See `OperandType.check`; the result is from 0 to ``2**width - 1``."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise Unfit(self.description, value)
        number = operator.index(value)
        if not -(1 << (self.width - 1)) <= number < 1 << self.width:
            raise Unfit(self.description, number)
        return number % (1 << self.width)

    def encode(self, value: int) -> int:
        """See `OperandType.encode`."""
        return value

    def decode(self, bits: int) -> int:
        """See `OperandType.decode`."""
        return bits

    def write(self, value: int) -> str:
        """See `OperandType.write`; the upper half is written as negative numbers."""
        return str(value - (1 << self.width) if value >> (self.width - 1) else value)

    def read(self, text: str) -> int:
        """See `OperandType.read`."""
        return read_integer(text)

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "N"

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        low, high = -(1 << (self.width - 1)), (1 << self.width) - 1
        return f"an integer from {low} to {high}, kept modulo 2**{self.width}"


class Enumeration(OperandType):
    """One of several names; the code of a name is its position.

    Parameters
    ----------
    names : str
        The names, separated by blanks, in order of their codes from 0.
    """

    def __init__(self, names: str) -> None:
        self.names = tuple(names.split())
        self.codes = {name: code for code, name in enumerate(self.names)}
        if len(self.codes) != len(self.names) or len(self.names) < 2:
            raise TableError(f"an enumeration needs two or more different names, not {names!r}")
        self.width = (len(self.names) - 1).bit_length()
        self.zero = self.names[0]

    def check(self, value: Any) -> str:
        """See `OperandType.check`."""
        if not isinstance(value, str) or value not in self.codes:
            raise Unfit(self.description, value)
        return str(value)

    def encode(self, value: str) -> int:
        """See `OperandType.encode`."""
        return self.codes[value]

    def decode(self, bits: int) -> str:
        """See `OperandType.decode`."""
        if bits >= len(self.names):
            raise Unfit(self.description, bits)
        return self.names[bits]

    def write(self, value: str) -> str:
        """See `OperandType.write`."""
        return value

    def read(self, text: str) -> str:
        """See `OperandType.read`."""
        if text not in self.codes:
            raise Unfit(self.description, text)
        return text

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "|".join(self.names)

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        return "one of " + ", ".join(f"{name} ({code})" for name, code in self.codes.items())


class Boolean(OperandType):
    """True or False, one bit."""

    width = 1
    zero = False

    def check(self, value: Any) -> bool:
        """See `OperandType.check`; integers are refused."""
        if not isinstance(value, bool):
            raise Unfit(self.description, value)
        return value

    def encode(self, value: bool) -> int:
        """See `OperandType.encode`."""
        return int(value)

    def decode(self, bits: int) -> bool:
        """See `OperandType.decode`."""
        return bool(bits)

    def write(self, value: bool) -> str:
        """See `OperandType.write`."""
        return "true" if value else "false"

    def read(self, text: str) -> bool:
        """See `OperandType.read`."""
        if text not in ("true", "false"):
            raise Unfit(self.syntax, text)
        return text == "true"

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "true|false"

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        return "True (1) or False (0)"


class BitSet(OperandType):
    """A set of small integers, kept as the integer whose bits are its members."""

    zero = 0

    def __init__(self, width: int) -> None:
        self.width = width

    def check(self, value: Any) -> int:
        """See `OperandType.check`."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise Unfit(self.description, value)
        bits = operator.index(value)
        if bits < 0 or bits >> self.width:
            raise Unfit(self.description, bits)
        return bits

    def encode(self, value: int) -> int:
        """See `OperandType.encode`."""
        return value

    def decode(self, bits: int) -> int:
        """See `OperandType.decode`."""
        return bits

    def write(self, value: int) -> str:
        """See `OperandType.write`."""
        return "{" + ",".join(str(i) for i in range(self.width) if value >> i & 1) + "}"

    def read(self, text: str) -> int:
        """See `OperandType.read`."""
        if not (text.startswith("{") and text.endswith("}")):
            raise Unfit(self.syntax, text)
        bits = 0
        for member in text[1:-1].split(",") if text != "{}" else ():
            number = read_integer(member)
            if not 0 <= number < self.width:
                raise Unfit(f"members from 0 to {self.width - 1}", number)
            bits |= 1 << number
        return bits

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`."""
        return "{N,...}"

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        return f"a set, bit i for member i, from 0 to {(1 << self.width) - 1:#x}"
