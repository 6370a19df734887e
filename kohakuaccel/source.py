"""Where in the user's file something was said."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source file: 1-based line, 0-based columns as in the Python parser.

    ``end_column`` is ``None`` where only the line is known.
    """

    file: str
    line: int
    column: int = 0
    end_column: int | None = None
    function: str = ""

    @property
    def text(self) -> str:
        """The source line without its newline, empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
