"""What the compiler decided, for a person to read: stages, units, windows, words, cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.estimate import Load, estimate, port_of
from compiler.passes.placed import Placed, Round, Share
from compiler.passes.specialise import Specialised
from compiler.schedule import stage_cycles
from compiler.vector import Placement
from kohakuaccel.image import Image
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Grid
from kohakuaccel.source import Location
from kohakutpu import costs
from kohakutpu.config import WORD_BYTES, Machine


@dataclass(frozen=True)
class BufferPlan:
    """A buffer in memory: what it holds and how much it takes, padding of rows included."""

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True)
class UnitPlan:
    """What one unit does in a stage.

    ``share`` says which instances it has and what it keeps where; ``loads`` how busy its engines
    are.
    """

    share: Share
    loads: Mapping[str, Load]


@dataclass(frozen=True)
class StagePlan:
    """A stage: what runs between two barriers.

    Parameters
    ----------
    number : int
        From 1 on, in the order of the source.
    kind : str
        ``"contraction"`` or ``"vector"``.
    loc : Location
        The grid.
    rounds : int
        How often it runs.
    batch : tuple of int
        Lengths of the batch loops, after merging.
    units : tuple of UnitPlan
        Everybody who has a share.
    cycles : int
        Estimate for one round.
    limiter : str
        Which engine of which unit, or the memory ports, it spends them on.
    """

    number: int
    kind: str
    loc: Location
    rounds: int
    batch: tuple[int, ...]
    units: tuple[UnitPlan, ...]
    cycles: int
    limiter: str

    @property
    def instances(self) -> int:
        """Instances of all units."""
        mine = "C" if self.kind == "contraction" else "V"
        return sum(unit.share.instances for unit in self.units if unit.share.kind == mine)

    def total(self, what: str) -> int:
        """Return the words ``read``, ``written`` or ``sent`` by all units in one round."""
        return sum(getattr(load, what) for unit in self.units for load in unit.loads.values())


@dataclass(frozen=True)
class Plan:
    """What was decided for one kernel on one machine.

    Parameters
    ----------
    kernel, machine : str
        Their names.
    sizes : dict
        Dimensions and knobs that are whole numbers, by name.
    stages : tuple of StagePlan
        In order.
    buffers : tuple of BufferPlan
        What lies in memory.
    relayouts : tuple of str
        Trips through memory that only change an order; whole sentences.
    programs : dict
        Instructions of each unit, by node.
    cycles : int
        Estimate for everything.
    """

    kernel: str
    machine: str
    sizes: Mapping[str, int]
    stages: tuple[StagePlan, ...]
    buffers: tuple[BufferPlan, ...]
    relayouts: tuple[str, ...]
    programs: Mapping[int, int]
    cycles: int

    @property
    def words_read(self) -> int:
        """Words from memory, all rounds of all stages."""
        return sum(stage.rounds * stage.total("read") for stage in self.stages)

    @property
    def words_written(self) -> int:
        """Words to memory, all rounds of all stages."""
        return sum(stage.rounds * stage.total("written") for stage in self.stages)

    @property
    def words_sent(self) -> int:
        """Words from unit to unit, all rounds of all stages."""
        return sum(stage.rounds * stage.total("sent") for stage in self.stages)

    def pretty(self) -> str:
        """Return the plan as text."""
        from compiler.report import show  # it reads these classes

        return show(self)

    def __str__(self) -> str:
        return self.pretty()


def make_plan(
    program: Specialised,
    env: Mapping[Symbol, int],
    placed: Sequence[Placed | Round],
    image: Image,
    machine: Machine,
    knobs: Mapping[str, object],
    relayouts: Sequence[str] = (),
) -> Plan:
    """Return the plan of a compiled kernel, whose knobs were given as ``knobs`` or left open."""
    stages = tuple(_stage(part, rounds, machine) for part, rounds in _rounds(placed, 1))
    barriers = sum(stage.rounds for stage in stages) - 1
    cycles = sum(stage.rounds * stage.cycles for stage in stages)
    cycles += costs.LAUNCH + max(0, barriers) * costs.BARRIER
    given = {name: n for name, n in knobs.items() if type(n) is int}
    named = [*program.trace.dims.values(), *program.trace.knobs.values()]
    sizes = {symbol.name: env[symbol] for symbol in named if symbol in env}
    return Plan(
        program.trace.name,
        machine.name,
        {**sizes, **given},
        stages,
        tuple(
            BufferPlan(buffer.name, buffer.role, storage.shape, buffer.dtype, storage.nbytes)
            for buffer, storage in program.storage.items()
        ),
        tuple(relayouts),
        {unit.node: len(unit.words) // WORD_BYTES for unit in image.units},
        cycles,
    )


def flat(placed: Sequence[Placed | Round]) -> list[Placed]:
    """Return the stages, those in loops once."""
    return [part for part, _ in _rounds(placed, 1)]


def _rounds(placed: Sequence[Placed | Round], rounds: int) -> Iterator[tuple[Placed, int]]:
    for part in placed:
        if isinstance(part, Placed):
            yield part, rounds
        else:
            yield from _rounds(part.body, rounds * part.count)


def _stage(placed: Placed, rounds: int, machine: Machine) -> StagePlan:
    units = tuple(
        UnitPlan(share, estimate(placed.items[share.node], share.kind, machine))
        for share in placed.shares
    )
    least, limiter = _limit(units, machine)
    cycles = max(least, stage_cycles(placed.items, machine))
    grid: Grid = placed.stage.grid
    kind = "contraction" if placed.stage.is_contraction else "vector"
    counts = placed.batch.counts
    number = placed.stage.number
    return StagePlan(number, kind, grid.loc, rounds, counts, units, cycles, limiter)


def _limit(units: Sequence[UnitPlan], machine: Machine) -> tuple[int, str]:
    """Return the least cycles a stage can take, and the engine or port that is occupied as long."""
    if not units:
        return 0, "nothing: there are no instances"
    busy: list[tuple[int, str]] = []
    ports: dict[tuple[int, str], int] = {}  # a word a cycle in each direction
    for unit in units:
        port = port_of(unit.share.node, machine)
        for way in ("read", "written"):
            words = sum(getattr(load, way) for load in unit.loads.values())
            ports[port, way] = ports.get((port, way), 0) + words
        for engine, load in unit.loads.items():
            busy.append((load.cycles, f"{engine} of {unit.share.kind}{unit.share.node}"))
    busy += [(words, f"memory port {port}") for (port, _), words in ports.items()]
    return max(busy, key=lambda entry: entry[0])


def placements(stage: StagePlan) -> dict[tuple[str, str], list[Placement]]:
    """Return what lies where, by kind of unit and memory, for the first unit of each kind."""
    found: dict[tuple[str, str], list[Placement]] = {}
    seen: set[str] = set()
    for unit in stage.units:
        if unit.share.kind not in seen:
            seen.add(unit.share.kind)
            for placement in unit.share.placements:
                found.setdefault((unit.share.kind, placement.memory), []).append(placement)
    return found
