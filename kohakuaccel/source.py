"""Where in the user's file something was said."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType
from typing import TypeVar

Result = TypeVar("Result")

_internal: set[str] = {"kohakuaccel"}
_library: set[str] = {"kohakuaccel"}


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source file: 1-based line, 0-based columns as in the Python parser.

    ``end_column`` is ``None`` where only the line is known, or where the expression goes on below
    it. Columns count bytes of UTF-8, as Python does.
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

    @property
    def caret(self) -> str:
        """The line that goes below ``text``: blanks, then carets under the expression."""
        raw = self.text.encode()
        end = len(raw) if self.end_column is None else self.end_column
        before = raw[: self.column].decode(errors="replace")
        width = len(raw[self.column : end].decode(errors="replace"))
        return re.sub(r"[^\t]", " ", before) + "^" * max(width, 1)

    @property
    def source(self) -> str:
        """What the carets are under."""
        end = None if self.end_column is None else self.end_column
        return self.text.encode()[self.column : end].decode(errors="replace")

    @property
    def argument(self) -> str | None:
        """The text of the first argument, where the expression is a call on one line."""
        try:
            called = ast.parse(self.source.strip(), mode="eval").body
        except SyntaxError:
            return None
        if not isinstance(called, ast.Call) or not called.args:
            return None
        return ast.get_source_segment(self.source.strip(), called.args[0])

    @property
    def target(self) -> str | None:
        """The name that the expression is assigned to, ``None`` if there is none on its line."""
        margin = len(self.text) - len(self.text.lstrip())
        try:
            statement = ast.parse(self.text.strip()).body[0]
        except (SyntaxError, IndexError):  # the statement goes on below, or there is no source
            return None
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            pairs = [(statement.target, statement.value)]
        elif isinstance(statement, ast.Assign):
            pairs = _pairs(statement.targets[0], statement.value)
        else:
            return None
        for target, value in pairs:
            if isinstance(target, ast.Name) and value.col_offset == self.column - margin:
                return target.id
        return None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def mark_internal(package: str) -> None:
    """Skip frames of ``package`` and of the modules below it when looking for the user's line."""
    _internal.add(package)


def mark_library(*packages: str) -> None:
    """Skip frames of ``packages`` when looking for the line of a call, their tests excepted."""
    _library.update(packages)


def is_internal(module: str) -> bool:
    """Return whether ``module`` is part of the machinery rather than the user's code."""
    return _within(module, _internal)


def caller() -> Location:
    """Return the expression that the innermost frame outside the machinery is evaluating.

    While a kernel is traced that is a line of the kernel or of a helper of it.
    """
    return _outside(_internal)


def call_site() -> Location:
    """Return the expression that the innermost frame outside the whole library is evaluating.

    That is where the user calls a kernel or works with tensors.
    """
    return _outside(_library)


def evaluate_at(place: Location, function: Callable[[], Result]) -> Result:
    """Return ``function()``, for which `place` is the user's line: it was written there."""
    return function()


def _within(module: str, packages: set[str]) -> bool:
    parts = module.split(".")
    return "tests" not in parts and any(
        ".".join(parts[:length]) in packages for length in range(1, len(parts) + 1)
    )


def _outside(packages: set[str]) -> Location:
    frame: FrameType = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    place: FrameType | None = frame
    while place is not None and _within(place.f_globals.get("__name__", ""), packages):
        if place.f_code is evaluate_at.__code__:
            return place.f_locals["place"]
        place = place.f_back
    return locate(place or frame)


def locate(frame: FrameType) -> Location:
    """Return the expression that ``frame`` is evaluating."""
    code = frame.f_code
    line, end_line, column, end_column = _position(code, frame.f_lasti)
    if line is None:
        return Location(code.co_filename, frame.f_lineno, function=code.co_name)
    if end_line != line:
        end_column = None
    return Location(code.co_filename, line, column or 0, end_column, code.co_name)


@lru_cache(maxsize=4096)
def _position(
    code: CodeType, instruction: int
) -> tuple[int | None, int | None, int | None, int | None]:
    index = instruction // 2
    return next(islice(code.co_positions(), index, None), (None, None, None, None))
