"""What people see when a kernel or a call is wrong: one exception, with the place and the fix."""

from __future__ import annotations

from collections.abc import Sequence

from kohakuaccel.source import Location

Note = tuple[Location | None, str]


class Diagnostic(Exception):
    """A mistake in the user's code, shown with its source line, a caret and what to do.

    Parameters
    ----------
    message : str
        What is wrong, with the names and numbers involved.
    loc : Location, optional
        The expression that is wrong.
    fix : str
        What to write instead.
    notes : sequence of (Location or None, str)
        Other places that play a part.
    """

    def __init__(
        self,
        message: str,
        *,
        loc: Location | None = None,
        fix: str,
        notes: Sequence[Note] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.fix = fix
        self.notes = tuple(notes)

    def __str__(self) -> str:
        lines = _place(self.loc, self.message)
        for loc, text in self.notes:
            lines += _place(loc, f"note: {text}")
        return "\n".join([*lines, f"fix: {self.fix}"])


class KernelError(Diagnostic):
    """The kernel itself is wrong, whatever it is called with or for these shapes."""


class CallError(Diagnostic):
    """The arguments of a call are wrong: their number, ranks, shapes, dtypes or devices."""


class CapacityError(KernelError):
    """The kernel asks for more than the machine has; the notes say who uses what."""


class InternalError(Exception):
    """A bug of this toolchain: something that no kernel should be able to cause."""


def _place(loc: Location | None, text: str) -> list[str]:
    if loc is None:
        return [text]
    if not loc.text.strip():
        return [f"{loc}: {text}"]
    return [f"{loc}: {text}", *_shown(loc)]


def _shown(loc: Location) -> tuple[str, str]:
    margin = len(loc.text) - len(loc.text.lstrip())
    return "    " + loc.text[margin:], "    " + loc.caret[margin:]
