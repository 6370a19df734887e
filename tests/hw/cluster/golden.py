"""The golden machine's units without front ends: one cluster's instructions, in turn."""

from typing import Any

import numpy as np

from kohakutpu.config import Machine
from kohakutpu.model import GoldenMachine
from kohakutpu.model.cluster import Drain, Fill, Gemm
from kohakutpu.model.faults import Violation
from kohakutpu.model.unit import Unit

OPERATIONS = (Fill, Gemm, Drain)
REGISTERS = [0] * 16


class Golden:
    """Runs instructions of one cluster, at once.

    Attributes
    ----------
    units : dict of int to Unit
        All units by node.
    """

    def __init__(self, machine: Machine, node: int, memory: bytes) -> None:
        self._machine, self._node = machine, node
        golden = GoldenMachine(machine, fast=False)
        golden.memory.write(0, memory)
        self._memory = golden.memory
        self.units: dict[int, Unit] = golden._network

    def run(self, instruction: Any) -> str:
        """Return the cause of the fault, or nothing."""
        try:
            operation = OPERATIONS[instruction.engine](instruction, self._machine)
            operation.run(self.units[self._node], operation.resolve(REGISTERS))
        except Violation as violation:
            return violation.cause
        return ""

    @property
    def memory(self) -> bytes:
        return self._memory.read(0, 32 * self._machine.dram_words).tobytes()

    def word(self, node: int, address: int) -> int:
        """Return a word of a vector core's L1."""
        raw = np.asarray(self.units[node].l1.raw).reshape(-1).view(np.uint8)
        return int.from_bytes(raw[32 * address : 32 * address + 32].tobytes(), "little")

    def entries(self, node: int, in_b: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return elements and scales of another cluster's L1."""
        unit = self.units[node]
        entries = unit.l1b if in_b else unit.l1a
        return entries.elements.view(np.uint8), entries.scales
