"""The page of the documentation on area, from a measurement's JSON.

>>> ktpu synth --board ulx3s-85f --machine tiny --json docs/synthesis.json
>>> python -m hw.synth.document docs/synthesis.json > docs/synthesis.md
"""

import json
import sys
from math import prod
from pathlib import Path

from hw.synth.family import Counts, Family
from hw.synth.utilisation import Row, Utilisation

PAGE = """\
# Area

What `{machine}` (configuration {hash}) takes of the {device} on a {board}, after synthesis and
before placing and routing: {verdict}

{limits}

## By module

A row is a module with everything below it; where siblings have the same contents, one row stands
for all of them together. {note}

{rows}

## Where most of it is

What the rows with the most LUT4 take themselves, all copies together, without rows below them.

{largest}

## How it was measured

    ktpu synth --board {board} --machine {machine} --json docs/synthesis.json
    python -m hw.synth.document docs/synthesis.json > docs/synthesis.md

With {tools}. Each module of a row is synthesised alone and no logic moves between rows, so that a
row is what that module costs; synthesised as one, the machine is a little smaller. ABC is given
{delay} ns for logic and uses what is left of it to save area. A result is cached by the
module's contents: after a change only what changed is synthesised again. All of `{machine}` takes
some ten minutes of one core.

The test suite checks that this page is what the JSON says, and that the JSON was measured with the
configuration of today's `{machine}`; it does not repeat the synthesis.
"""


def headings(family: Family) -> tuple[str, ...]:
    """Return the headings of the table of modules."""
    return ("module", *family.resources, *family.columns)


def cells(row: Row, family: Family) -> tuple[str, ...]:
    """Return a row's cells of the table, its copies together."""
    name = "  " * row.depth + row.path.rpartition("/")[2]
    copies = f" x{row.copies}" if row.copies > 1 else ""
    return (name + copies, *numbers(row.total, family, row.copies))


def numbers(counts: Counts, family: Family, copies: int = 1) -> list[str]:
    """Return the numbers of a row of the table."""
    own = (counts[kind] for kind in family.columns.values())
    return [f"{copies * count:,}" for count in (*family.taken(counts).values(), *own)]


def limits(used: Utilisation) -> list[tuple[str, ...]]:
    """Return the rows that stand below the table: what the device has, and the part used."""
    taken = used.family.taken(used.rows[0].total)
    blank = [""] * len(used.family.columns)
    return [
        ("the device", *(f"{used.limits[name]:,}" for name in taken), *blank),
        ("used", *(f"{count / used.limits[name]:.1%}" for name, count in taken.items()), *blank),
    ]


def document(used: Utilisation) -> str:
    """Return the page."""
    family = used.family
    summary = [
        (
            name,
            f"{count:,}",
            f"{used.limits[name]:,}",
            f"{count / used.limits[name]:.1%}",
            f"{used.budget[name]:,}" if name in used.budget else "",
        )
        for name, count in family.taken(used.rows[0].total).items()
    ]
    over = ", ".join(used.over)
    return PAGE.format(
        machine=used.machine,
        hash=used.hash,
        device=used.device,
        board=used.board,
        verdict=f"beyond its budget ({over})." if over else "within its budget.",
        limits=table(("", "used", "there are", "part", "budget"), summary),
        largest=table(("module", *family.resources), largest(used)),
        rows=table(headings(family), [cells(row, family) for row in used.rows]),
        note=family.note,
        delay=family.delay // 1000,
        tools=" and ".join(f"{name} {version}" for name, version in used.tools.items()),
    )


def largest(used: Utilisation, count: int = 15) -> list[tuple[str, ...]]:
    """Return the rows that take the most LUT4 themselves, in the whole machine."""
    copies = {row.path: row.copies for row in used.rows}
    sizes: list[tuple[Row, Counts]] = []
    for row in used.rows:
        parts = row.path.split("/")
        times = prod(copies["/".join(parts[: n + 1])] for n in range(len(parts)))
        own = {name: times * taken for name, taken in used.family.taken(row.own).items()}
        sizes.append((row, own))
    sizes.sort(key=lambda size: -size[1]["LUT4"])
    return [
        (row.path.removeprefix("top/"), *(f"{taken:,}" for taken in own.values()))
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
