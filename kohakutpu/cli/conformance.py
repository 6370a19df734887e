"""`ktpu conformance`: the suite on a device, what it covers, and the suite as files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kohakuaccel.errors import CallError
from kohakutpu import devices
from kohakutpu.api.session import DEFAULT_MACHINE, find_machine
from kohakutpu.cli.options import device_option
from kohakutpu.config import PRESETS, Machine
from kohakutpu.conformance import coverage, export, report, runner
from kohakutpu.conformance.case import Case, Trace
from kohakutpu.conformance.report import Outcome
from kohakutpu.conformance.runner import Verdict
from kohakutpu.conformance.suite import generate

HOLES = 12  # that are named on the screen; the JSON file has all
FAILURES = 20


@click.command()
@device_option
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="NAME",
    help=f"One of: {', '.join(PRESETS)}, or all; repeatable.",
)
@click.option("--select", default="*", metavar="GLOB", help="Only cases with such a name.")
@click.option("--list", "listing", is_flag=True, help="Name the cases, run none.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write a JUnit report here.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write verdicts here.")
@click.option(
    "--export",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the cases here as files, run none.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Run the cases that --export wrote here.",
)
def conformance(
    device: str | None,
    machines: tuple[str, ...],
    select: str,
    listing: bool,
    junit: Path | None,
    output: Path | None,
    directory: Path | None,
    source: Path | None,
) -> None:
    """Run the conformance suite on a device.

    Exit status 1 means that a case failed, or that a whole suite covers less than it should.
    """
    if directory is not None and source is not None:
        raise click.UsageError("--export and --from exclude each other")
    chosen = _machines(machines)
    if listing or directory is not None:
        for machine in chosen:
            cases = [case for case, _ in _generate(machine, select)]
            if directory is None:
                click.echo("".join(f"{case.name}\n" for case in cases), nl=False)
            else:
                count = export.write(directory / machine.name, machine, cases)
                click.echo(f"{directory / machine.name}: {count} cases")
        return
    name = device or os.environ.get("KTPU_DEVICE") or devices.DEFAULT
    outcomes = [_run(name, machine, select, source) for machine in chosen]
    for outcome in outcomes:
        show(outcome, whole=select == "*" and source is None)
    if junit is not None:
        junit.write_text(report.junit(outcomes), encoding="utf-8")
    if output is not None:
        output.write_text(json.dumps(report.as_json(outcomes), indent=1) + "\n", encoding="utf-8")
    poor = select == "*" and not all(tally.enough for o in outcomes for tally in o.coverage)
    if poor or any(outcome.failed for outcome in outcomes):
        raise click.exceptions.Exit(1)


def _machines(names: Sequence[str]) -> list[Machine]:
    if not names:
        names = [os.environ.get("KTPU_MACHINE") or DEFAULT_MACHINE]
    if "all" in names:
        names = list(PRESETS)
    return [find_machine(name) for name in names]


def _generate(machine: Machine, select: str) -> list[tuple[Case, Trace]]:
    """Return the cases of a machine.

    Raises
    ------
    CallError
        If none has such a name.
    """
    with Console(stderr=True, highlight=False).status(f"making the cases of {machine.name}"):
        found = list(generate(machine, select))
    if not found:
        raise _nothing(select)
    return found


def _nothing(select: str) -> CallError:
    return CallError(
        f"no case has a name like {select!r}",
        fix="see the names with ktpu conformance --list; quote a pattern, as 'field/EXEC*'",
    )


def _run(name: str, machine: Machine, select: str, source: Path | None) -> Outcome:
    started = time.perf_counter()
    made: list[tuple[Case, Trace]] = []
    if source is None:
        made = _generate(machine, select)
        cases = [case for case, _ in made]
    else:
        cases = [case for case in _frozen(source, machine) if fnmatchcase(case.name, select)]
        if not cases:
            raise _nothing(select)
    played = devices.create(name, machine, devices.check_options(name, {}))
    try:
        verdicts = _watched(cases, played, machine)
    finally:
        played.close()
    pairs = zip(made, verdicts, strict=True) if made else ()
    tallies = coverage.measure(pair for pair, verdict in pairs if not verdict.skipped)
    seconds = time.perf_counter() - started
    return Outcome(name, machine.name, tuple(verdicts), tuple(tallies if made else ()), seconds)


def _frozen(source: Path, machine: Machine) -> list[Case]:
    place = source / machine.name
    try:
        return export.read(place if place.is_dir() else source)
    except export.SuiteError as error:
        raise CallError(str(error), fix="write it again with ktpu conformance --export") from None


def _watched(cases: list[Case], played: devices.Device, machine: Machine) -> list[Verdict]:
    """Run cases with a bar that says how far it is and how many failed."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True, highlight=False),
        transient=True,
    ) as progress:
        task = progress.add_task(f"{played.name} {machine.name}", total=len(cases), note="")
        failed = 0

        def seen(verdict: Verdict) -> None:
            nonlocal failed
            failed += bool(verdict.problems)
            note = f"{failed} failed" if failed else verdict.case.group
            progress.update(task, advance=1, note=note)

        return runner.run(cases, played, seen)


def show(outcome: Outcome, *, whole: bool) -> None:
    """Print what came of one machine: groups, failures, and coverage of a whole suite."""
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 100)
    table = Table(title=f"{outcome.device} {outcome.machine}", title_justify="left")
    for number, heading in enumerate(("group", "cases", "passed", "failed", "skipped", "cycles")):
        table.add_column(heading, justify="right" if number else "left")
    total = {"cases": 0, "passed": 0, "failed": 0, "skipped": 0, "cycles": 0}
    for group, counts in outcome.groups().items():
        table.add_row(group, *(f"{counts[key]:,}" for key in total))
        for key in total:
            total[key] += counts[key]
    table.add_section()
    table.add_row("all", *(f"{count:,}" for count in total.values()))
    console.print(table)
    for verdict in outcome.failed[:FAILURES]:
        console.print(f"FAILED {verdict.case.name}", markup=False)
        for problem in verdict.problems:
            console.print(f"  {problem}", markup=False)
    if len(outcome.failed) > FAILURES:
        console.print(f"and {len(outcome.failed) - FAILURES} more failed")
    if whole:
        for tally in outcome.coverage:
            met = len(tally.points & tally.met)
            text = f"{tally.title}: {met:,} of {len(tally.points):,}, {tally.share:.1%}"
            if not tally.enough:
                text += f", less than {tally.required:.0%}"
            console.print(text, markup=False)
            for hole in tally.holes[:HOLES]:
                console.print(f"  not met: {hole}", markup=False)
            if len(tally.holes) > HOLES:
                console.print(f"  and {len(tally.holes) - HOLES} more")
    console.print(f"{outcome.seconds:.1f} s")
