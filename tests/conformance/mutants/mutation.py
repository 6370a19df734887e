"""Running the golden machine with one line of its source replaced.

Nothing on disk changes. The modules under test are imported anew from altered source, tried, and
put away again; the rest of the program keeps those it has.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kohakuaccel.runtime.device import Device
from kohakutpu.config import Machine
from kohakutpu.conformance import Case, judge

ROOT = Path(__file__).parents[3]
UNDER_TEST = ("kohakutpu.model", "kohakutpu.devices", "kohakutpu.numerics")
KEPT = ("kohakutpu.numerics.scalar", "kohakutpu.numerics.seed_tables")
ENOUGH = 40
"""Cases that fail, after which a mutant is caught well enough."""


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes
    ----------
    name : str
        What it is called on the page.
    file : str
        Source file, from the root of the repository.
    old, new : str
        What is replaced by what.
    times : int
        How often `old` is in the file; all of them are replaced.
    """

    name: str
    file: str
    old: str
    new: str
    times: int = 1

    @property
    def module(self) -> str:
        """The module that the file is."""
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def source(self) -> str:
        """Return the altered source.

        Raises
        ------
        ValueError
            If the text to replace is not there as often as it should be.
        """
        text = (ROOT / self.file).read_text()
        if text.count(self.old) != self.times:
            count = text.count(self.old)
            raise ValueError(f"{self.name}: {self.old!r} is {count} times in {self.file}")
        return text.replace(self.old, self.new)


class Alteration(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer that knows one module, and loads it from a mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.used = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        origin = str(ROOT / self.mutant.file)
        package = self.mutant.file.endswith("__init__.py")
        places = [str(Path(origin).parent)] if package else None
        spec = importlib.util.spec_from_file_location(
            fullname, origin, loader=self, submodule_search_locations=places
        )
        return spec

    def exec_module(self, module: ModuleType) -> None:
        self.used = True
        code = compile(self.mutant.source(), self.mutant.file, "exec")
        exec(code, module.__dict__)


def _altered(name: str) -> bool:
    under = any(name == base or name.startswith(base + ".") for base in UNDER_TEST)
    return under and not any(name == kept or name.startswith(kept + ".") for kept in KEPT)


@contextmanager
def mutated(mutant: Mutant | None, machine: Machine) -> Iterator[Device]:
    """Provide a golden device made of freshly imported, altered modules."""
    before = {name: module for name, module in sys.modules.items() if _altered(name)}
    attributes: dict[str, object] = {}  # a package may have a function by a module's name
    for name in before:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        if sys.modules.get(parent, before.get(parent)) is not None:
            holder = sys.modules.get(parent) or before[parent]
            if child in holder.__dict__:
                attributes[name] = holder.__dict__.pop(child)
    finder = Alteration(mutant) if mutant else None
    if finder:
        sys.meta_path.insert(0, finder)
    # The scalar reference is the same one; its package is a new one.
    for kept in KEPT:
        sys.modules[kept] = importlib.import_module(kept)
    try:
        device = importlib.import_module("kohakutpu.devices.golden").GoldenDevice(machine)
        if mutant and finder and not finder.used:
            raise ValueError(f"{mutant.name}: {mutant.module} is not part of the golden machine")
        yield device
    finally:
        if finder:
            sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _altered(name)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, value in attributes.items():
            parent, _, child = name.rpartition(".")
            sys.modules[parent].__dict__[child] = value


def hunt(mutant: Mutant | None, machine: Machine, cases: Sequence[Case]) -> list[str]:
    """Return the names of the cases that fail on a mutant, in their order, no more than enough.

    A mutant that raises anything but a fault has failed too.
    """
    caught: list[str] = []
    with mutated(mutant, machine) as device:
        for case in cases:
            try:
                passed = judge(case, device).passed
            except Exception:  # what a broken machine does is nobody's promise
                passed = False
                device.reset()
            if not passed:
                caught.append(case.name)
                if len(caught) == ENOUGH:
                    break
    return caught
