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
from kohakutpu.cli.options import device_option, machine_option, select


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@device_option
@machine_option
@click.option("--stats", is_flag=True, help="Print the device's counters at the end.")
def run(
    file: Path,
    arguments: tuple[str, ...],
    device: str | None,
    machine: str | None,
    stats: bool,
) -> None:
    """Run the Python program FILE with ARGUMENTS.

    Options of ktpu go before FILE, what follows it belongs to the program.
    """
    chosen = select(device, machine)
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        execute(file, "__main__")
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
