"""`ktpu asm`: assembly text to an image file.

The text is one section a unit, ``.unit NODE KIND`` and then instructions. Addresses are absolute:
an image made this way has no operands.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from kohakuaccel.image import Image, UnitProgram
from kohakuaccel.isa import AssemblyError
from kohakutpu import isa
from kohakutpu.cli.inspection import chosen
from kohakutpu.cli.options import machine_option
from kohakutpu.config import Machine

SECTION = re.compile(r"\s*\.unit\s+(?P<node>\d+)\s+(?P<kind>\w+)\s*(?:#.*)?")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path))
@machine_option
def asm(file: Path, output: Path, machine: str | None) -> None:
    """Assemble FILE into an image."""
    image = assemble(file.read_text(), chosen(machine))
    output.write_bytes(image.to_bytes())
    words = sum(len(unit.words) for unit in image.units) // 32
    click.echo(f"{output}: {len(image.units)} units, {words} instructions")


def assemble(text: str, machine: Machine) -> Image:
    """Return the image that the assembly `text` of all units states.

    Raises
    ------
    AssemblyError
        At the first line that cannot be read, or names a unit the machine does not have.
    """
    kinds = {node.id: node.kind for node in machine.nodes if node.kind in "CV"}
    sections: dict[int, list[str]] = {}
    current: list[str] | None = None
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        match = SECTION.fullmatch(line.rstrip("\r"))
        if match is not None:
            node = int(match["node"])
            if kinds.get(node) != match["kind"]:
                there = ", ".join(f"{n} {kind}" for n, kind in kinds.items())
                raise AssemblyError(
                    number, 1, line, f"no such unit on {machine.name}; its units are {there}"
                )
            if node in sections:
                raise AssemblyError(number, 1, line, f"unit {node} has a section already")
            # Blank lines in front keep the line numbers of messages true.
            current = sections[node] = [""] * number
        elif current is not None:
            current.append(line)
        elif line.split("#")[0].split("//")[0].strip():
            raise AssemblyError(number, 1, line, "expected .unit NODE KIND before instructions")
    if not sections:
        raise AssemblyError(len(lines), 1, "", "no .unit section: nothing to assemble")
    units = [
        UnitProgram(
            node,
            kinds[node],
            b"".join(isa.encode(i) for i in isa.assemble("\n".join(section), kinds[node])),
        )
        for node, section in sections.items()
    ]
    return Image(machine.hash, tuple(units))
