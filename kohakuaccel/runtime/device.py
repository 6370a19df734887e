"""What a device must do: hold memory, run programs that lie in it, and say what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Program:
    """One unit's program: `count` instruction words in memory from byte `address`."""

    node: int
    kind: str
    address: int
    count: int


@dataclass(frozen=True, slots=True)
class EngineReport:
    """Cycles an engine worked, and cycles it had work but waited."""

    busy: int = 0
    stalled: int = 0


@dataclass(frozen=True, slots=True)
class UnitReport:
    """What one unit counted in a run; `engines` by name."""

    node: int
    kind: str
    instructions: int
    engines: Mapping[str, EngineReport]


@dataclass(frozen=True, slots=True)
class Span:
    """An engine of a unit was busy with the instruction at `pc` from cycle `start` to `end`."""

    node: int
    engine: str
    pc: int
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a run counted.

    Attributes
    ----------
    cycles : int
        From start to the last unit's report.
    units : tuple of UnitReport
        One for each unit that had a program.
    macs : int
        Multiply-accumulates, padding included.
    memory_read, memory_written, noc : int
        Words read from memory, written to it, and carried by the network.
    timeline : tuple of Span
        What each engine did when, if the device was asked to keep it.
    """

    cycles: int = 0
    units: tuple[UnitReport, ...] = ()
    macs: int = 0
    memory_read: int = 0
    memory_written: int = 0
    noc: int = 0
    timeline: tuple[Span, ...] = ()

    @property
    def instructions(self) -> int:
        """Instructions executed by all units."""
        return sum(unit.instructions for unit in self.units)


class DeviceFault(RuntimeError):
    """A device stopped in the middle of a program.

    Attributes
    ----------
    unit : int
        Node of the unit.
    pc : int
        Index of the instruction in its program.
    cause : str
        The machine's name for what went wrong.
    detail : str
        One sentence with the numbers.
    numbers : dict
        The numbers by name.
    """

    def __init__(
        self,
        unit: int,
        pc: int,
        cause: str,
        detail: str,
        numbers: Mapping[str, int | str] | None = None,
    ) -> None:
        super().__init__(f"{cause} at unit {unit}, instruction {pc}: {detail}")
        self.unit = unit
        self.pc = pc
        self.cause = cause
        self.detail = detail
        self.numbers = dict(numbers or {})


@runtime_checkable
class KeepsTimeline(Protocol):
    """A device that can say what each engine did when.

    Attributes
    ----------
    timeline : bool
        Whether the reports of runs have one.
    """

    timeline: bool


class Device(Protocol):
    """A machine that runs images, wherever it is.

    Attributes
    ----------
    name : str
        What plays the machine.
    machine_hash : str
        The configuration; an image compiled for another one is refused.
    memory_bytes, granule : int
        Bytes of memory from address 0, and the multiple in which blocks of it are given out.
    memory_end : int
        Where memory ends: what lies behind `memory_bytes` belongs to the device.
    padding : int
        The byte that goes where nobody may look: a hostile device picks one that shows.
    """

    name: str
    machine_hash: str
    memory_bytes: int
    memory_end: int
    granule: int
    padding: int

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to memory from byte `address`."""
        ...

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return bytes of memory; what is returned may change with the next call."""
        ...

    def renew(self, address: int, rows: int, row_bytes: int, stride: int) -> None:
        """Memory has a new owner: `rows` rows of data, `stride` bytes apart, none written yet.

        A hostile device uses it to find reads of what nobody wrote; others do nothing.
        """
        ...

    def load(self, programs: Sequence[Program]) -> None:
        """Set the unit table: exactly these units take part in the next runs."""
        ...

    def run(self) -> Report:
        """Start every unit of the table and return when each has halted.

        Raises
        ------
        DeviceFault
            If the machine stopped; `reset` makes it usable again.
        """
        ...

    def reset(self) -> None:
        """Stop whatever runs and make the device ready; memory keeps its contents."""
        ...

    def close(self) -> None:
        """Give up the device's resources; no other method may be called afterwards."""
        ...


@dataclass
class EngineTotals:
    """Sums of :class:`EngineReport`."""

    busy: int = 0
    stalled: int = 0


@dataclass
class Totals:
    """Sums of reports since they were last cleared."""

    dispatches: int = 0
    instructions: int = 0
    cycles: int = 0
    macs: int = 0
    memory_read: int = 0
    memory_written: int = 0
    noc: int = 0
    engines: dict[str, EngineTotals] = field(default_factory=dict[str, EngineTotals])

    def clear(self) -> None:
        """Start again from zero."""
        self.__init__()

    def add(self, report: Report) -> None:
        """Count one run."""
        self.dispatches += 1
        self.instructions += report.instructions
        self.cycles += report.cycles
        self.macs += report.macs
        self.memory_read += report.memory_read
        self.memory_written += report.memory_written
        self.noc += report.noc
        for unit in report.units:
            for name, engine in unit.engines.items():
                total = self.engines.setdefault(name, EngineTotals())
                total.busy += engine.busy
                total.stalled += engine.stalled
