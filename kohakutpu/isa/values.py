"""The values that operands take: plain frozen data, ranges are checked by the records."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import SupportsFloat

from kohakuaccel.isa import EncodingError


@dataclass(frozen=True, slots=True)
class Address:
    """``a[reg] + imm``; `reg` 0 makes it absolute."""

    reg: int
    imm: int


@dataclass(frozen=True, slots=True)
class Extent:
    """``limit - a[reg]``, clamped to the size of the window it belongs to."""

    limit: int
    reg: int


@dataclass(frozen=True, slots=True)
class Flag:
    """``imm or a[reg] != 0``."""

    imm: bool
    reg: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Block until the unit's `semaphore` holds at least `count`, then subtract it."""

    semaphore: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Post:
    """Add one to `semaphore` of `node` when the instruction has finished."""

    node: int
    semaphore: int


_ORIGIN = Address(0, 0)


@dataclass(frozen=True, slots=True)
class Source:
    """Where `EXEC` reads an operand. Use the constructors named after the kinds.

    Attributes
    ----------
    kind : str
        ``none``, ``imm``, ``reg``, ``l1h``, ``l1f`` or ``row``.
    bits : int
        Of an immediate, its FP32 encoding.
    base : Address
        First beat or word of a window.
    stride : int
        Beats or words from row to row; 0 repeats one row.
    """

    kind: str
    bits: int = 0
    base: Address = _ORIGIN
    stride: int = 0

    @staticmethod
    def none() -> Source:
        """No operand."""
        return Source("none")

    @staticmethod
    def imm(value: SupportsFloat) -> Source:
        """Return an immediate: the FP32 number nearest to `value`, ties to even.

        Raises
        ------
        EncodingError
            If `value` is finite and rounds to infinity.
        """
        try:
            packed = struct.pack("<f", value)
        except OverflowError:
            expected = "a number within the range of FP32"
            raise EncodingError("Source", "imm", value, expected) from None
        return Source("imm", int.from_bytes(packed, "little"))

    @staticmethod
    def imm_bits(bits: int) -> Source:
        """Return an immediate by its FP32 encoding; the way to state a NaN's payload."""
        return Source("imm", bits)

    @staticmethod
    def reg(base: Address, stride: int) -> Source:
        """Return a register window: base beat, beats from row to row."""
        return Source("reg", 0, base, stride)

    @staticmethod
    def l1h(base: Address, stride: int) -> Source:
        """Return an L1 window read as FP16: base word, words from row to row."""
        return Source("l1h", 0, base, stride)

    @staticmethod
    def l1f(base: Address, stride: int) -> Source:
        """Return an L1 window read as FP32: base word, words from row to row."""
        return Source("l1f", 0, base, stride)

    @staticmethod
    def row(base: Address) -> Source:
        """Return row scalars: lane ``r % lanes`` of beat ``base + r // lanes`` for row `r`."""
        return Source("row", 0, base)

    @property
    def value(self) -> float:
        """The immediate as a float; 0.0 for other kinds. `bits` tells NaNs apart."""
        return float(struct.unpack("<f", self.bits.to_bytes(4, "little"))[0])


@dataclass(frozen=True, slots=True)
class Destination:
    """Where `EXEC` writes its result. Use the constructors named after the kinds.

    Attributes
    ----------
    kind : str
        ``none``, ``reg``, ``l1h`` or ``l1f``.
    base : Address
        First beat or word of the window.
    stride : int
        Beats or words from row to row.
    """

    kind: str
    base: Address = _ORIGIN
    stride: int = 0

    @staticmethod
    def none() -> Destination:
        """No destination: only the reduction is kept."""
        return Destination("none")

    @staticmethod
    def reg(base: Address, stride: int) -> Destination:
        """Return a register window: base beat, beats from row to row."""
        return Destination("reg", base, stride)

    @staticmethod
    def l1h(base: Address, stride: int) -> Destination:
        """Return an L1 window rounded to FP16: base word, words from row to row."""
        return Destination("l1h", base, stride)

    @staticmethod
    def l1f(base: Address, stride: int) -> Destination:
        """Return an L1 window of FP32: base word, words from row to row."""
        return Destination("l1f", base, stride)
