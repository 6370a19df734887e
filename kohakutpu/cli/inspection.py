"""`ktpu plan` and `ktpu disasm`: what a kernel compiles to, without running it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kohakuaccel.image import WORD_BYTES, Image
from kohakutpu import isa
from kohakutpu.api.session import DEFAULT_MACHINE, find_machine
from kohakutpu.cli.kernels import compile_named
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


def chosen(machine: str | None) -> Machine:
    """Return the machine that the option or the environment names."""
    return find_machine(machine or os.environ.get("KTPU_MACHINE") or DEFAULT_MACHINE)


def listing(image: Image) -> str:
    """Return the assembly text of an image, with its operands and the kernel's lines."""
    lines = [f"# machine {image.machine_hash}\n"]
    for key, value in sorted(image.meta.items()):
        lines.append(f"# {key}: {value}\n")
    for number, operand in enumerate(image.operands):
        lines.append(f"# operand {number}: {operand.kind} {operand.name}, {operand.nbytes} bytes\n")
    for index, unit in enumerate(image.units):
        comments = {
            entry.pc: f"{os.path.relpath(entry.file)}:{entry.line}: {entry.statement}"
            for entry in image.debug
            if entry.unit == index
        }
        for place in image.relocations:
            if place.unit == index:
                note = f"adds the address of {image.operands[place.operand].name}"
                comments[place.pc] = "\n".join(filter(None, (comments.get(place.pc), note)))
        words = unit.words
        program = [
            isa.decode(unit.kind, words[start : start + WORD_BYTES])
            for start in range(0, len(words), WORD_BYTES)
        ]
        lines.append(f"\n.unit {unit.node} {unit.kind}\n")
        lines.append(isa.disassemble(program, comments))
    return "".join(lines)
