"""A unit: its storages, its engines' operations, what its front end has got to."""

from __future__ import annotations

from collections import deque
from typing import Any

from kohakutpu.config import ADDRESS_REGISTERS, LANES, SEMAPHORES, Machine, Node
from kohakutpu.conformance.reference.storage import Block, Store
from kohakutpu.conformance.reference.values import Resolved

Entry = tuple[Block | None, ...]
SubTile = tuple[int, ...]


class Cluster:
    """L1A, L1B and the accumulator of a cluster, and how many pairs of entries it multiplied."""

    def __init__(self, machine: Machine) -> None:
        self.l1: dict[str, Store[Entry]] = {
            "A": Store("L1A entry", machine.l1_entries),
            "B": Store("L1B entry", machine.l1_entries),
        }
        self.accumulator: Store[SubTile] = Store("accumulator sub-tile", machine.acc_subtiles)
        self.pairs = 0

    def write_lane(self, side: str, entry: int, lane: int, block: Block | None) -> None:
        """Set one lane of an entry; the others keep what they hold."""
        cells = list(self.l1[side].peek(entry) or [None] * LANES)
        cells[lane] = block
        self.l1[side].write(entry, tuple(cells))


class Core:
    """L1 (words) and register file (beats of FP32 codes) of a vector core."""

    def __init__(self, machine: Machine) -> None:
        self.lanes = machine.lanes
        self.l1: Store[bytes] = Store("vector L1 word", machine.vl1_words)
        self.registers: Store[tuple[int, ...]] = Store("register beat", machine.registers)


class Unit:
    """A cluster or vector core.

    Attributes
    ----------
    semaphores : list of int
        Their values.
    queues : tuple of deque
        Instructions that wait for their engine.
    registers : list of int
        Address registers.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self.node = node.id
        self.kind = node.kind
        self.semaphores = [0] * SEMAPHORES
        self.queues: tuple[deque[Resolved], ...] = (deque(), deque(), deque())
        self.registers = [0] * ADDRESS_REGISTERS
        self._storage = Cluster(machine) if node.kind == "C" else Core(machine)

    @property
    def cluster(self) -> Cluster:
        """The storages of a cluster."""
        assert isinstance(self._storage, Cluster)
        return self._storage

    @property
    def core(self) -> Core:
        """The storages of a vector core."""
        assert isinstance(self._storage, Core)
        return self._storage

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """Every storage."""
        if isinstance(self._storage, Cluster):
            return (*self._storage.l1.values(), self._storage.accumulator)
        return (self._storage.l1, self._storage.registers)

    @property
    def idle(self) -> bool:
        """Whether no engine has an instruction left."""
        return not any(self.queues)
