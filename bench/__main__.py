"""`python -m bench [NAME...] [--json FILE]`: run benchmarks, print a table, keep the figures."""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import compilation, memory, simulation, speed
from bench.harness import Benchmark, machine_shape, peak_rss_mib

BENCHMARKS = {
    item.name: item for part in (speed, compilation, memory, simulation) for item in part.BENCHMARKS
}


def measure_here(name: str) -> int:
    """Run one benchmark in this process and print its figures as JSON."""
    figures = BENCHMARKS[name].measure()
    figures["peak_rss_mib"] = peak_rss_mib()
    print(json.dumps(figures))
    return 0


def measure_apart(name: str) -> dict[str, float]:
    """Run one benchmark in a process of its own, so that nothing is warm and memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--here", name],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def rows(item: Benchmark, figures: dict[str, float]) -> list[tuple[str, str, str, str]]:
    """Lay out one benchmark's figures: name, figure, value, target."""
    result: list[tuple[str, str, str, str]] = []
    for figure, value in figures.items():
        target = ""
        if figure in item.bounds:
            limit = item.bounds[figure]
            target = f"<= {limit:g}: " + ("met" if value <= limit else "MISSED")
        result.append((item.name if not result else "", figure, f"{value:.4g}", target))
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line names and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--here", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        return measure_here(options.here)
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if options.list:
        for item in BENCHMARKS.values():
            print(f"{item.name:24} {item.title}")
        return 0

    console = Console()
    shape = machine_shape()
    for key, value in shape.items():
        console.print(f"{key}: {value}", highlight=False)
    table = Table("benchmark", "figure", "value", "target")
    results: list[dict[str, Any]] = []
    for name in options.names or BENCHMARKS:
        item = BENCHMARKS[name]
        with console.status(item.title):
            figures = measure_apart(name)
        for row in rows(item, figures):
            table.add_row(*row)
        table.add_section()
        results.append({"name": name, "figures": figures, "bounds": dict(item.bounds)})
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps({"machine": shape, "results": results}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
