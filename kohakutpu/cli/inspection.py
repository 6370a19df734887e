"""`ktpu plan`, `ktpu disasm` and `ktpu tune`: what a kernel compiles to, and with which knobs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from compiler.listing import listing
from kohakuaccel.errors import CallError
from kohakuaccel.image import Image
from kohakutpu import api
from kohakutpu.api.session import DEFAULT_MACHINE, device, find_machine
from kohakutpu.cli.kernels import (
    compile_named,
    find_kernel,
    read_candidates,
    read_knobs,
    read_shape,
)
from kohakutpu.cli.options import machine_option
from kohakutpu.config import Machine

knob_option = click.option(
    "--knob", "-k", "knobs", multiple=True, metavar="NAME=VALUE", help="Set a knob; repeatable."
)


@click.command()
@click.argument("kernel")
@click.argument("shapes", nargs=-1, required=True)
@knob_option
@machine_option
def plan(kernel: str, shapes: tuple[str, ...], knobs: tuple[str, ...], machine: str | None) -> None:
    """Show how KERNEL is laid out on the machine for operands of SHAPES.

    KERNEL is one of kohakutpu.kernels, or FILE.py:name. A shape is 1024x1024, 16 or scalar.
    """
    compiled = compile_named(kernel, shapes, knobs, chosen(machine))
    click.echo(compiled.plan.pretty())


@click.command()
@click.argument("what", metavar="IMAGE|KERNEL")
@click.argument("shapes", nargs=-1)
@knob_option
@machine_option
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Also write the image file.")
def disasm(
    what: str,
    shapes: tuple[str, ...],
    knobs: tuple[str, ...],
    machine: str | None,
    output: Path | None,
) -> None:
    """Show the instructions of an image file, or of a kernel for operands of SHAPES.

    Source lines stand above what they became. `ktpu asm` reads the text back.
    """
    if shapes:
        image = compile_named(what, shapes, knobs, chosen(machine)).image
    else:
        if not Path(what).is_file():
            raise click.UsageError(
                f"{what} is no image file; give a kernel the shapes of its operands"
            )
        image = Image.from_bytes(Path(what).read_bytes())
    if output is not None:
        output.write_bytes(image.to_bytes())
    click.echo(listing(image), nl=False)


@click.command()
@click.argument("kernel")
@click.argument("shapes", nargs=-1, required=True)
@knob_option
@click.option(
    "--search",
    "-s",
    "searched",
    multiple=True,
    metavar="NAME=VALUE,VALUE...",
    help="A knob to search and what to try; those left open if there is none. Repeatable.",
)
@click.option("--tries", default=64, show_default=True, help="Choices to try at most.")
@click.option("--measure", metavar="DEVICE", help="Also run the best ones there.")
@machine_option
def tune(
    kernel: str,
    shapes: tuple[str, ...],
    knobs: tuple[str, ...],
    searched: tuple[str, ...],
    tries: int,
    measure: str | None,
    machine: str | None,
) -> None:
    """Search the knobs with which KERNEL is fastest for operands of SHAPES.

    KERNEL and SHAPES are those of `ktpu plan`. Estimates decide, or with --measure the cycles of
    a run, whose operands are zeros.
    """  # fmt: skip
    found = find_kernel(kernel)
    with device("golden", machine=chosen(machine)):
        specs = [read_shape(text) for text in shapes]
        operands = [api.zeros(spec.shape, dtype=spec.dtype) for spec in specs]
        values = {name: known for name, known in map(read_candidates, searched)}
        try:
            tuning = api.tune(
                found, *operands, search=values or None, tries=tries, measure=measure,
                **read_knobs(knobs),
            )  # fmt: skip
        except CallError as error:
            error.loc = None  # the call is the command line, not a line of a program
            raise
    click.echo(tuning.pretty())


def chosen(machine: str | None) -> Machine:
    """Return the machine that the option or the environment names."""
    return find_machine(machine or os.environ.get("KTPU_MACHINE") or DEFAULT_MACHINE)
