"""The instructions of this machine: values, records, words, assembly, reference.

Call a record (`FILL(...)`) to make an instruction; `encode` and `decode` lead to words and back.
"""

from collections.abc import Iterable, Mapping

from kohakuaccel.isa import (
    AssemblyError,
    EncodingError,
    IllegalInstruction,
    Instruction,
    Record,
    assembler,
    encode,
)
from kohakutpu.isa.cluster import DRAIN, FILL, GEMM
from kohakutpu.isa.control import ADDA, BARRIER, END, HALT, LOOP, SETA, SYNC
from kohakutpu.isa.document import document
from kohakutpu.isa.relocation import patch
from kohakutpu.isa.sets import of_kind
from kohakutpu.isa.values import Address, Destination, Extent, Flag, Post, Source, Wait
from kohakutpu.isa.vector import EXEC, VDRAIN, VFILL

__all__ = [
    "ADDA",
    "BARRIER",
    "DRAIN",
    "END",
    "EXEC",
    "FILL",
    "GEMM",
    "HALT",
    "LOOP",
    "SETA",
    "SYNC",
    "VDRAIN",
    "VFILL",
    "Address",
    "AssemblyError",
    "Destination",
    "EncodingError",
    "Extent",
    "Flag",
    "IllegalInstruction",
    "Instruction",
    "Post",
    "Record",
    "Source",
    "Wait",
    "assemble",
    "decode",
    "disassemble",
    "document",
    "encode",
    "patch",
    "records",
]


def decode(unit_kind: str, word: bytes) -> Instruction:
    """Return the instruction that a 32-byte word is for a unit of kind ``"C"`` or ``"V"``.

    Raises
    ------
    IllegalInstruction
        If it is none.
    """
    return of_kind(unit_kind).decode(word)


def records(unit_kind: str) -> tuple[Record, ...]:
    """Return the records that a unit of kind ``"C"`` or ``"V"`` executes, control first."""
    return of_kind(unit_kind).records


def assemble(text: str, unit_kind: str) -> list[Instruction]:
    """Return the instructions that assembly `text` states for a unit of kind ``"C"`` or ``"V"``.

    Raises
    ------
    AssemblyError
        At the first line that cannot be read.
    """
    return assembler.assemble(text, of_kind(unit_kind))


def disassemble(
    instructions: Iterable[Instruction], comments: Mapping[int, str] | None = None
) -> str:
    """Return assembly text; `comments` go before the instruction of their index."""
    return assembler.disassemble(instructions, comments)
