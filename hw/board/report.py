"""What a build made and took, as data that JSON holds, and as a page of the documentation.

>>> ktpu build --board ulx3s-85f --machine tiny --json docs/timing.json
>>> python -m hw.board.report docs/timing.json > docs/timing.md
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hw.board.flow import Step, Timing
from hw.board.process import Usage

PAGE = """\
# Timing

How fast `{machine}` (configuration {hash}) with {memory:,} words of memory is on the {device} of a
{board}, placed and routed for {wanted:g} MHz: {verdict}

| seed | MHz | seconds | processor seconds | GiB at most |
|---:|---:|---:|---:|---:|
{placements}

Synthesis before that took {synthesis}.

| | used | there are | part |
|---|---:|---:|---:|
{used}

## The slowest path

Of seed {seed}, {reached:.1f} MHz; hops of no time are left out, and of hops inside one module all
but the last are one row.

| ns | | to |
|---:|---|---|
{path}

## How it was measured

    ktpu build --board {board} --machine {machine}{options} --json docs/timing.json
    python -m hw.board.report docs/timing.json > docs/timing.md

With {tools}. Times are of a machine that did other things too; processor seconds and memory hardly
depend on that.
"""


@dataclass(frozen=True)
class Report:
    """A build.

    Parameters
    ----------
    machine, hash : str
        Name and hash of the configuration.
    board, device : str
        What it was built for.
    memory_words : int
        Words of memory.
    used, limits : dict of str to int
        Of each resource: what the cells take, what the device has.
    tools : dict of str to str
        Versions.
    synthesis : Usage
        What synthesis took.
    timings : list of Timing
        A placement each.
    unrouted : list of int
        Seeds that ended without a way for every wire.
    """

    machine: str
    hash: str
    board: str
    device: str
    memory_words: int
    used: dict[str, int]
    limits: dict[str, int]
    tools: dict[str, str]
    synthesis: Usage
    timings: list[Timing]
    unrouted: list[int]

    @property
    def fastest(self) -> Timing:
        """The placement that counts."""
        return max(self.timings, key=lambda timing: timing.reached)

    def as_json(self) -> dict[str, Any]:
        """Return what `json` writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Report":
        """Return what `as_json` gave."""
        timings = [
            Timing(
                **{
                    **timing,
                    "path": tuple(Step(**step) for step in timing["path"]),
                    "usage": Usage(**timing["usage"]),
                }
            )
            for timing in values["timings"]
        ]
        return cls(**{**values, "synthesis": Usage(**values["synthesis"]), "timings": timings})


def document(report: Report) -> str:
    """Return the page."""
    fastest = report.fastest
    met = sum(timing.met for timing in report.timings)
    tried = len(report.timings) + len(report.unrouted)
    rows = [
        (timing.seed, f"{timing.reached:.1f}", *_figures(timing.usage)) for timing in report.timings
    ]
    rows += [(seed, "no route", "", "", "") for seed in report.unrouted]
    used = (
        (name, f"{report.used[name]:,}", f"{most:,}", f"{report.used[name] / most:.1%}")
        for name, most in report.limits.items()
    )
    options = "" if fastest.wanted == 25 else f" --frequency {fastest.wanted:g}"
    options += "" if tried == 3 else f" --seeds {tried}"
    return PAGE.format(
        machine=report.machine,
        hash=report.hash,
        memory=report.memory_words,
        device=report.device,
        board=report.board,
        wanted=fastest.wanted,
        verdict=f"met by {met} of {tried} placements.",
        placements=_table(sorted(rows)),
        synthesis=report.synthesis,
        used=_table(used),
        seed=fastest.seed,
        reached=fastest.reached,
        path=_table((f"{delay:.2f}", kind, f"`{name}`") for delay, kind, name in hops(fastest)),
        options=options,
        tools=" and ".join(f"{name} {version}" for name, version in report.tools.items()),
    )


def hops(timing: Timing) -> list[tuple[float, str, str]]:
    """Return the slowest path by module: nanoseconds, what they are spent on, and the last net."""
    merged: list[tuple[float, str, str]] = []
    for step in timing.path:
        if step.delay == 0:
            continue
        kind = "logic and wires" if step.kind in ("logic", "routing") else step.kind
        module = step.name.rpartition(".")[0]
        if merged and merged[-1][1] == kind and merged[-1][2].rpartition(".")[0] == module:
            merged[-1] = (merged[-1][0] + step.delay, kind, step.name)
        else:
            merged.append((step.delay, kind, step.name))
    return merged


def _figures(usage: Usage) -> tuple[str, ...]:
    gib = usage.memory / (1 << 30)
    return f"{usage.seconds:,.0f}", f"{usage.processor:,.0f}", f"{gib:.2f}"


def _table(rows: Any) -> str:
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


if __name__ == "__main__":
    print(document(Report.from_json(json.loads(Path(sys.argv[1]).read_text()))), end="")
