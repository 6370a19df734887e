"""What *place* leaves: the items of every unit, stage by stage, and who does what."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.passes.specialise import Batch
from compiler.passes.stage import Stage
from compiler.program import Item, Loop
from compiler.vector import Placement, VectorLowering


@dataclass(frozen=True, slots=True)
class Share:
    """What one unit does in a stage: ``length`` values from ``start`` on of one axis.

    ``common`` is what it fetches for several units, which are ``receivers``.
    """

    node: int
    kind: str
    axis: str
    start: int
    length: int
    instances: int
    placements: tuple[Placement, ...]
    notes: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    receivers: tuple[int, ...] = ()

    @classmethod
    def of_core(
        cls, node: int, where: tuple[str, int, int], instances: int, half: VectorLowering
    ) -> Share:
        """Return the share of a vector core that runs ``half``."""
        return cls(node, "V", *where, instances, tuple(half.placements), tuple(half.notes))


@dataclass(eq=False, slots=True)
class Placed:
    """A stage's items by node, and what there is to say about it.

    ``units`` is the first node of each unit that has work, ``shared`` the base and places of
    windows that the other half of a pair writes, by node.
    """

    stage: Stage
    batch: Batch
    items: dict[int, list[Item]] = field(default_factory=dict[int, "list[Item]"])
    shares: list[Share] = field(default_factory=list[Share])
    units: dict[int, int] = field(default_factory=dict[int, int])
    shared: dict[int, tuple[tuple[int, int], ...]] = field(
        default_factory=dict[int, "tuple[tuple[int, int], ...]"]
    )


@dataclass(eq=False, slots=True)
class Round:
    """Stages that repeat, with the loop around them in each unit's program."""

    loops: dict[int, Loop]
    count: int
    body: list[Placed | Round]
