"""The golden machine: runs unit programs exactly as ``docs/machine.md`` says, to the bit."""

from kohakutpu.model.faults import Deadlock, Fault
from kohakutpu.model.machine import GoldenMachine
from kohakutpu.model.memory import Memory
from kohakutpu.model.program import Program
from kohakutpu.model.report import EngineReport, Report, Span, UnitReport

__all__ = [
    "Deadlock",
    "EngineReport",
    "Fault",
    "GoldenMachine",
    "Memory",
    "Program",
    "Report",
    "Span",
    "UnitReport",
]
