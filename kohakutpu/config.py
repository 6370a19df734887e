"""The frozen machine configuration, its presets and its hash.

A mesh is described by a picture: one row of node letters a line, ``.`` for a bare router. The
picture *is* the configuration: ``C`` cluster, ``V`` vector core, ``M`` memory port, ``H`` control.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property

WORD_BYTES = 32
QUARTER_BYTES = 8
QUARTERS_PER_WORD = 4
LANES = 4  # rows of an entry, rows and columns of a sub-tile
KBLOCK = 32  # K elements that share a scale
ADDRESS_REGISTERS = 16
ADDRESS_BITS = 34
SEMAPHORES = 32
SEMAPHORE_MAX = 255
LOOP_DEPTH = 8
MAX_NODES = 16


class ConfigurationError(ValueError):
    """A machine configuration that cannot exist; the message names the field and the fix."""


@dataclass(frozen=True)
class Node:
    """One endpoint of the mesh: ``id`` is ``y * width + x``, ``kind`` one of ``C V M H``."""

    id: int
    kind: str
    x: int
    y: int


@dataclass(frozen=True)
class Machine:
    """One machine, checked when made.

    Parameters
    ----------
    name : str
        What people call it; not part of the hash.
    mesh : str
        The picture: rows of node letters separated by newlines, letters by spaces.
    k_per_cycle : int
        K elements that enter the systolic chain a cycle: 4, 8, 16 or 32.
    lanes : int
        FP32 lanes of a vector core: 4, 8 or 16.
    l1_entries : int
        Entries of L1A and of L1B, each.
    acc_subtiles : int
        Sub-tiles of the accumulator.
    vl1_words : int
        Words of a vector core's L1.
    registers : int
        Beats of a vector core's register file.
    queue_depth : int
        Instructions an engine's queue holds.
    instruction_buffer : int
        Instruction words the front end keeps for replaying loops.
    dram_words : int
        Words of memory.

    Raises
    ------
    ConfigurationError
        If a value is out of range or the picture is not a machine.
    """

    name: str
    mesh: str
    k_per_cycle: int = 32
    lanes: int = 16
    l1_entries: int = 2048
    acc_subtiles: int = 2048
    vl1_words: int = 8192
    registers: int = 512
    queue_depth: int = 8
    instruction_buffer: int = 128
    dram_words: int = 1 << 25

    def __post_init__(self) -> None:
        _require(
            self.k_per_cycle in (4, 8, 16, 32), "k_per_cycle", "4, 8, 16 or 32", self.k_per_cycle
        )
        _require(self.lanes in (4, 8, 16), "lanes", "4, 8 or 16", self.lanes)
        for field, low, high in (
            ("l1_entries", 8, 1 << 14),
            ("acc_subtiles", 2, 1 << 14),
            ("vl1_words", 64, 1 << 14),
            ("registers", 16, 1 << 10),
            ("queue_depth", 2, 64),
            ("instruction_buffer", 16, 1 << 12),
            ("dram_words", 1 << 10, 1 << 32),
        ):
            value = getattr(self, field)
            _require(low <= value <= high, field, f"from {low} to {high}", value)
        rows = self.rows
        _require(len({len(row) for row in rows}) == 1, "mesh", "rows of one width", self.mesh)
        letters = [letter for row in rows for letter in row]
        _require(set(letters) <= set("CVMH."), "mesh", "made of C V M H .", self.mesh)
        _require(len(letters) <= MAX_NODES, "mesh", f"at most {MAX_NODES} nodes", len(letters))
        _require(letters.count("H") == 1, "mesh", "with exactly one H", self.mesh)
        _require("M" in letters, "mesh", "with at least one M", self.mesh)
        _require(
            letters.count("C") == letters.count("V") > 0, "mesh", "with as many C as V", self.mesh
        )

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The picture as letters, row by row."""
        return tuple(tuple(line.split()) for line in self.mesh.strip().splitlines())

    @property
    def width(self) -> int:
        """Columns of the mesh."""
        return len(self.rows[0])

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every endpoint, in order of id; bare routers are left out."""
        return tuple(
            Node(y * self.width + x, letter, x, y)
            for y, row in enumerate(self.rows)
            for x, letter in enumerate(row)
            if letter != "."
        )

    def of_kind(self, kind: str) -> tuple[Node, ...]:
        """Nodes of one kind (``"C"``, ``"V"``, ``"M"``, ``"H"``), in order of id."""
        return tuple(node for node in self.nodes if node.kind == kind)

    @cached_property
    def pairs(self) -> tuple[tuple[Node, Node], ...]:
        """Each cluster with the vector core that takes its drains: nearest first, by id."""
        free = list(self.of_kind("V"))
        result: list[tuple[Node, Node]] = []
        for cluster in self.of_kind("C"):
            mate = min(free, key=lambda v: (abs(v.x - cluster.x) + abs(v.y - cluster.y), v.id))
            free.remove(mate)
            result.append((cluster, mate))
        return tuple(result)

    @property
    def macs_per_cycle(self) -> int:
        """Peak multiply-accumulates a cycle of one cluster."""
        return LANES * LANES * self.k_per_cycle

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits that depend on everything but the name; stable across processes."""
        values = {f.name: asdict(self)[f.name] for f in fields(self) if f.name != "name"}
        values["mesh"] = ["".join(row) for row in self.rows]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _require(holds: bool, field: str, expected: str, value: object) -> None:
    if not holds:
        raise ConfigurationError(f"{field} must be {expected}, not {value!r}")


PRESETS: dict[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine(
            "tiny",
            "C V\nM H",
            k_per_cycle=8,
            lanes=4,
            l1_entries=256,
            acc_subtiles=256,
            vl1_words=2048,
            registers=128,
            queue_depth=4,
            instruction_buffer=64,
            dram_words=1 << 22,
        ),
        Machine("small", "C V\nM H"),
        Machine("duo", "C V\nM H\nC V"),
        Machine("quad", "C V V C\nM C V M\nH C V ."),
    )
}


def preset(name: str) -> Machine:
    """Return a preset by name.

    Raises
    ------
    ConfigurationError
        If there is no preset of that name; the message lists those there are.
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigurationError(
            f"no machine is called {name!r}; there are {', '.join(PRESETS)}"
        ) from None
