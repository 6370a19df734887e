"""The state of one unit: front end, queues, semaphores, and what its engines work on."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from kohakutpu.config import (
    ADDRESS_REGISTERS,
    SEMAPHORE_MAX,
    SEMAPHORES,
    WORD_BYTES,
    Machine,
    Node,
)
from kohakutpu.model.accumulator import Accumulator
from kohakutpu.model.entries import Entries
from kohakutpu.model.faults import Violation
from kohakutpu.model.held import HeldStorage
from kohakutpu.model.loader import Loader
from kohakutpu.model.memo import MemoLoader
from kohakutpu.model.regions import RegionEntries
from kohakutpu.model.storage import Storage
from kohakutpu.model.tables import Tables
from kohakutpu.model.tiles import TileAccumulator

if TYPE_CHECKING:
    from kohakutpu.model.execute import Hull
    from kohakutpu.model.memory import Memory
    from kohakutpu.model.operation import Operation
    from kohakutpu.model.program import Step

ENGINES = {"C": ("FILL", "GEMM", "DRAIN"), "V": ("VFILL", "EXEC", "VDRAIN")}

IDLE, LATER_ON = -1, -2


class Shortcuts:
    """Memos that the units of one machine share."""

    def __init__(self) -> None:
        self.loader = MemoLoader()
        self.tables = Tables()


# Operation, its resolved operands, when the front end handed it over, its pc.
Item = tuple["Operation", Any, int, int]


class Engine:
    """One engine of a unit: its queue and its counters.

    Attributes
    ----------
    queue : deque
        Instructions handed over and not started.
    running : int
        The pc of the instruction it works on, `IDLE`, or `LATER_ON` if its head starts later.
    blocked : bool
        Its head was looked at and a wait does not hold.
    free : int
        When it finished its last instruction.
    written : tuple of (int, int)
        When all was there that an EXEC and the one before it wrote.
    """

    __slots__ = ("blocked", "busy", "free", "index", "instructions", "name", "queue", "running",
                 "stalled", "unit", "written")  # fmt: skip

    def __init__(self, unit: Unit, index: int, name: str) -> None:
        self.unit = unit
        self.index = index
        self.name = name
        self.queue: deque[Item] = deque()
        self.reset()

    def reset(self) -> None:
        """Empty the queue and the counters."""
        self.queue.clear()
        self.running = IDLE
        self.blocked = False
        self.free = 0
        self.written: tuple[int, int] = (0, 0)
        self.instructions = 0
        self.busy = 0
        self.stalled = 0


class Unit:
    """A cluster or a vector core.

    Parameters
    ----------
    node : Node
        Where it sits.
    machine : Machine
        The configuration.
    memory : Memory
        The memory all units share.
    poison : bool
        As in `GoldenMachine`.
    shortcuts : Shortcuts or None
        What the units of a machine share to be fast; None for the plain form of everything.
    """

    __slots__ = (
        "a",
        "acc",
        "engines",
        "fetched",
        "follows",
        "front",
        "instructions",
        "kind",
        "l1",
        "l1a",
        "l1b",
        "loader",
        "loops",
        "machine",
        "macs",
        "memory",
        "network",
        "noc_words",
        "node",
        "outbox",
        "outbox_pc",
        "pc",
        "port",
        "queues",
        "read_words",
        "registers",
        "semaphores",
        "settled",
        "steps",
        "tables",
        "time",
        "transit",
        "unread",
        "wants",
        "written_words",
    )  # fmt: skip

    l1a: Entries
    l1b: Entries
    acc: Accumulator
    l1: Storage
    registers: Storage

    def __init__(
        self,
        node: Node,
        machine: Machine,
        memory: Memory,
        *,
        poison: bool,
        shortcuts: Shortcuts | None,
    ) -> None:
        self.node = node.id
        self.kind = node.kind
        self.machine = machine
        self.memory = memory
        self.tables = shortcuts.tables if shortcuts else None
        self.loader = shortcuts.loader if shortcuts else Loader()
        self.network: dict[int, Unit] = {}
        self.port = min(
            machine.of_kind("M"), key=lambda m: (abs(m.x - node.x) + abs(m.y - node.y), m.id)
        ).id
        self.engines = tuple(Engine(self, i, name) for i, name in enumerate(ENGINES[node.kind]))
        self.queues = tuple(engine.queue for engine in self.engines)
        if node.kind == "C":
            entries = RegionEntries if shortcuts else Entries
            self.l1a = entries("L1A", machine.l1_entries, poison=poison)
            self.l1b = entries("L1B", machine.l1_entries, poison=poison)
            self.acc = (TileAccumulator if shortcuts else Accumulator)(
                machine.acc_subtiles, poison=poison
            )
        else:
            storage = partial(HeldStorage, shortcuts.tables) if shortcuts else Storage
            self.l1 = storage("L1", "L1_RANGE", machine.vl1_words, WORD_BYTES, poison=poison)
            beat = 4 * machine.lanes
            self.registers = storage(
                "registers", "REG_RANGE", machine.registers, beat, poison=poison
            )
        self.reset()

    def reset(self) -> None:
        """Bring everything to the state in which a program starts."""
        self.steps: tuple[Step, ...] = ()  # of its program; ends with one that faults
        self.pc = 0
        self.time = 0
        self.a = [0] * ADDRESS_REGISTERS
        self.loops: list[int] = []
        self.semaphores = [0] * SEMAPHORES
        self.outbox: tuple[tuple[int, int], ...] = ()
        self.outbox_pc = 0
        self.front = "off"  # off, running, halted, or why `advance` stopped
        self.wants = 0  # the queue that was full
        self.transit = 0  # instructions started whose posts are not all delivered
        self.unread: tuple[Hull, ...] = ()  # what the last EXEC wrote
        self.follows = False  # the one after it reads that
        self.settled = 0  # when everything sent so far has arrived
        self.instructions = 0
        self.fetched = 0
        self.macs = 0
        self.read_words = 0
        self.written_words = 0
        self.noc_words = 0
        for engine in self.engines:
            engine.reset()
        stores = (self.l1a, self.l1b, self.acc) if self.kind == "C" else (self.l1, self.registers)
        for store in stores:
            store.reset()

    @property
    def idle(self) -> bool:
        """Its engines have nothing to do and everything they sent has arrived."""
        return self.transit == 0 and not any(self.queues)

    def post(self, semaphore: int) -> None:
        """Add one to a semaphore.

        Raises
        ------
        Violation
            ``SEM_OVERFLOW`` above 255.
        """
        value = self.semaphores[semaphore] + 1
        if value > SEMAPHORE_MAX:
            raise Violation(
                "SEM_OVERFLOW",
                f"a post to semaphore {semaphore} of unit {self.node}, which holds "
                f"{SEMAPHORE_MAX} already",
                target=self.node,
                semaphore=semaphore,
            )
        self.semaphores[semaphore] = value

    def check_semaphores(self) -> None:
        """Check that every semaphore is zero.

        Raises
        ------
        Violation
            ``SEM_LEFT`` if one is not.
        """
        left = {s: value for s, value in enumerate(self.semaphores) if value}
        if left:
            text = ", ".join(f"semaphore {s} holds {value}" for s, value in left.items())
            raise Violation(
                "SEM_LEFT",
                f"{text} at HALT; every post needs its wait",
                **{f"semaphore {s}": value for s, value in left.items()},
            )
