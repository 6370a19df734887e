"""From a unit, a program counter and a cause to the line of the kernel."""

from __future__ import annotations

from kohakuaccel.errors import Diagnostic, Note
from kohakuaccel.image import WORD_BYTES, Image
from kohakuaccel.runtime.device import DeviceFault
from kohakuaccel.source import Location
from kohakutpu import isa

NAMES = {"C": "cluster", "V": "vector core"}
FIXES = {
    "UNWRITTEN": "write it before it is read: a temporary, or a tensor nobody filled",
    "WATCHDOG": "see who waits for what above; a semaphore lacks its post",
    "MEMORY": "an address left the memory: check sizes and strides of the operands",
}


class MachineFault(Diagnostic):
    """The machine stopped in the middle of a kernel; the device is usable again.

    Attributes
    ----------
    unit, pc : int
        Node of the unit, and index of the instruction in its program.
    cause : str
        As in the table of faults in ``docs/machine.md``.
    numbers : dict
        What was compared, by name.
    """

    def __init__(
        self, fault: DeviceFault, message: str, loc: Location | None, notes: list[Note]
    ) -> None:
        super().__init__(
            message,
            loc=loc,
            fix=FIXES.get(
                fault.cause,
                "compiled kernels should not fault: report it with this text; a hand-written "
                "program should be corrected at this instruction",
            ),
            notes=notes,
        )
        self.unit = fault.unit
        self.pc = fault.pc
        self.cause = fault.cause
        self.numbers = fault.numbers


def explain(image: Image, fault: DeviceFault) -> MachineFault:
    """Return `fault` as what people see: the unit, the instruction, and the line it came from."""
    index = next((i for i, unit in enumerate(image.units) if unit.node == fault.unit), None)
    if index is None:  # the control node stopped the run
        return MachineFault(fault, f"{fault.cause}: {fault.detail}", None, [])
    unit = image.units[index]
    name = f"{NAMES.get(unit.kind, unit.kind)} {unit.node}"
    message = f"{fault.cause} in {name}, instruction {fault.pc}: {fault.detail}"
    word = unit.words[fault.pc * WORD_BYTES : (fault.pc + 1) * WORD_BYTES]
    if not word:
        text = "past the end of the program"
    else:
        try:
            text = isa.disassemble([isa.decode(unit.kind, word)]).strip()
        except isa.IllegalInstruction as error:
            text = f"no instruction: {word.hex()} ({error.reason})"
    notes: list[Note] = [(None, f"instruction {fault.pc} is: {text}")]
    entry = image.locate(index, fault.pc) if word else None
    loc = None
    if entry is not None:
        loc = Location(entry.file, entry.line, function=entry.function)
        if entry.statement:
            notes.append((None, f"it is part of: {entry.statement}"))
    if fault.numbers:
        numbers = ", ".join(f"{key} {value}" for key, value in fault.numbers.items())
        notes.append((None, numbers))
    return MachineFault(fault, message, loc, notes)
