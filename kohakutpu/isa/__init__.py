"""The instructions of this machine: values, records, words, assembly, reference.

Call a record (`FILL(...)`) to make an instruction; `encode` and `decode` lead to words and back.
"""

from kohakuaccel.isa import (
    AssemblyError,
    EncodingError,
    IllegalInstruction,
    Instruction,
    Record,
    encode,
)
from kohakutpu.isa.cluster import DRAIN, FILL, GEMM
from kohakutpu.isa.control import ADDA, BARRIER, END, HALT, LOOP, SETA, SYNC
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
    "decode",
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
