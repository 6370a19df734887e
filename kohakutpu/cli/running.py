"""`ktpu run`: a program with a device selected, and its counters."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from kohakuaccel.errors import Diagnostic
from kohakutpu.api.profile import Profile
from kohakutpu.cli.options import device_option, machine_option, select

OUTPUT = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@device_option
@machine_option
@click.option("--stats", is_flag=True, help="Print the device's counters at the end.")
@click.option("--profile", "profiled", is_flag=True, help="Print what each kernel took.")
@click.option("--timeline", type=OUTPUT, help="Write what each engine did when, for Perfetto.")
@click.option("--roofline", type=OUTPUT, help="Write a picture of kernels below the roof, as SVG.")
def run(
    file: Path,
    arguments: tuple[str, ...],
    device: str | None,
    machine: str | None,
    stats: bool,
    profiled: bool,
    timeline: Path | None,
    roofline: Path | None,
) -> None:
    """Run the Python program FILE with ARGUMENTS.

    Options of ktpu go before FILE, what follows it belongs to the program.
    """
    chosen = select(device, machine)
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        if not (profiled or timeline or roofline):
            execute(file, "__main__")
            return
        with Profile(chosen) as seen:
            execute(file, "__main__")
        if profiled:
            click.echo(seen.pretty())
        if timeline is not None:
            seen.timeline(timeline)
        if roofline is not None:
            seen.roofline(roofline)
    finally:
        if stats:
            click.echo(str(chosen.stats()))


def execute(file: Path, name: str) -> dict[str, Any]:
    """Run a Python file as module `name` and return its globals.

    A diagnostic of ours passes through. Any other exception is the file's own: its traceback is
    printed, without the frames that started the file, and the command ends with status 1.
    """
    try:
        return runpy.run_path(str(file), run_name=name)
    except Diagnostic:
        raise
    except Exception as error:
        if os.environ.get("KTPU_TRACEBACK") == "1":
            raise
        shown = error.__traceback__
        while shown is not None and shown.tb_frame.f_code.co_filename != str(file):
            shown = shown.tb_next
        traceback.print_exception(type(error), error, shown)
        raise click.exceptions.Exit(1) from None
