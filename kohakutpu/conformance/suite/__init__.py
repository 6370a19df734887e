"""The suite: every case there is for a machine, and what each made the reference look at."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import ModuleType

from kohakutpu.config import Machine
from kohakutpu.conformance.case import Case, Trace
from kohakutpu.conformance.suite import (
    arithmetic,
    boundaries,
    combinations,
    control,
    faults,
    pipelines,
    semaphores,
    sizes,
    transfers,
)

PARTS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (control, ("word", "control", "extent", "flag")),
    (semaphores, ("semaphore", "barrier", "fault")),
    (boundaries, ("field",)),
    (sizes, ("size",)),
    (combinations, ("pairs",)),
    (arithmetic, ("numbers",)),
    (faults, ("check", "fault", "overlap")),
    (transfers, ("transfer", "multicast", "fill", "gather")),
    (pipelines, ("pipeline",)),
)
"""The modules that make cases, and the groups of each."""


def generate(machine: Machine, select: str = "*") -> Iterator[tuple[Case, Trace]]:
    """Yield the cases of a machine whose name matches `select`, a pattern as of file names."""
    for part, groups in PARTS:
        if not any(_may_match(group, select) for group in groups):
            continue
        for case, trace in part.cases(machine):
            assert case.group in groups, case.name
            if fnmatchcase(case.name, select):
                yield case, trace


def _may_match(group: str, select: str) -> bool:
    """Return whether a pattern can match names of a group."""
    first, slash, _ = select.partition("/")
    return not slash or "[" in select or fnmatchcase(group, first)
