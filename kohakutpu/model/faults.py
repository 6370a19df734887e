"""What goes wrong on the machine: a cause, where, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping


class Violation(Exception):
    """A unit broke a rule; the scheduler, which knows unit and pc, makes it a `Fault`."""

    def __init__(self, cause: str, message: str, **numbers: int | str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.numbers = numbers


class Fault(RuntimeError):
    """The machine stopped.

    Attributes
    ----------
    node : int
        The unit.
    pc : int
        Index of the instruction in the unit's program.
    cause : str
        A cause of the fault table of ``docs/machine.md``, or ``UNWRITTEN``, which only the golden
        machine detects (option ``poison``).
    numbers : dict
        The values that broke the rule, by name.
    message : str
        One sentence with those numbers.
    """

    def __init__(
        self, node: int, pc: int, cause: str, message: str, numbers: Mapping[str, int | str]
    ) -> None:
        super().__init__(f"{cause} at unit {node}, instruction {pc}: {message}")
        self.node = node
        self.pc = pc
        self.cause = cause
        self.message = message
        self.numbers = dict(numbers)


class Deadlock(Fault):
    """No unit can proceed and not all have halted; cause ``WATCHDOG``.

    Attributes
    ----------
    waiting : tuple of str
        One line for each front end and engine that waits, and what for.
    """

    def __init__(self, node: int, pc: int, waiting: tuple[str, ...]) -> None:
        text = "no unit can proceed:\n  " + "\n  ".join(waiting)
        super().__init__(node, pc, "WATCHDOG", text, {"waiting": len(waiting)})
        self.waiting = waiting
