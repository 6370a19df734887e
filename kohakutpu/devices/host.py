"""What a host does with hardware, wherever it is: unit table, go, wait, read what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kohakuaccel.runtime.device import DeviceFault, EngineReport, Program, Report, UnitReport
from kohakutpu import control, isa
from kohakutpu.config import KBLOCK, LANES, WORD_BYTES, Machine
from kohakutpu.control import CAUSES, IDENTITY, TABLE_WORDS, VERSION, Command, Register, Status

__all__ = ["FOREVER", "TABLE_WORDS", "Host", "Outcome", "Target", "expect", "summary"]

ENTRY_PAIR = LANES * LANES * KBLOCK  # multiply-accumulates of one step of GEMM
FOREVER = 1 << 62
"""Cycles, as a limit of none."""


class Target(Protocol):
    """Hardware as its host reaches it."""

    @property
    def memory_words(self) -> int:
        """Words of memory."""
        ...

    @property
    def interrupt(self) -> bool:
        """Whether the run is over."""
        ...

    def read(self, register: int, /) -> int:
        """Return a register."""
        ...

    def write(self, register: int, value: int, /) -> None:
        """Write a register."""
        ...

    def store(self, address: int, data: bytes, /) -> None:
        """Write whole words of memory from a byte address."""
        ...

    def run(self, cycles: int, /) -> int:
        """Let time pass, for so many cycles at most; return how many have passed."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    cycles : int
        From GO, the table read, until the last unit reported.
    fault : tuple of (int, int, str) or None
        Unit, pc and cause.
    counters : dict of int to dict of str to int
        By node, then by name (`kohakutpu.control.COUNTER_NAMES`); empty after a fault.
    stopped : bool
        It was told to, at its limit of cycles.
    """

    cycles: int
    fault: tuple[int, int, str] | None
    counters: dict[int, dict[str, int]]
    stopped: bool = False


class Host:
    """Runs unit programs on hardware.

    Parameters
    ----------
    machine : Machine
        The configuration it must have.
    target : Target
        What runs.
    watchdog : int, optional
        Cycles without progress that end a run; the hardware's default when left out.
    table : int, optional
        Word of memory where the unit table goes; the last `TABLE_WORDS` when left out.

    Raises
    ------
    RuntimeError
        If the hardware is of another configuration or version.
    """

    def __init__(
        self,
        machine: Machine,
        target: Target,
        watchdog: int | None = None,
        table: int | None = None,
    ) -> None:
        self.target = target
        self._table = target.memory_words - TABLE_WORDS if table is None else table
        self._watchdog = watchdog
        self._units = [node.id for node in machine.nodes if node.kind in "CV"]
        identity, version = (target.read(r) for r in (Register.IDENTITY, Register.VERSION))
        if (identity, version) != (IDENTITY, VERSION):
            raise RuntimeError(
                f"identity {identity:#x} and version {version} answer; a machine of version "
                f"{VERSION} has {IDENTITY:#x}"
            )
        found = target.read(Register.HASH_LOW) | target.read(Register.HASH_HIGH) << 32
        if found != int(machine.hash, 16):
            raise RuntimeError(
                f"the hardware is of configuration {found:016x}; {machine.name} is {machine.hash}"
            )
        self.configure()

    def configure(self) -> None:
        """Set the registers that a reset has cleared."""
        if self._watchdog is not None:
            self.target.write(Register.WATCHDOG, self._watchdog)

    def run(
        self,
        programs: Sequence[tuple[int, int, int]],
        progress: Callable[[int], None] = lambda cycles: None,
        limit: int = FOREVER,
    ) -> Outcome:
        """Run to the end.

        Parameters
        ----------
        programs : sequence of (int, int, int)
            The unit table: node, byte address, instruction words.
        progress : callable
            Is told now and then how many cycles have passed.
        limit : int
            Cycles after which the machine is told to stop.
        """
        target = self.target
        target.store(self._table * WORD_BYTES, control.unit_table(programs))
        target.write(Register.TABLE, self._table)
        target.write(Register.UNITS, len(programs))
        target.write(Register.COMMAND, Command.GO)
        total, stopped = 0, False
        while not target.interrupt:
            total += target.run(limit - total)
            progress(total)
            if total >= limit and not target.interrupt:
                target.write(Register.COMMAND, Command.STOP)
                stopped, limit = True, FOREVER
        return self._outcome(stopped)

    def _outcome(self, stopped: bool) -> Outcome:
        read = self.target.read
        cycles = read(Register.CYCLES_LOW) | read(Register.CYCLES_HIGH) << 32
        if read(Register.STATUS) & Status.FAULT:
            return Outcome(cycles, control.fault(read(Register.FAULT)), {}, stopped)
        counters = {node: control.counters(node, read) for node in self._units}
        return Outcome(cycles, None, counters, stopped)


def expect(outcome: Outcome, watchdog: int, limit: int) -> None:
    """Raise what a run ended with, if it did not end well.

    Raises
    ------
    DeviceFault
        With the unit, the instruction and the cause.
    """
    if outcome.fault is None:
        return
    unit, pc, cause = outcome.fault
    detail = CAUSES[cause]
    if outcome.stopped:
        detail = f"stopped after {limit:,} cycles, the limit"
    elif cause == "WATCHDOG":
        detail = f"nobody made progress for {watchdog:,} cycles"
    raise DeviceFault(unit, pc, cause, detail, {"cycles": outcome.cycles})


def summary(outcome: Outcome, programs: Sequence[Program]) -> Report:
    """Return what the framework keeps of a run that ended well."""
    counters = outcome.counters
    units: list[UnitReport] = []
    for program in programs:
        counted = counters[program.node]
        engines = {
            name: EngineReport(counted[f"busy_{n}"], counted[f"stalled_{n}"])
            for n, name in enumerate(_engines(program.kind))
        }
        units.append(UnitReport(program.node, program.kind, counted["instructions"], engines))
    every = list(counters.values())
    return Report(
        cycles=outcome.cycles,
        units=tuple(units),
        macs=ENTRY_PAIR * sum(counters[p.node]["steps_1"] for p in programs if p.kind == "C"),
        memory_read=sum(unit["read"] + unit["fetched"] for unit in every),
        memory_written=sum(unit["written"] for unit in every),
        noc=sum(unit["read"] + unit["written"] + unit["sent"] for unit in every),
    )


def _engines(kind: str) -> list[str]:
    """Return the names of a unit's engines, in order."""
    names = {record.engine: record.name for record in isa.records(kind)}
    return [names[index] for index in range(3)]
