"""Which semaphores order the fills of windows and the contractions that read them.

A window is handed over by two: its reader waits for *full*, its writer for *empty*. One that
another implies is left out. What implies what rests on fills being made in order, so windows are
looked at by who fills them: an :class:`Order` is what one cluster fills and one cluster reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from compiler.cluster.operands import Axis
from compiler.cluster.residency import Panel, Residency
from compiler.program import Ring
from kohakutpu.lang.ir import Side


@dataclass(frozen=True, slots=True)
class Handshake:
    """A window's two semaphores: the reader waits for ``full``, the writer for ``empty``.

    Either is ``None`` where another window's semaphore already implies it.
    """

    full: int | None
    empty: int | None


@dataclass(eq=False, slots=True)
class Order:
    """What one cluster fills and one cluster reads.

    Parameters
    ----------
    writer, reader : int
        Their nodes; *full* is a semaphore of the reader, *empty* of the writer.
    streams : dict
        The handshakes of the streams among it.
    panels : dict
        For a level, the handshake of all panels of that level.
    slots : list of tuple
        Every *empty* semaphore with its places.
    """

    writer: int
    reader: int
    streams: dict[Side, Handshake] = field(default_factory=dict[Side, Handshake])
    panels: dict[int, Handshake] = field(default_factory=dict[int, Handshake])
    slots: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def make_order(
    writer: int,
    reader: int,
    rings: Set[Ring],
    residency: Residency,
    axes: Sequence[Axis],
    neighbours: bool,
    landings: bool,
    full: Callable[[str], int],
    empty: Callable[[str], int],
) -> Order:
    """Allocate the semaphores of the windows in ``rings``.

    Parameters
    ----------
    writer, reader : int
        Who fills and who reads.
    rings : set of Ring
        The windows.
    residency : Residency
        All windows of the stage.
    axes : sequence of Axis
        The loops around an instance.
    neighbours : bool
        Contractions that follow each other may have a streamed operand in common.
    landings : bool
        Some operands are computed.
    full, empty : callable
        Allocate a semaphore of the reader and of the writer, given what for.
    """
    result = Order(writer, reader)

    def handshake(name: str, slots: int, fills: bool, frees: bool) -> Handshake:
        made = Handshake(
            full(f"{name} full") if fills else None, empty(f"{name} empty") if frees else None
        )
        if made.empty is not None:
            result.slots.append((made.empty, slots))
        return made

    streams: dict[Side, Ring] = {s: r for s, r in residency.streams.items() if r in rings}
    panels = [panel for panel in residency.panels.values() if panel.ring in rings]
    slots = {ring.slots for ring in streams.values()}
    # Where both sides are filled and freed together, the first fill waits for both places and the
    # second tells that both are full.
    lockstep = len(streams) == 2 and len(slots) == 1
    lockstep = lockstep and not (panels or landings or neighbours)
    for side, ring in streams.items():
        fills, frees = not lockstep or side == "B", not lockstep or side == "A"
        name = f"L1{side} stream"
        result.streams[side] = handshake(name, ring.slots, fills, frees)
    innermost = max((panel.level for panel in panels), default=0)
    alone = _alone(residency, rings, set(streams.values()))
    for level in sorted({panel.level for panel in panels}):
        group = [panel for panel in panels if panel.level == level]
        fills, frees = _needs(group, innermost, axes, alone, landings)
        name = "panels of " + " ".join(panel.rows.buffer.name for panel in group)
        result.panels[level] = handshake(name, group[0].slots, fills, frees)
    return result


def _alone(residency: Residency, rings: Set[Ring], streams: Set[Ring]) -> bool:
    """Tell whether a contraction reads panels among ``rings`` and no stream of them."""
    read = (used & rings for used in residency.read)
    return any(used and not used & streams for used in read)


def _needs(
    group: Sequence[Panel], innermost: int, axes: Sequence[Axis], alone: bool, landings: bool
) -> tuple[bool, bool]:
    """Tell whether panels of one level need *full* and *empty*.

    Fills happen in order, so the last window filled before a contraction stands for all. A stream,
    or a panel further inside, that is filled twice or more while a panel lives paces the panel's
    fills as well.
    """
    level, slots = group[0].level, group[0].slots
    if landings:
        # Contractions of one instance have streams in common or none: imply nothing.
        return level == innermost, slots > 1
    inside = prod(axis.count for axis in axes[level:innermost])
    return alone and level == innermost, alone and slots > 1 and inside < 2
