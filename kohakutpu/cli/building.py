"""`ktpu build`: a bitstream of a machine for a board."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from kohakuaccel.errors import CallError
from kohakutpu.cli.inspection import chosen
from kohakutpu.cli.options import machine_option
from kohakutpu.devices.board import BAUD

MEMORY_WORDS = 2048


@click.command()
@click.option("--board", default="ulx3s-85f", show_default=True, metavar="NAME")
@machine_option
@click.option("--frequency", type=float, default=25.0, show_default=True, help="MHz wanted.")
@click.option("--seeds", type=int, default=3, show_default=True, help="Placements to try.")
@click.option("--baud", type=int, default=BAUD, show_default=True, help="Of the serial port.")
@click.option(
    "--memory", type=int, default=MEMORY_WORDS, show_default=True, help="Words of memory."
)
@click.option("--output", type=click.Path(path_type=Path), help="Folder; build/NAME by default.")
def build(
    board: str,
    machine: str | None,
    frequency: float,
    seeds: int,
    baud: int,
    memory: int,
    output: Path | None,
) -> None:
    """Make a bitstream: synthesise, check that it fits, place, route, check the clock, pack."""
    try:
        from hw.board import flow
        from hw.board.system import System
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

    try:
        target = boards.board(board)
        system = System(configuration, memory, target.clock, baud)
        step(f"writing {configuration.name} ({configuration.hash}) for {target.name}")
        flow.describe(system, target, folder)
        step("synthesis")
        used = flow.synthesise(target, folder)
        table = Table("", "used", "there are", "part")
        for name, most in target.limits.items():
            table.add_row(name, f"{used[name]:,}", f"{most:,}", f"{100 * used[name] / most:.1f} %")
        console.print(table)
        timings: list[flow.Timing] = []
        for seed in range(1, seeds + 1):
            step(f"placing and routing, seed {seed} of {seeds}")
            timings.append(flow.place(target, folder, frequency, seed))
            step(f"{timings[-1].reached:.1f} MHz")
        fastest = flow.best(timings)
        console.print(fastest.describe())
        bitstream = flow.pack(folder, fastest.seed)
    except boards.BoardError as error:
        raise CallError(str(error), fix="name one of them in --board") from None
    except ToolError as error:
        raise CallError(str(error), fix="python -m pip install 'kohakutpu[rtl,fpga]'") from None
    except ValueError as error:
        raise CallError(str(error), fix="choose another --memory or --baud") from None
    except flow.FitError as error:
        raise CallError(str(error), fix="choose a smaller machine or less --memory") from None
    except flow.TimingError as error:
        raise CallError(
            str(error), fix="ask for a lower --frequency, or shorten that path"
        ) from None
    summary = {
        "machine": configuration.name,
        "hash": configuration.hash,
        "board": target.name,
        "used": used,
        "wanted_mhz": frequency,
        "reached_mhz": {timing.seed: timing.reached for timing in timings},
        "seconds": round(time.monotonic() - started),
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    step(f"{bitstream}: load it with openFPGALoader --board {target.loader} {bitstream}")
