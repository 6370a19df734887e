"""Operand types made of others: structures, tagged unions and optional slots.

The values are instances of frozen dataclasses that the machine defines; their assembly syntax
is the machine's too, so `Struct` and `Union` leave `write` and `read` to a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from kohakuaccel.isa.errors import TableError, Unfit
from kohakuaccel.isa.types import Field, OperandType


def place(parts: Mapping[str, OperandType]) -> tuple[Field, ...]:
    """Lay out `parts` one after the other, the first at the least significant end.

    Returns
    -------
    tuple of Field
        The leaf fields; the path of a nested one is dotted.
    """
    result: list[Field] = []
    offset = 0
    for name, kind in parts.items():
        for leaf in kind.fields:
            path = f"{name}.{leaf.path}" if leaf.path else name
            result.append(Field(path, offset + leaf.offset, leaf.width))
        offset += kind.width
    return tuple(result)


class Struct(OperandType):
    """A value with named parts, each of its own type, laid out in the order given.

    Parameters
    ----------
    cls : type
        A frozen dataclass with exactly the attributes named by `parts`.
    **parts : OperandType
        The type of each attribute.
    """

    def __init__(self, cls: type, **parts: OperandType) -> None:
        if {f.name for f in fields(cls)} != set(parts):
            raise TableError(f"{cls.__name__} does not have exactly the fields {list(parts)}")
        self.cls = cls
        self.parts = parts
        self.width = sum(kind.width for kind in parts.values())
        zeros = {name: kind.zero for name, kind in parts.items()}
        self.zero = None if None in zeros.values() else cls(**zeros)
        offset = 0
        self._placed: list[tuple[str, OperandType, int]] = []
        for name, kind in parts.items():
            self._placed.append((name, kind, offset))
            offset += kind.width

    @property
    def fields(self) -> tuple[Field, ...]:
        """See `OperandType.fields`."""
        return place(self.parts)

    def check(self, value: Any) -> Any:
        """See `OperandType.check`."""
        if type(value) is not self.cls:
            raise Unfit(self.description, value)
        canonical = value
        for name, kind, _ in self._placed:
            part = getattr(value, name)
            try:
                checked = kind.check(part)
            except Unfit as error:
                raise error.within(name) from None
            if checked is not part:
                canonical = None
        if canonical is None:
            return self.cls(**{n: k.check(getattr(value, n)) for n, k, _ in self._placed})
        return value

    def encode(self, value: Any) -> int:
        """See `OperandType.encode`."""
        bits = 0
        for name, kind, offset in self._placed:
            bits |= kind.encode(getattr(value, name)) << offset
        return bits

    def decode(self, bits: int) -> Any:
        """See `OperandType.decode`."""
        return self.cls(**decode_parts(self._placed, bits))

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        parts = "; ".join(f"{name}: {kind.description}" for name, kind in self.parts.items())
        return f"{self.cls.__name__} ({parts})"


def decode_parts(placed: list[tuple[str, OperandType, int]], bits: int) -> dict[str, Any]:
    """Decode parts placed at given offsets of `bits`, naming the part in a complaint."""
    values: dict[str, Any] = {}
    for name, kind, offset in placed:
        try:
            values[name] = kind.decode(bits >> offset & ((1 << kind.width) - 1))
        except Unfit as error:
            raise error.within(name) from None
    return values


class Union(OperandType):
    """A tag and a payload whose parts depend on the tag.

    Payload bits beyond the parts of a tag are zero. The value's attribute ``kind`` is the tag;
    attributes that are no parts of its tag hold the default of the dataclass.

    Parameters
    ----------
    cls : type
        A frozen dataclass with ``kind`` first and a default for every other field.
    variants : dict
        For each tag, in order of codes from 0, its parts: attribute name to operand type.
    """

    def __init__(self, cls: type, variants: Mapping[str, Mapping[str, OperandType]]) -> None:
        self.cls = cls
        self.variants = variants
        self.tags = tuple(variants)
        self.tag_width = (len(self.tags) - 1).bit_length()
        self.payload_width = max(
            sum(kind.width for kind in parts.values()) for parts in variants.values()
        )
        self.width = self.tag_width + self.payload_width
        self._defaults = {f.name: f.default for f in fields(cls) if f.name != "kind"}
        if MISSING in self._defaults.values():
            raise TableError(f"every field of {cls.__name__} but kind needs a default")
        self._placed: dict[str, list[tuple[str, OperandType, int]]] = {}
        self._absent: dict[str, list[tuple[str, Any]]] = {}
        for tag, parts in variants.items():
            offset = self.tag_width
            placed: list[tuple[str, OperandType, int]] = []
            self._placed[tag] = placed
            for name, kind in parts.items():
                placed.append((name, kind, offset))
                offset += kind.width
            self._absent[tag] = [(n, d) for n, d in self._defaults.items() if n not in parts]
        self.zero = cls(self.tags[0]) if not variants[self.tags[0]] else None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The tag and the payload; `payload_fields` tells the parts of the payload."""
        return (
            Field("kind", 0, self.tag_width),
            Field("payload", self.tag_width, self.payload_width),
        )

    def payload_fields(self, tag: str) -> tuple[Field, ...]:
        """Return the leaf fields of one tag, offsets relative to the payload."""
        return place(self.variants[tag])

    def check(self, value: Any) -> Any:
        """See `OperandType.check`."""
        if type(value) is not self.cls:
            raise Unfit(self.description, value)
        tag = value.kind
        if tag not in self._placed:
            raise Unfit(f"one of {', '.join(self.tags)}", tag, "kind")
        canonical: dict[str, Any] = {}
        changed = False
        for name, kind, _ in self._placed[tag]:
            part = getattr(value, name)
            try:
                canonical[name] = checked = kind.check(part)
            except Unfit as error:
                raise error.within(name) from None
            changed = changed or checked is not part
        for name, default in self._absent[tag]:
            if getattr(value, name) != default:
                raise Unfit(f"{default!r}, as {tag} has none", getattr(value, name), name)
        return self.cls(tag, **canonical) if changed else value

    def encode(self, value: Any) -> int:
        """See `OperandType.encode`."""
        bits = self.tags.index(value.kind)
        for name, kind, offset in self._placed[value.kind]:
            bits |= kind.encode(getattr(value, name)) << offset
        return bits

    def decode(self, bits: int) -> Any:
        """See `OperandType.decode`."""
        code = bits & ((1 << self.tag_width) - 1)
        if code >= len(self.tags):
            raise Unfit(f"a kind from 0 to {len(self.tags) - 1}", code, "kind")
        tag = self.tags[code]
        placed = self._placed[tag]
        used = self.tag_width + sum(kind.width for _, kind, _ in placed)
        if bits >> used:
            raise Unfit(f"zeros above the parts of {tag}", bits >> used, "payload")
        return self.cls(tag, **decode_parts(placed, bits))

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        return f"{self.cls.__name__} of kind " + ", ".join(
            f"{tag} ({code})" for code, tag in enumerate(self.tags)
        )


class Slots(OperandType):
    """Up to `count` elements of one type: a valid bit and the element in each slot.

    Values are tuples. Slots fill from the first one on, and an empty slot is all zeros, so that
    every value has one encoding.

    Parameters
    ----------
    element : OperandType
        What a slot holds.
    count : int
        Slots.
    """

    zero: tuple[Any, ...] = ()

    def __init__(self, element: OperandType, count: int) -> None:
        self.element = element
        self.count = count
        self.pitch = 1 + element.width
        self.width = count * self.pitch

    @property
    def fields(self) -> tuple[Field, ...]:
        """See `OperandType.fields`; paths are ``0.valid``, ``0.<leaf of the element>``, ..."""
        result: list[Field] = []
        for slot in range(self.count):
            start = slot * self.pitch
            result.append(Field(f"{slot}.valid", start, 1))
            for leaf in self.element.fields:
                path = f"{slot}.{leaf.path}" if leaf.path else f"{slot}.value"
                result.append(Field(path, start + 1 + leaf.offset, leaf.width))
        return tuple(result)

    def check(self, value: Any) -> tuple[Any, ...]:
        """See `OperandType.check`; lists are taken too."""
        if value == ():
            return ()
        elements = cast("list[Any]", value)
        if not isinstance(value, (tuple, list)) or len(elements) > self.count:
            raise Unfit(self.description, elements)
        checked: list[Any] = []
        for slot, element in enumerate(elements):
            try:
                checked.append(self.element.check(element))
            except Unfit as error:
                raise error.within(str(slot)) from None
        return tuple(checked)

    def encode(self, value: tuple[Any, ...]) -> int:
        """See `OperandType.encode`."""
        bits = 0
        for slot, element in enumerate(value):
            bits |= (self.element.encode(element) << 1 | 1) << slot * self.pitch
        return bits

    def decode(self, bits: int) -> tuple[Any, ...]:
        """See `OperandType.decode`."""
        elements: list[Any] = []
        slot = 0
        while bits:
            if not bits & 1:
                raise Unfit("an empty slot to be zero, and those after it", bits, str(slot))
            try:
                elements.append(self.element.decode(bits >> 1 & ((1 << self.element.width) - 1)))
            except Unfit as error:
                raise error.within(str(slot)) from None
            bits >>= self.pitch
            slot += 1
        return tuple(elements)

    def write(self, value: tuple[Any, ...]) -> str:
        """See `OperandType.write`; elements are separated by blanks."""
        return " ".join(self.element.write(element) for element in value)

    def read(self, text: str) -> tuple[Any, ...]:
        """See `OperandType.read`; elements are separated by blanks."""
        return tuple(self.element.read(part) for part in text.split())

    @property
    def syntax(self) -> str:
        """See `OperandType.syntax`; of one element."""
        return self.element.syntax

    @property
    def description(self) -> str:
        """See `OperandType.description`."""
        return f"up to {self.count} of {self.element.description}"
