"""The two instruction sets, by the letter of the unit in the machine's picture."""

from __future__ import annotations

from kohakuaccel.isa import InstructionSet
from kohakutpu.isa import cluster, control, vector

SETS = {
    "C": InstructionSet("C", "Cluster", control.RECORDS + cluster.RECORDS),
    "V": InstructionSet("V", "Vector core", control.RECORDS + vector.RECORDS),
}


def of_kind(kind: str) -> InstructionSet:
    """Return the instruction set of unit kind ``"C"`` or ``"V"``.

    Raises
    ------
    ValueError
        If units of that kind run no programs.
    """
    try:
        return SETS[kind]
    except KeyError:
        raise ValueError(f"unit kind must be 'C' or 'V', not {kind!r}") from None
