"""Gather the programs of all units into an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.passes.roll import Line
from kohakuaccel.image import DebugEntry, Image, OperandInfo, Relocation, UnitProgram
from kohakutpu import isa
from kohakutpu.config import Machine


def encode(
    programs: Sequence[tuple[int, str, Sequence[Line]]],
    operands: Sequence[OperandInfo],
    data: bytes,
    machine: Machine,
    meta: Mapping[str, str],
) -> Image:
    """Return the image of ``(node, kind, lines)`` programs, in the order of the unit table."""
    units: list[UnitProgram] = []
    relocations: list[Relocation] = []
    debug: list[DebugEntry] = []
    for unit, (node, kind, lines) in enumerate(programs):
        words: list[bytes] = []
        said: tuple[object, ...] | None = None
        for pc, line in enumerate(lines):
            words.append(isa.encode(line.instruction))
            if line.operand is not None:
                relocations.append(Relocation(unit, pc, line.operand))
            if line.loc is not None and (line.loc, line.statement) != said:
                loc = line.loc
                debug.append(DebugEntry(unit, pc, loc.file, loc.line, loc.function, line.statement))
                said = (loc, line.statement)
        units.append(UnitProgram(node, kind, b"".join(words)))
    return Image(
        machine_hash=machine.hash,
        units=tuple(units),
        data=data,
        operands=tuple(operands),
        relocations=tuple(relocations),
        debug=tuple(debug),
        meta=meta,
    )
