"""A module of the hardware with smaller numbers or a mistake in it, from its source."""

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def altered(file: str, *changes: tuple[str, str], **numbers: int) -> ModuleType:
    """Return a module anew, apart from the one that everybody else has.

    Parameters
    ----------
    file : str
        Its source, from the root of the repository.
    *changes : (str, str)
        Text that is there exactly once, and what takes its place.
    **numbers : int
        What names that it imported stand for when its components are elaborated.

    Raises
    ------
    ValueError
        If text is not there once, or a name not at all.
    """
    source = (ROOT / file).read_text()
    for old, new in changes:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} is {source.count(old)} times in {file}")
        source = source.replace(old, new)
    module = ModuleType(f"altered_{Path(file).stem}")
    exec(compile(source, file, "exec"), module.__dict__)
    for name, number in numbers.items():
        if name not in module.__dict__:
            raise ValueError(f"{file} knows no {name}")
        setattr(module, name, number)
    return module


def some(names: Iterable[str], count: int) -> list[Any]:
    """Return parameters of a test: the first so many in every run, the others in long ones."""
    return [
        pytest.param(name, marks=() if number < count else pytest.mark.slow)
        for number, name in enumerate(names)
    ]
