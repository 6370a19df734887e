"""`ktpu synth`: how much of an FPGA a machine takes, module by module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from kohakuaccel.errors import CallError
from kohakutpu.cli.inspection import chosen
from kohakutpu.cli.options import machine_option

if TYPE_CHECKING:
    from hw.synth.utilisation import Utilisation


@click.command()
@click.option("--board", default="ulx3s-85f", show_default=True, metavar="NAME")
@machine_option
@click.option("--json", "output", type=click.Path(path_type=Path), help="Also write it here.")
@click.option("--depth", type=int, default=2, show_default=True, help="Levels of the table.")
def synth(board: str, machine: str | None, output: Path | None, depth: int) -> None:
    """Synthesise a machine for an FPGA and show what each module takes.

    Nothing is placed or routed. Modules that were synthesised before come from the cache.
    """
    try:
        from hw.sim.toolchain import ToolError
        from hw.synth import boards, utilisation, yosys
    except ModuleNotFoundError as error:
        raise CallError(
            f"synthesis needs {error.name}; it is not installed",
            fix="python -m pip install 'kohakutpu[rtl,fpga]'",
        ) from None
    try:
        target = boards.board(board)
    except boards.BoardError as error:
        raise CallError(str(error), fix="name one of them in --board") from None
    try:
        yosys.version()
    except ToolError as error:
        raise CallError(str(error), fix=yosys.INSTALL) from None
    configuration = chosen(machine)
    try:
        with Console(stderr=True, highlight=False).status("writing RTLIL") as status:
            used = utilisation.measure(
                configuration,
                target,
                lambda path, done, all: status.update(f"synthesis, {done + 1} of {all}: {path}"),
            )
    except ToolError as error:
        raise CallError(str(error), fix=yosys.INSTALL) from None
    if output is not None:
        output.write_text(json.dumps(used.as_json(), indent=1) + "\n")
    show(used, depth)


def show(used: Utilisation, depth: int) -> None:
    """Print the table."""
    from hw.synth.document import cells, headings, limits

    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 120)
    table = Table(title=f"{used.machine} on {used.board} ({used.device})", title_justify="left")
    for number, heading in enumerate(headings(used.family)):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in used.rows:
        if row.depth <= depth:
            table.add_row(*cells(row, used.family))
    table.add_section()
    for line in limits(used):
        table.add_row(*line)
    console.print(table)
    for text in used.over:
        console.print(f"over budget: {text}")
