"""What a host does: the unit table into memory, go, wait, and read what happened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hw.common.counters import NAMES, PER_WORD, REPORTS
from hw.control.node import Entry
from hw.control.registers import COUNTERS, IDENTITY, VERSION, FaultReport, Register, Status
from hw.noc.flit import Cause
from hw.sim.machine import SimulatedMachine
from kohakutpu.config import MAX_NODES, QUARTER_BYTES, WORD_BYTES, Machine

TABLE_WORDS = MAX_NODES
"""Words at the end of memory that are the host's: the unit table."""

FOREVER = 1 << 62
"""Cycles, as a limit of none."""

Program = tuple[int, int, int]
"""Node, byte address, instruction words."""


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
        By node, then by name (`hw.common.counters.NAMES`); empty after a fault.
    stopped : bool
        It was told to, at its limit of cycles.
    """

    cycles: int
    fault: tuple[int, int, str] | None
    counters: dict[int, dict[str, int]]
    stopped: bool = False


def unit_table(programs: Sequence[Program]) -> bytes:
    """Return the unit table as it lies in memory."""
    entries = (
        Entry.const({"address": address // QUARTER_BYTES, "instructions": count, "node": node})
        for node, address, count in programs
    )
    return b"".join(entry.as_bits().to_bytes(WORD_BYTES, "little") for entry in entries)


class Host:
    """Runs unit programs on a simulated machine.

    Parameters
    ----------
    machine : Machine
        The configuration it must have.
    simulated : SimulatedMachine
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
        simulated: SimulatedMachine,
        watchdog: int | None = None,
        table: int | None = None,
    ) -> None:
        self.simulated = simulated
        last = simulated.memory.size // WORD_BYTES - TABLE_WORDS
        self._table = last if table is None else table
        self._watchdog = watchdog
        self._units = [node.id for node in machine.nodes if node.kind in "CV"]
        found = [simulated.read(register) for register in (Register.IDENTITY, Register.VERSION)]
        found.append(simulated.read(Register.HASH_LOW) | simulated.read(Register.HASH_HIGH) << 32)
        wanted = [IDENTITY, VERSION, int(machine.hash, 16)]
        if found != wanted:
            raise RuntimeError(f"the hardware says it is {found}, and {wanted} is wanted")
        self.configure()

    def configure(self) -> None:
        """Set the registers that a reset has cleared."""
        if self._watchdog is not None:
            self.simulated.write(Register.WATCHDOG, self._watchdog)

    def run(
        self,
        programs: Sequence[Program],
        progress: Callable[[int], None] = lambda cycles: None,
        limit: int = FOREVER,
    ) -> Outcome:
        """Run to the end.

        Parameters
        ----------
        programs : sequence of Program
            The unit table.
        progress : callable
            Is told now and then how many cycles have passed.
        limit : int
            Cycles after which the machine is told to stop.
        """
        simulated = self.simulated
        table = self._table
        entries = np.frombuffer(unit_table(programs), np.uint8)
        simulated.memory[table * WORD_BYTES :][: entries.size] = entries
        simulated.write(Register.TABLE, table)
        simulated.write(Register.UNITS, len(programs))
        simulated.write(Register.COMMAND, 1)
        total, stopped = 0, False
        while not simulated.interrupt:
            total += simulated.run(limit - total)
            progress(total)
            if total >= limit and not simulated.interrupt:
                simulated.write(Register.COMMAND, 2)
                stopped, limit = True, FOREVER
        return self._outcome(stopped)

    def _outcome(self, stopped: bool) -> Outcome:
        read = self.simulated.read
        cycles = read(Register.CYCLES_LOW) | read(Register.CYCLES_HIGH) << 32
        if Status.from_bits(read(Register.STATUS)).fault:
            fault = FaultReport.from_bits(read(Register.FAULT))
            return Outcome(cycles, (fault.unit, fault.pc, Cause(fault.cause).name), {}, stopped)
        counters = {
            node: {
                name: read(COUNTERS + 4 * (node * REPORTS * PER_WORD + index))
                for index, name in enumerate(NAMES)
            }
            for node in self._units
        }
        return Outcome(cycles, None, counters)
