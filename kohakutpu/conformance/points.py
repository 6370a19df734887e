"""What there is to cover of an instruction word: each field, and the values on its edges.

Everything follows from the records. A field's edges are 0, 1, its smallest and largest value, the
one above that, and the largest that its bits can hold; codes that stand for nothing are edges too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

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


@dataclass(frozen=True)
class Part:
    """Bits of a word that have a value: where they are, and what they hold."""

    offset: int
    width: int
    value: int

    @property
    def mask(self) -> int:
        """The bits, in place."""
        return ((1 << self.width) - 1) << self.offset

    def put(self, word: int) -> int:
        """Return a word with these bits set to the value."""
        return word & ~self.mask | self.value << self.offset

    def found(self, word: int) -> bool:
        """Return whether a word has the value there."""
        return word & self.mask == self.value << self.offset


@dataclass(frozen=True)
class Field:
    """A field of a record and its edges.

    Attributes
    ----------
    path : str
        Dotted, as in the reference; the parts of a tagged union have the tag in it.
    offset, width : int
        Where it is.
    values : tuple of int
        The edges, ascending.
    when : Part or None
        What has to be so for the field to exist: the tag of its union, its slot being taken.
    names : dict of int to str
        What values are called, where they have names.
    """

    path: str
    offset: int
    width: int
    values: tuple[int, ...]
    when: Part | None = None
    names: tuple[str, ...] = ()

    def part(self, value: int) -> Part:
        """Return the field holding a value."""
        return Part(self.offset, self.width, value)

    def label(self, value: int) -> str:
        """Return path and value as people read them."""
        named = value < len(self.names)
        return f"{self.path}={self.names[value] if named else value}"

    def covered(self, word: int, value: int) -> bool:
        """Return whether a word has this value in this field."""
        return (self.when is None or self.when.found(word)) and self.part(value).found(word)


def edges(kind: OperandType) -> tuple[int, ...]:
    """Return the edges of a type that is a single field."""
    top = (1 << kind.width) - 1
    match kind:
        case Unsigned():
            found = {0, 1, kind.low, kind.high, kind.high + 1, top}
        case Modular() | BitSet():
            found = {0, 1, top}
        case Enumeration():
            found = set(range(top + 1))
        case Boolean():
            found = {0, 1}
        case _:
            raise TypeError(f"{kind!r} is not a single field")
    return tuple(sorted(value for value in found if value <= top))


@cache
def fields(record: Record) -> tuple[Field, ...]:
    """Return the fields of a record but its opcode, reserved bits as one of them."""
    offsets = {field.path: field.offset for field in record.layout}
    result: list[Field] = []
    for operand in record.operands:
        first = min(o for path, o in offsets.items() if path.split(".")[0] == operand.name)
        result += _walk(operand.name, operand.kind, first, None)
    rest = record.form.width - record.used
    if rest:
        values = tuple(sorted({1, 1 << (rest - 1)}))
        result.append(Field("reserved", record.used, rest, values))
    return tuple(result)


def _walk(path: str, kind: OperandType, offset: int, when: Part | None) -> Iterator[Field]:
    match kind:
        case Struct():
            for name, part in kind.parts.items():
                yield from _walk(f"{path}.{name}", part, offset, when)
                offset += part.width
        case Slots():
            for slot in range(kind.count):
                yield Field(f"{path}.{slot}.valid", offset, 1, (0, 1))
                taken, empty = Part(offset, 1, 1), Part(offset, 1, 0)
                yield from _walk(f"{path}.{slot}", kind.element, offset + 1, taken)
                width = kind.element.width
                yield Field(f"{path}.{slot}.unused", offset + 1, width, (1,), empty)
                offset += kind.pitch
        case Union():
            codes = tuple(range(1 << kind.tag_width))
            yield Field(f"{path}.kind", offset, kind.tag_width, codes, when, kind.tags)
            for code, tag in enumerate(kind.tags):
                this = Part(offset, kind.tag_width, code)
                place = offset + kind.tag_width
                for name, part in kind.variants[tag].items():
                    yield from _walk(f"{path}.{tag}.{name}", part, place, this)
                    place += part.width
                unused = offset + kind.width - place
                if unused:
                    values = tuple(sorted({1, 1 << (unused - 1)}))
                    yield Field(f"{path}.{tag}.unused", place, unused, values, this)
        case _:
            names = kind.names if isinstance(kind, Enumeration) else ()
            yield Field(path, offset, kind.width, edges(kind), when, names)
