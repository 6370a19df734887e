"""`ktpu build`: a bitstream of a machine for a board."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from kohakuaccel.errors import CallError
from kohakutpu.cli.inspection import chosen
from kohakutpu.cli.options import machine_option
from kohakutpu.devices.board import BAUD

if TYPE_CHECKING:
    from hw.board.flow import Synthesis, Timing
    from hw.synth.boards import Board

MEMORY_WORDS = 2048


@click.command()
@click.option("--board", default="ulx3s-85f", show_default=True, metavar="NAME")
@machine_option
@click.option("--frequency", type=float, help="MHz of the clock.")
@click.option(
    "--seeds",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Placements to try; 0 ends after the check of fit.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Placements at a time; by default one a processor."
)
@click.option("--baud", type=int, default=BAUD, show_default=True, help="Of the serial port.")
@click.option(
    "--memory", type=int, default=MEMORY_WORDS, show_default=True, help="Words of memory."
)
@click.option("--output", type=click.Path(path_type=Path), help="Folder; build/NAME by default.")
@click.option("--json", "summary", type=click.Path(path_type=Path), help="Also the summary, here.")
def build(
    board: str,
    machine: str | None,
    frequency: float | None,
    seeds: int,
    jobs: int | None,
    baud: int,
    memory: int,
    output: Path | None,
    summary: Path | None,
) -> None:
    """Make a bitstream: synthesise, check that it fits, place, route, check the clock, pack."""
    try:
        from hw.board import flow
        from hw.board.report import Report
        from hw.board.system import System
        from hw.board.vendor import vendor
        from hw.sim.toolchain import ToolError
        from hw.synth import boards
    except ModuleNotFoundError as error:
        raise CallError(
            f"a bitstream needs {error.name}; it is not installed",
            fix="python -m pip install 'kohakutpu[rtl,fpga]'",
        ) from None
    configuration = chosen(machine)
    console = Console(highlight=False, soft_wrap=True)
    folder = output or Path("build") / f"{board}-{configuration.name}"
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def step(text: str) -> None:
        console.print(f"{time.monotonic() - started:6.0f} s  {text}")

    lost: dict[int, flow.RoutingError] = {}

    def placed(seed: int) -> Timing | None:
        try:
            timing = flow.place(target, folder, hertz / 1e6, seed)
        except flow.RoutingError as error:
            lost[seed] = error
            step(str(error))
            return None
        step(f"seed {seed}: {timing.reached:.1f} MHz; {timing.usage}")
        return timing

    try:
        target = boards.board(board)
        hertz = target.frequency if frequency is None else round(frequency * 1e6)
        system = System(configuration, memory, hertz, baud)
        step(f"writing {configuration.name} ({configuration.hash}) for {target.name}")
        flow.describe(system, target, hertz, folder)
        step("synthesis, some minutes unless it is in the cache")
        made = flow.synthesise(target, folder)
        console.print(fitting(made, target))
        step(f"synthesis took {made.usage}")
        made.fit(target)
        if not seeds:
            return
        step(f"placing and routing, seeds 1 to {seeds}")
        with ThreadPoolExecutor(min(seeds, jobs or os.cpu_count() or 1)) as pool:
            timings = [timing for timing in pool.map(placed, range(1, seeds + 1)) if timing]
        if not timings:
            raise lost[1]
        fastest = flow.best(timings)
        console.print(fastest.describe())
        if vendor(target).untimed:
            step(
                f"of {vendor(target).untimed} nextpnr knows no delays: paths through them may "
                "take longer than that"
            )
        bitstream = flow.pack(target, folder, fastest.seed)
    except boards.BoardError as error:
        raise CallError(str(error), fix="name one of them in --board") from None
    except ToolError as error:
        raise CallError(str(error), fix="python -m pip install 'kohakutpu[rtl,fpga]'") from None
    except ValueError as error:
        raise CallError(str(error), fix="choose another --frequency, --memory or --baud") from None
    except flow.FitError as error:
        raise CallError(str(error), fix="choose a smaller machine or less --memory") from None
    except flow.RoutingError as error:
        raise CallError(str(error), fix="try more --seeds, or a smaller machine") from None
    except flow.TimingError as error:
        raise CallError(
            str(error), fix="ask for a lower --frequency, or shorten that path"
        ) from None
    report = Report(
        machine=configuration.name,
        hash=configuration.hash,
        board=target.name,
        device=target.device,
        memory_words=memory,
        used=made.used,
        limits=dict(target.limits),
        tools=flow.versions(target),
        synthesis=made.usage,
        timings=timings,
        unrouted=sorted(lost),
    )
    text = json.dumps(report.as_json(), indent=1) + "\n"
    for path in (folder / "summary.json", *([summary] if summary else [])):
        path.write_text(text)
    step(f"{bitstream}: load it with openFPGALoader --board {target.loader} {bitstream}")


def fitting(made: Synthesis, board: Board) -> Table:
    """Return the table of what a system takes of a board."""
    table = Table("", "used", "there are", "part")
    for name, most in board.limits.items():
        used = made.used[name]
        table.add_row(name, f"{used:,}", f"{most:,}", f"{100 * used / most:.1f} %")
    return table
