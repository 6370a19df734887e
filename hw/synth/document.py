"""The page of the documentation on area, from a measurement's JSON.

>>> ktpu synth --board ulx3s-85f --machine tiny --json docs/synthesis.json
>>> python -m hw.synth.document docs/synthesis.json > docs/synthesis.md
"""

import json
import sys
from math import prod
from pathlib import Path

from hw.synth.utilisation import RESOURCES, Counts, Row, Utilisation, resources

ALONE = ("LUT", "CCU2C", "DPR16X4", "PFUMX", "L6MUX21")
HEADINGS = ("module", *RESOURCES, *ALONE)

PAGE = """\
# Area

What `{machine}` (configuration {hash}) takes of the {device} on a {board}, after synthesis and
before placing and routing: {verdict}

{limits}

## By module

A row is a module with everything below it; where siblings have the same contents, one row stands
for all of them together. LUT4 counts sites: a function takes one, a carry cell (CCU2C) two, a LUT
RAM of 16 x 4 bits (DPR16X4) six, being three slices. The columns behind DP16KD are the cells
themselves; multiplexers between LUTs (PFUMX, L6MUX21) take no sites of their own.

{rows}

## Where most of it is

What the rows with the most LUT4 take themselves, all copies together, without rows below them.

{largest}

## How it was measured

    ktpu synth --board {board} --machine {machine} --json docs/synthesis.json
    python -m hw.synth.document docs/synthesis.json > docs/synthesis.md

With {tools}. Each module of a row is synthesised alone and no logic moves between rows, so that a
row is what that module costs; synthesised as one, the machine is a little smaller. ABC is given
8 ns for logic and uses what is left of it to save area. A result is cached by the
module's contents: after a change only what changed is synthesised again. All of `{machine}` takes
some ten minutes of one core.

The test suite checks that this page is what the JSON says, and that the JSON was measured with the
configuration of today's `{machine}`; it does not repeat the synthesis.
"""


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's cells of the table, its copies together."""
    name = "  " * row.depth + row.path.rpartition("/")[2]
    copies = f" x{row.copies}" if row.copies > 1 else ""
    return (name + copies, *numbers(row.total, row.copies))


def numbers(counts: Counts, copies: int = 1) -> list[str]:
    """Return the numbers of a row of the table."""
    taken = resources(counts)
    own = [counts["LUT4"], *(counts[name] for name in ALONE[1:])]
    return [f"{copies * count:,}" for count in (*(taken[name] for name in RESOURCES), *own)]


def limits(used: Utilisation) -> list[tuple[str, ...]]:
    """Return the rows that stand below the table: what the device has, and the part used."""
    taken = resources(used.rows[0].total)
    blank = [""] * len(ALONE)
    return [
        ("the device", *(f"{used.limits[name]:,}" for name in RESOURCES), *blank),
        ("used", *(f"{taken[name] / used.limits[name]:.1%}" for name in RESOURCES), *blank),
    ]


def document(used: Utilisation) -> str:
    """Return the page."""
    taken = resources(used.rows[0].total)
    summary = [
        (
            name,
            f"{taken[name]:,}",
            f"{used.limits[name]:,}",
            f"{taken[name] / used.limits[name]:.1%}",
            f"{used.budget[name]:,}" if name in used.budget else "",
        )
        for name in RESOURCES
    ]
    over = ", ".join(used.over)
    return PAGE.format(
        machine=used.machine,
        hash=used.hash,
        device=used.device,
        board=used.board,
        verdict=f"beyond its budget ({over})." if over else "within its budget.",
        limits=table(("", "used", "there are", "part", "budget"), summary),
        largest=table(("module", *RESOURCES), largest(used)),
        rows=table(HEADINGS, [cells(row) for row in used.rows]),
        tools=" and ".join(f"{name} {version}" for name, version in used.tools.items()),
    )


def largest(used: Utilisation, count: int = 15) -> list[tuple[str, ...]]:
    """Return the rows that take the most LUT4 themselves, in the whole machine."""
    copies = {row.path: row.copies for row in used.rows}
    sizes: list[tuple[Row, Counts]] = []
    for row in used.rows:
        parts = row.path.split("/")
        times = prod(copies["/".join(parts[: n + 1])] for n in range(len(parts)))
        own = {name: times * taken for name, taken in resources(row.own).items()}
        sizes.append((row, own))
    sizes.sort(key=lambda size: -size[1]["LUT4"])
    return [
        (row.path.removeprefix("top/"), *(f"{own[name]:,}" for name in RESOURCES))
        for row, own in sizes[:count]
    ]


def table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table; leading blanks of the first column become an indent."""
    lines = ["| " + " | ".join(headings) + " |", "|---" + "|---:" * (len(headings) - 1) + "|"]
    for first, *rest in rows:
        name = first.lstrip()
        indent = "&emsp;" * ((len(first) - len(name)) // 2)
        lines.append("| " + " | ".join((indent + name, *rest)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(Utilisation.from_json(json.loads(Path(sys.argv[1]).read_text()))), end="")
