"""The golden machine as a device: in this process, exact to the bit, hostile on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kohakuaccel.runtime.device import (
    Bytes,
    DeviceFault,
    EngineReport,
    Program,
    Report,
    Span,
    UnitReport,
)
from kohakutpu.config import QUARTER_BYTES, WORD_BYTES, Machine
from kohakutpu.model import Fault, GoldenMachine
from kohakutpu.model import Program as ModelProgram
from kohakutpu.model import Report as ModelReport

NAN_BYTE = 0xFF  # a NaN as FP16 and as FP32


class GoldenDevice:
    """A golden machine behind the device protocol.

    Parameters
    ----------
    machine : Machine
        Its configuration.
    poison : bool
        Storage starts unwritten and reading it is a fault; rows are filled up with NaN.
    seed : int, optional
        Interleave the engines by chance, from this seed; cycles are then not counted.

    Attributes
    ----------
    padding : int
        The byte that rows are filled up with when they are uploaded.
    timeline : bool
        Whether reports have one; interleaving by chance leaves none.
    """

    name = "golden"
    granule = WORD_BYTES

    def __init__(self, machine: Machine, *, poison: bool = False, seed: int | None = None) -> None:
        self.machine_hash = machine.hash
        self.memory_bytes = self.memory_end = machine.dram_words * WORD_BYTES
        self.padding = NAN_BYTE if poison else 0
        self.timeline = False
        self._poison = poison
        self._machine = GoldenMachine(machine, poison=poison, seed=seed)
        self._programs: list[ModelProgram] = []

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to memory from byte `address`."""
        self._machine.memory.write(address, np.frombuffer(data, np.uint8))

    def read(self, address: int, nbytes: int) -> Bytes:
        """Return a view of memory, valid until the next call."""
        return self._machine.memory.view(address, nbytes).data

    def renew(self, address: int, rows: int, row_bytes: int, stride: int) -> None:
        """Mark memory as unwritten, if that is watched; what fills up its rows is NaN."""
        if not self._poison:
            return
        memory = self._machine.memory
        data = -(-row_bytes // QUARTER_BYTES) * QUARTER_BYTES
        memory.poison(address, rows * stride)
        if data < stride:
            fill = np.full(stride - data, NAN_BYTE, np.uint8)
            for row in range(rows):
                memory.write(address + row * stride + data, fill)

    def load(self, programs: Sequence[Program]) -> None:
        """Set the unit table."""
        self._programs = [ModelProgram(p.node, p.kind, p.address, p.count) for p in programs]

    def run(self) -> Report:
        """Run the programs of the unit table.

        Raises
        ------
        DeviceFault
            If the machine stopped.
        """
        try:
            return summary(self._machine.run(self._programs, timeline=self.timeline))
        except Fault as fault:
            raise DeviceFault(
                fault.node, fault.pc, fault.cause, fault.message, fault.numbers
            ) from fault

    def reset(self) -> None:
        """Bring the units to their starting state; memory stays."""
        self._machine.reset()

    def close(self) -> None:
        """Give the memory back to the host."""
        del self._machine


def summary(report: ModelReport) -> Report:
    """Return what the framework keeps of a report of the golden machine."""
    return Report(
        cycles=report.cycles,
        units=tuple(
            UnitReport(
                unit.node,
                unit.kind,
                unit.instructions,
                {e.name: EngineReport(e.busy, e.stalled) for e in unit.engines},
            )
            for unit in report.units
        ),
        macs=report.macs,
        memory_read=report.read_words + report.fetched_words,
        memory_written=report.written_words,
        noc=report.noc_words,
        timeline=tuple(
            Span(s.node, s.engine, s.pc, s.name, s.start, s.end) for s in report.timeline
        ),
    )


def options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that environment variables set.

    Raises
    ------
    ValueError
        If one cannot be read; the message names it.
    """
    found: dict[str, Any] = {}
    poison = environment.get("KTPU_POISON", "")
    if poison not in ("", "0", "1"):
        raise ValueError(f"KTPU_POISON is 0 or 1, not {poison!r}")
    if poison == "1":
        found["poison"] = True
    seed = environment.get("KTPU_SEED", "")
    if seed:
        if not seed.isdecimal():
            raise ValueError(f"KTPU_SEED is a whole number, not {seed!r}")
        found["seed"] = int(seed)
    return found
