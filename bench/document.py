"""The page of the documentation on where cycles go, from a measurement's JSON.

>>> python -m bench rtl_small_matmul_256 ... --json docs/cycles.json
>>> python -m bench.document docs/cycles.json > docs/cycles.md
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.simulation import ENGINES, MACHINES, PROGRAMS, title

TITLES = {
    f"rtl_{machine}_{program}": title(machine, *what).removesuffix(" RTL")
    for machine in MACHINES
    for program, what in PROGRAMS.items()
}

PAGE = """\
# Cycles

Where the cycles of programs go on the simulated hardware. A program is one call of a kernel of the
library with FP16 operands; cycles are from GO to the last unit's report, with memory that answers
after 16 cycles.

*Utilisation* is multiply-accumulates, padding included, over the peak of all clusters in these
cycles. Memory moves at most one word a cycle in each direction, so *memory read* and *memory
written*, words (instructions included) over cycles, are parts of that peak.

{programs}

## By engine

Of a run's cycles an engine is *busy* from the start of an instruction to its last post, *stalled*
while it has an instruction that waits for a semaphore, and *idle* in the rest, when it has none:
before the first and after the last, or because the front end is not there yet. Each cell is busy /
stalled / idle in percent, the mean over the units that have the engine; an engine without a program
in a run has none.

{engines}

## How fast it simulates

Processor time, Python asleep but for a look every 50 ms, on {processor}. Caches are shared with
whatever else the processor does, and simulation lives in them: measure on an idle machine.

{speed}

## How it was measured

    python -m bench {names} \\
        --json docs/cycles.json
    python -m bench.document docs/cycles.json > docs/cycles.md

The test suite checks that this page is what the JSON says; it does not repeat the measurement.
"""


def document(measured: Mapping[str, Any]) -> str:
    """Return the page."""
    figures = {result["name"]: result["figures"] for result in measured["results"]}
    programs: list[list[str]] = []
    engines: list[list[str]] = []
    speed: list[list[str]] = []
    for name, found in figures.items():
        cycles = found["cycles"]
        programs.append(
            [
                TITLES[name],
                f"{cycles:,.0f}",
                f"{found['utilisation']:.1%}" if found["utilisation"] else "",
                f"{found['words_read'] / cycles:.1%}",
                f"{found['words_written'] / cycles:.1%}",
            ]
        )
        engines.append([TITLES[name], *(shares(found, engine.lower()) for engine in ENGINES)])
        rate = 1e3 / found["processor_seconds_per_million_cycles"]
        speed.append([TITLES[name], f"{rate:,.0f}"])
    machine = measured["machine"]
    return PAGE.format(
        programs=table(
            ["program", "cycles", "utilisation", "memory read", "memory written"], programs
        ),
        engines=table(["program", *ENGINES], engines),
        speed=table(["program", "thousand cycles a second"], speed),
        processor=f"{machine['cores']} cores of {machine['cpu']}",
        names=" ".join(figures),
    )


def shares(found: Mapping[str, float], engine: str) -> str:
    """Return how much an engine was busy, stalled and idle, in percent."""
    if f"{engine}_busy" not in found:
        return ""
    busy, stalled = found[f"{engine}_busy"], found[f"{engine}_stalled"]
    return " / ".join(f"{100 * share:.0f}" for share in (busy, stalled, 1 - busy - stalled))


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(headings) + " |", "|---" + "|---:" * (len(headings) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    print(document(json.loads(Path(sys.argv[1]).read_text())), end="")
