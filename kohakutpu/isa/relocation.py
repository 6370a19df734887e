"""Putting the addresses of a launch's buffers into a program."""

from __future__ import annotations

from collections.abc import Sequence

from kohakuaccel.image import Image, ImageError
from kohakuaccel.isa import encode
from kohakutpu.config import ADDRESS_BITS, QUARTER_BYTES, WORD_BYTES
from kohakutpu.isa.control import SETA
from kohakutpu.isa.sets import of_kind


def patch(image: Image, bases: Sequence[int]) -> list[bytes]:
    """Return the words of every unit with the base of each operand added where it is wanted.

    Parameters
    ----------
    image : Image
        The program.
    bases : sequence of int
        Byte address of each operand, whole quarters; what a `FILL` reads starts on a word.

    Returns
    -------
    list of bytes
        Program words, in the order of the unit table.

    Raises
    ------
    ValueError
        If `bases` are not one quarter-aligned address an operand.
    ImageError
        If a relocation is not at a `SETA`.
    """
    if len(bases) != len(image.operands):
        raise ValueError(f"{len(image.operands)} operands need as many bases, not {len(bases)}")
    for operand, base in zip(image.operands, bases, strict=True):
        if base % QUARTER_BYTES or not 0 <= base < QUARTER_BYTES << ADDRESS_BITS:
            raise ValueError(f"operand {operand.name!r}: {base:#x} is not the address of a quarter")
    programs = [bytearray(unit.words) for unit in image.units]
    for relocation in image.relocations:
        program = programs[relocation.unit]
        place = slice(WORD_BYTES * relocation.pc, WORD_BYTES * (relocation.pc + 1))
        kind = image.units[relocation.unit].kind
        instruction = of_kind(kind).decode(bytes(program[place]))
        if instruction.record is not SETA:
            raise ImageError(f"{relocation} is at {instruction!r}, not at a SETA")
        imm = instruction.imm + bases[relocation.operand] // QUARTER_BYTES
        program[place] = encode(instruction.replace(imm=imm % (1 << ADDRESS_BITS)))
    return [bytes(program) for program in programs]
