"""What a host does: the unit table into memory, go, wait, and read what happened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hw.common.counters import NAMES, PER_WORD, REPORTS
from hw.control.node import Entry
from hw.control.registers import COUNTERS, IDENTITY, VERSION, FaultReport, Register, Status
from hw.noc.flit import Cause
from hw.sim.machine import SimulatedMachine
from kohakutpu.config import MAX_NODES, QUARTER_BYTES, WORD_BYTES, Machine

TABLE_WORDS = MAX_NODES
"""Words at the end of memory that are the host's: the unit table."""

CHUNK = 1 << 14
"""Cycles between two looks at the clock and at Ctrl-C: some tenths of a second."""

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
    """

    cycles: int
    fault: tuple[int, int, str] | None
    counters: dict[int, dict[str, int]]


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

    Raises
    ------
    RuntimeError
        If the hardware is of another configuration or version.
    """

    def __init__(
        self, machine: Machine, simulated: SimulatedMachine, watchdog: int | None = None
    ) -> None:
        self.simulated = simulated
        self._units = [node.id for node in machine.nodes if node.kind in "CV"]
        found = [simulated.read(register) for register in (Register.IDENTITY, Register.VERSION)]
        found.append(simulated.read(Register.HASH_LOW) | simulated.read(Register.HASH_HIGH) << 32)
        wanted = [IDENTITY, VERSION, int(machine.hash, 16)]
        if found != wanted:
            raise RuntimeError(f"the hardware says it is {found}, and {wanted} is wanted")
        if watchdog is not None:
            simulated.write(Register.WATCHDOG, watchdog)

    def run(
        self, programs: Sequence[Program], progress: Callable[[int], None] = lambda cycles: None
    ) -> Outcome:
        """Run to the end.

        Parameters
        ----------
        programs : sequence of Program
            The unit table.
        progress : callable
            Is told now and then how many cycles have passed.
        """
        simulated = self.simulated
        table = simulated.memory.size // WORD_BYTES - TABLE_WORDS
        for index, (node, address, count) in enumerate(programs):
            entry = Entry.const(
                {"address": address // QUARTER_BYTES, "instructions": count, "node": node}
            )
            start = (table + index) * WORD_BYTES
            word = entry.as_bits().to_bytes(WORD_BYTES, "little")
            simulated.memory[start : start + WORD_BYTES] = list(word)
        simulated.write(Register.TABLE, table)
        simulated.write(Register.UNITS, len(programs))
        simulated.write(Register.COMMAND, 1)
        total = 0
        while not simulated.interrupt:
            total += simulated.run(CHUNK)
            progress(total)
        return self._outcome()

    def _outcome(self) -> Outcome:
        read = self.simulated.read
        cycles = read(Register.CYCLES_LOW) | read(Register.CYCLES_HIGH) << 32
        if Status.from_bits(read(Register.STATUS)).fault:
            fault = FaultReport.from_bits(read(Register.FAULT))
            return Outcome(cycles, (fault.unit, fault.pc, Cause(fault.cause).name), {})
        counters = {
            node: {
                name: read(COUNTERS + 4 * (node * REPORTS * PER_WORD + index))
                for index, name in enumerate(NAMES)
            }
            for node in self._units
        }
        return Outcome(cycles, None, counters)
