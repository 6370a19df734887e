"""The group of commands, and how a mistake ends: one message and exit status 2."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from kohakuaccel.errors import Diagnostic
from kohakuaccel.image import ImageError
from kohakuaccel.isa import AssemblyError
from kohakutpu.cli import (
    assembly,
    building,
    conformance,
    information,
    inspection,
    running,
    synthesis,
)

HERE = Path(__file__).parent
USER_MISTAKES = (Diagnostic, ImageError, AssemblyError, OSError)


class Commands(click.Group):
    """Commands whose users' mistakes are messages, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; ``KTPU_TRACEBACK=1`` lets exceptions through."""
        if os.environ.get("KTPU_TRACEBACK") == "1":
            return super().invoke(ctx)
        try:
            return super().invoke(ctx)
        except USER_MISTAKES as error:
            if isinstance(error, Diagnostic) and error.loc is not None:
                if HERE in Path(error.loc.file).parents:
                    error.loc = None  # an option or the environment is wrong, and no program
            message = str(error)
            if isinstance(error, OSError) and error.strerror:
                message = f"{error.filename}: {error.strerror}"
            Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(
                f"ktpu: {message}"
            )
            ctx.exit(2)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run KohakuTPU programs and look at what kernels compile to.

    KTPU_DEVICE and KTPU_MACHINE choose the device and the machine where no option does;
    KTPU_TRACEBACK=1 shows the Python traceback of an error.
    """


for command in (
    running.run,
    inspection.plan,
    inspection.disasm,
    inspection.tune,
    assembly.asm,
    information.info,
    synthesis.synth,
    building.build,
    conformance.conformance,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `ktpu` with `arguments`, those of the process by default, and exit the process."""
    cli.main(args=arguments, prog_name="ktpu")
