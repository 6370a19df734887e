"""How a program ends badly: by a fault, or by asking what the contract leaves open."""

from __future__ import annotations

from collections.abc import Iterable

CAUSES = (
    "ILLEGAL",
    "LOOP_DEPTH",
    "L1_RANGE",
    "ACC_RANGE",
    "REG_RANGE",
    "OVERLAP",
    "MISALIGNED",
    "MEMORY",
    "SEM_OVERFLOW",
    "SEM_LEFT",
    "WATCHDOG",
)


class Fault(Exception):
    """The machine stopped.

    Attributes
    ----------
    unit : int
        Node of the unit.
    pc : int or None
        Index of the instruction; None where the contract does not say which.
    causes : frozenset of str
        What is wrong with the instruction. The contract has no order among causes, so any one of
        these is a right report.
    """

    def __init__(self, unit: int, pc: int | None, causes: Iterable[str]) -> None:
        self.unit = unit
        self.pc = pc
        self.causes = frozenset(causes)
        super().__init__(f"{' or '.join(sorted(self.causes))} at unit {unit}, instruction {pc}")


class Undefined(Exception):
    """A program whose outcome the contract does not settle: it looks at what nobody wrote."""
