"""The ISA toolkit: from one record an instruction to words, assembly and a reference page.

A machine states its records; see `Record`. Nothing here knows a machine.
"""

from kohakuaccel.isa.composite import Slots, Struct, Union
from kohakuaccel.isa.errors import (
    AssemblyError,
    EncodingError,
    IllegalInstruction,
    TableError,
    Unfit,
)
from kohakuaccel.isa.instruction_set import InstructionSet, encode
from kohakuaccel.isa.record import REQUIRED, Check, Format, Instruction, Operand, Record
from kohakuaccel.isa.types import (
    BitSet,
    Boolean,
    Enumeration,
    Field,
    Modular,
    OperandType,
    Unsigned,
    read_integer,
)

__all__ = [
    "REQUIRED",
    "AssemblyError",
    "BitSet",
    "Boolean",
    "Check",
    "EncodingError",
    "Enumeration",
    "Field",
    "Format",
    "IllegalInstruction",
    "Instruction",
    "InstructionSet",
    "Modular",
    "Operand",
    "OperandType",
    "Record",
    "Slots",
    "Struct",
    "TableError",
    "Unfit",
    "Union",
    "Unsigned",
    "encode",
    "read_integer",
]
