"""Unit programs before encoding: loops of instruction templates with affine operands.

A template is an ISA record with its operands, where every address, extent and flag is affine in
the loops around it. Registers, ``ADDA`` and ``LOOP`` are decided later, by the *roll* pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kohakuaccel.isa import Record
from kohakuaccel.source import Location


@dataclass(eq=False, slots=True)
class Loop:
    """``count`` runs of ``body``; a count of 1 costs no instruction, of 0 leaves the body out."""

    name: str
    count: int
    body: list[Item] = field(default_factory=list["Item"])


@dataclass(eq=False, slots=True)
class Ring:
    """A window of ``slots`` equal places used in turn: double buffering.

    Its position starts at place 0 and moves on by one (modulo ``slots``) at each :class:`Advance`.
    ``base`` and ``size`` are in the granule of the memory it lies in.
    """

    name: str
    base: int
    size: int
    slots: int


@dataclass(eq=False, slots=True)
class Advance:
    """Move ``ring`` to its next place, for all that follows in program order."""

    ring: Ring


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant + operand base + sum(stride * loop index) + ring place``.

    ``operand`` is an index into the image's operands (its base address in quarters is added when
    the image is loaded). ``terms`` pairs loops with strides.
    """

    constant: int = 0
    terms: tuple[tuple[Loop, int], ...] = ()
    operand: int | None = None
    ring: Ring | None = None

    def plus(self, constant: int) -> Affine:
        """Return this form moved by ``constant``."""
        return Affine(self.constant + constant, self.terms, self.operand, self.ring)


@dataclass(frozen=True, slots=True)
class Left:
    """An extent: ``limit - position``, where the position is affine (constant 0 allowed)."""

    limit: int
    position: Affine = Affine()


@dataclass(frozen=True, slots=True)
class Nonzero:
    """A flag: true once the position is not zero (any iteration but the first)."""

    position: Affine


@dataclass(frozen=True, slots=True)
class Window:
    """A vector operand before its base has a register: ``kind`` as in ``isa.Source``."""

    kind: str
    base: Affine = Affine()
    stride: int = 0
    value: float = 0.0


@dataclass(eq=False, slots=True)
class Emit:
    """One instruction template.

    ``operands`` holds plain values, or :class:`Affine` where the record wants an address,
    :class:`Left` an extent, :class:`Nonzero` or a bool a flag, :class:`Window` a source or
    destination. ``waits`` are ``(semaphore, count)``, ``posts`` are ``(node, semaphore)``.
    """

    record: Record
    operands: dict[str, Any]
    waits: tuple[tuple[int, int], ...] = ()
    posts: tuple[tuple[int, int], ...] = ()
    loc: Location | None = None
    statement: str = ""


Item = Loop | Emit | Advance
"""What a body consists of."""


@dataclass(eq=False, slots=True)
class UnitTree:
    """The program of one unit: ``node`` its id, ``kind`` ``"C"`` or ``"V"``."""

    node: int
    kind: str
    body: list[Item] = field(default_factory=list["Item"])
