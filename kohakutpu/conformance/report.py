"""Verdicts for machines to read: JUnit XML and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from kohakutpu.conformance.coverage import Tally
from kohakutpu.conformance.runner import Verdict


@dataclass(frozen=True)
class Outcome:
    """What a run of the suite gave on one machine.

    Attributes
    ----------
    device : str
        What played the machine.
    machine : str
        Its name.
    verdicts : tuple of Verdict
        One a case.
    coverage : tuple of Tally
        Of the cases that were run.
    seconds : float
        From the first case to the last verdict, the making of cases included.
    """

    device: str
    machine: str
    verdicts: tuple[Verdict, ...]
    coverage: tuple[Tally, ...]
    seconds: float

    @property
    def failed(self) -> list[Verdict]:
        """Those with problems."""
        return [verdict for verdict in self.verdicts if verdict.problems]

    @property
    def skipped(self) -> list[Verdict]:
        """Those that were not run."""
        return [verdict for verdict in self.verdicts if verdict.skipped]

    def groups(self) -> Mapping[str, Counter[str]]:
        """Return for each group how many cases there are, passed, failed and were skipped."""
        found: dict[str, Counter[str]] = {}
        for verdict in self.verdicts:
            count = found.setdefault(verdict.case.group, Counter())
            count["cases"] += 1
            count["failed" if verdict.problems else "skipped" if verdict.skipped else "passed"] += 1
            count["cycles"] += verdict.cycles
        return found


def junit(outcomes: Sequence[Outcome]) -> str:
    """Return a JUnit report, a suite a machine."""
    root = ElementTree.Element("testsuites")
    for outcome in outcomes:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"conformance {outcome.device} {outcome.machine}",
            tests=str(len(outcome.verdicts)),
            failures=str(len(outcome.failed)),
            skipped=str(len(outcome.skipped)),
            errors="0",
            time=f"{outcome.seconds:.3f}",
        )
        for verdict in outcome.verdicts:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{outcome.machine}.{verdict.case.group}",
                name=verdict.case.name,
                time=f"{verdict.seconds:.6f}",
            )
            if verdict.problems:
                failure = ElementTree.SubElement(case, "failure", message=verdict.problems[0])
                failure.text = "\n".join(verdict.problems)
            elif verdict.skipped:
                ElementTree.SubElement(case, "skipped", message=verdict.skipped)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the same and the coverage, as what JSON can hold."""
    return [
        {
            "device": outcome.device,
            "machine": outcome.machine,
            "seconds": round(outcome.seconds, 3),
            "cases": [
                {
                    "name": verdict.case.name,
                    "passed": verdict.passed,
                    "problems": list(verdict.problems),
                    "skipped": verdict.skipped,
                    "cycles": verdict.cycles,
                }
                for verdict in outcome.verdicts
            ],
            "coverage": [
                {
                    "title": tally.title,
                    "met": len(tally.points & tally.met),
                    "points": len(tally.points),
                    "required": tally.required,
                    "holes": tally.holes,
                }
                for tally in outcome.coverage
            ],
        }
        for outcome in outcomes
    ]
