"""An image as assembly text, with its operands and the lines of the kernel."""

from __future__ import annotations

import os

from kohakuaccel.image import WORD_BYTES, Image
from kohakutpu import isa


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
