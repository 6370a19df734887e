"""The golden machine: unit programs in, bits and counters out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.model.adversary import Adversary
from kohakutpu.model.memory import Memory
from kohakutpu.model.pending import PendingMemory
from kohakutpu.model.program import Program, steps
from kohakutpu.model.report import Report, Span, collect
from kohakutpu.model.timing import Timing
from kohakutpu.model.unit import Shortcuts, Unit


class GoldenMachine:
    """A machine of a given configuration, in numpy, equal to the hardware to the bit.

    Parameters
    ----------
    machine : Machine
        The configuration.
    poison : bool
        L1s, accumulators, registers and memory start unwritten at every run (memory: at the
        start), and reading what nobody has written is the fault ``UNWRITTEN``.
    seed : int, optional
        Interleave the engines by an adversary with this seed instead of by time.
    memory_words : int, optional
        Words of memory; as configured by default.
    fast : bool
        Take the shortcuts (memoised operands, tables of functions of FP16 codes). They change no
        bit; False is for the tests that show it.

    Attributes
    ----------
    memory : Memory
        What the host reads and writes; it survives runs and faults.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        poison: bool = False,
        seed: int | None = None,
        memory_words: int | None = None,
        fast: bool = True,
    ) -> None:
        self.machine = machine
        self.seed = seed
        words = machine.dram_words if memory_words is None else memory_words
        self.memory: Memory = (PendingMemory if fast else Memory)(words, poison)
        self._shortcuts = Shortcuts() if fast else None
        self._network: dict[int, Unit] = {
            node.id: Unit(node, machine, self.memory, poison=poison, shortcuts=self._shortcuts)
            for node in machine.nodes
            if node.kind in "CV"
        }
        for unit in self._network.values():
            unit.network = self._network

    def reset(self) -> None:
        """Bring the units to their starting state; memory stays."""
        for unit in self._network.values():
            unit.reset()

    def run(
        self,
        programs: Sequence[Program],
        *,
        timing: bool = True,
        max_instructions: int | None = None,
        timeline: bool = False,
    ) -> Report:
        """Run unit programs until every unit has halted.

        Parameters
        ----------
        programs : sequence of Program
            The unit table: one program a unit, its words in memory.
        timing : bool
            Report cycles; without, they are 0.
        max_instructions : int, optional
            Stop a unit that takes more instructions than this.
        timeline : bool
            Report a `Span` for each engine instruction.

        Returns
        -------
        Report
            Cycles and counters.

        Raises
        ------
        Fault
            The first fault of a unit; `Deadlock` if nobody can proceed.
        ValueError
            If the unit table is wrong: a node twice or of another kind, no program, words that
            are not in memory.
        """
        self.reset()
        if self._shortcuts is not None:
            self._shortcuts.loader.reset()
        units = [self._load(program) for program in programs]
        if len({unit.node for unit in units}) != len(units) or not units:
            raise ValueError(f"a unit table names each unit once, not {[u.node for u in units]}")
        limit = sys.maxsize if max_instructions is None else max_instructions
        spans: list[Span] = []
        with np.errstate(all="ignore"):
            try:
                if self.seed is not None:
                    Adversary(units, self._network, seed=self.seed, limit=limit).run()
                    cycles = 0
                else:
                    schedule = Timing(units, self._network, timeline=timeline, limit=limit)
                    cycles = schedule.run()
                    spans = schedule.timeline
            finally:  # after a fault, memory shows all that was written before it
                self.memory.flush()
        return collect(units, cycles, spans, timing and self.seed is None)

    def _load(self, program: Program) -> Unit:
        unit = self._network.get(program.node)
        if unit is None or unit.kind != program.kind:
            there = {node: unit.kind for node, unit in sorted(self._network.items())}
            raise ValueError(
                f"node {program.node} is no unit of kind {program.kind!r}; units are {there}"
            )
        if program.address % WORD_BYTES or program.count < 1:
            raise ValueError(
                f"a program is one or more words at a multiple of {WORD_BYTES} bytes, not "
                f"{program.count} at {program.address}"
            )
        words = self.memory.view(program.address, program.count * WORD_BYTES).tobytes()
        unit.steps = steps(words, unit.kind, self.machine)
        unit.fetched = program.count
        return unit
