"""Program images: everything a device needs to run a compiled program, in one file.

Programs are words that nobody here looks into. An image file is, little-endian:

====== ============ ==================================================================
offset size         content
====== ============ ==================================================================
0      8            `MAGIC`
8      4            format version, `VERSION`
12     4            zero
16     3 x 8        bytes of the manifest, of the code and of the data
40     32           SHA-256 of everything before and of everything after
72                  the manifest: JSON in ASCII, keys sorted, no blanks
...                 the code: the words of every unit, in the order of the unit table
...                 the data: constants
====== ============ ==================================================================

Equal images are equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

MAGIC = b"\x89KAI\r\n\x1a\n"  # not text, and spoilt by what translates line ends
VERSION = 1
WORD_BYTES = 32
OPERAND_KINDS = ("in", "out", "temp", "data")

_HEADER = struct.Struct("<8sII3Q")
_DIGEST_BYTES = 32


class ImageError(ValueError):
    """An image that contradicts itself, or bytes that are none; the message says why."""


@dataclass(frozen=True)
class UnitProgram:
    """The program of one unit.

    Attributes
    ----------
    node : int
        Where the unit is.
    kind : str
        What kind of unit it is.
    words : bytes
        Its instructions, 32 bytes each.
    """

    node: int
    kind: str
    words: bytes


@dataclass(frozen=True)
class OperandInfo:
    """A buffer the program works on.

    Attributes
    ----------
    name : str
        What people call it.
    kind : str
        ``in``, ``out``, ``temp`` (scratch memory) or ``data`` (the image's constants).
    nbytes : int
        Its size.
    """

    name: str
    kind: str
    nbytes: int


@dataclass(frozen=True, order=True)
class Relocation:
    """The instruction at `pc` of the unit with index `unit` wants the base of an operand."""

    unit: int
    pc: int
    operand: int


@dataclass(frozen=True, order=True)
class DebugEntry:
    """Where the instructions from `pc` up to the next entry of the unit come from."""

    unit: int
    pc: int
    file: str
    line: int
    function: str
    statement: str


@dataclass(frozen=True)
class Image:
    """A compiled program, checked when made.

    Attributes
    ----------
    machine_hash : str
        Of the configuration it was compiled for.
    units : tuple of UnitProgram
        The unit table.
    data : bytes
        Constants; whole words.
    operands : tuple of OperandInfo
        The buffers, in the order in which a launch gives their addresses.
    relocations : tuple of Relocation
        Kept sorted.
    debug : tuple of DebugEntry
        Kept sorted.
    meta : dict
        Anything else worth knowing, text to text.

    Raises
    ------
    ImageError
        If something points nowhere, is there twice or is no whole number of words.
    """

    machine_hash: str
    units: tuple[UnitProgram, ...]
    data: bytes = b""
    operands: tuple[OperandInfo, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    debug: tuple[DebugEntry, ...] = ()
    meta: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        object.__setattr__(self, "relocations", tuple(sorted(self.relocations)))
        object.__setattr__(self, "debug", tuple(sorted(self.debug)))
        object.__setattr__(self, "meta", dict(self.meta))
        _unique("node", [unit.node for unit in self.units])
        _unique("operand", [operand.name for operand in self.operands])
        for index, unit in enumerate(self.units):
            _whole_words(f"program of unit {index}", unit.words)
        _whole_words("data", self.data)
        for operand in self.operands:
            if operand.kind not in OPERAND_KINDS or operand.nbytes < 0:
                raise ImageError(f"{operand} is not one of {', '.join(OPERAND_KINDS)}, 0 bytes up")
        for what, entries in (("relocation", self.relocations), ("debug entry", self.debug)):
            for entry in entries:
                self._inside(what, entry.unit, entry.pc)
            _unique(what, [(entry.unit, entry.pc) for entry in entries])
        for relocation in self.relocations:
            if not 0 <= relocation.operand < len(self.operands):
                raise ImageError(f"{relocation} names one of {len(self.operands)} operands")

    def _inside(self, what: str, unit: int, pc: int) -> None:
        if not 0 <= unit < len(self.units):
            raise ImageError(f"{what} for unit {unit}: there are {len(self.units)}")
        length = len(self.units[unit].words) // WORD_BYTES
        if not 0 <= pc < length:
            raise ImageError(f"{what} at unit {unit}, pc {pc}: its program has {length} words")

    def locate(self, unit: int, pc: int) -> DebugEntry | None:
        """Return where the instruction at `pc` of the unit with index `unit` comes from."""
        position = bisect_right(self.debug, (unit, pc), key=lambda entry: (entry.unit, entry.pc))
        entry = self.debug[position - 1] if position else None
        return entry if entry is not None and entry.unit == unit else None

    def to_bytes(self) -> bytes:
        """Return the image file."""
        manifest: dict[str, Any] = {
            "machine_hash": self.machine_hash,
            "units": [[unit.node, unit.kind, len(unit.words)] for unit in self.units],
            "operands": [list(asdict(operand).values()) for operand in self.operands],
            "relocations": [list(asdict(entry).values()) for entry in self.relocations],
            "debug": [list(asdict(entry).values()) for entry in self.debug],
            "meta": self.meta,
        }
        sections = (
            json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode("ascii"),
            b"".join(unit.words for unit in self.units),
            self.data,
        )
        header = _HEADER.pack(MAGIC, VERSION, 0, *map(len, sections))
        body = b"".join(sections)
        return header + hashlib.sha256(header + body).digest() + body

    @staticmethod
    def from_bytes(file: bytes) -> Image:
        """Read an image file.

        Raises
        ------
        ImageError
            If it is truncated, corrupted, of another version or no image at all.
        """
        start = _HEADER.size + _DIGEST_BYTES
        if file[: len(MAGIC)] != MAGIC[: len(file)]:
            raise ImageError(f"not an image: it begins with {file[: len(MAGIC)]!r}, not {MAGIC!r}")
        if len(file) < start:
            raise ImageError(f"truncated image: {len(file)} bytes, its header alone has {start}")
        _, version, reserved, *lengths = _HEADER.unpack_from(file)
        if version != VERSION:
            raise ImageError(f"image of format version {version}; this reader knows {VERSION}")
        if len(file) < start + sum(lengths):
            raise ImageError(f"truncated image: {len(file)} bytes of {start + sum(lengths)}")
        if len(file) > start + sum(lengths):
            raise ImageError(f"corrupted image: {len(file)} bytes, not {start + sum(lengths)}")
        digest = hashlib.sha256(file[: _HEADER.size] + file[start:]).digest()
        if reserved or digest != file[_HEADER.size : start]:
            raise ImageError("corrupted image: its checksum is not that of its content")
        code = start + lengths[0]
        data = code + lengths[1]
        try:
            return _parse(json.loads(file[start:code]), file[code:data], file[data:])
        except ImageError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ImageError(f"image with a manifest that makes no sense: {error!r}") from error


def _parse(manifest: dict[str, Any], code: bytes, data: bytes) -> Image:
    units: list[UnitProgram] = []
    position = 0
    for entry in manifest["units"]:
        node, kind, length = _typed(entry, int, str, int)
        if length < 0:
            raise ImageError(f"image with a program of {length} bytes")
        units.append(UnitProgram(node, kind, code[position : position + length]))
        position += length
    if position != len(code):
        raise ImageError(f"image with {len(code)} bytes of code, but programs of {position}")
    (machine_hash,) = _typed([manifest["machine_hash"]], str)
    meta: dict[str, Any] = manifest["meta"]
    for pair in meta.items():
        _typed(list(pair), str, str)
    debug = (int, int, str, int, str, str)
    return Image(
        machine_hash=machine_hash,
        units=tuple(units),
        data=data,
        operands=tuple(OperandInfo(*_typed(e, str, str, int)) for e in manifest["operands"]),
        relocations=tuple(Relocation(*_typed(e, int, int, int)) for e in manifest["relocations"]),
        debug=tuple(DebugEntry(*_typed(e, *debug)) for e in manifest["debug"]),
        meta=meta,
    )


def _typed(entry: list[Any], *types: type) -> list[Any]:
    if [type(value) for value in entry] != list(types):
        raise ImageError(f"image with {entry!r} where {[t.__name__ for t in types]} belong")
    return entry


def _whole_words(what: str, content: bytes) -> None:
    if len(content) % WORD_BYTES:
        raise ImageError(f"the {what} has {len(content)} bytes, no whole words of {WORD_BYTES}")


def _unique(what: str, names: list[Any]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ImageError(f"{what} {twice!r} is there twice")
