"""Where multipliers and block RAMs go: each near what it exchanges most with.

nextpnr looks for the place of each by itself. Where nearly all of an FPGA's are taken, that ends
with any one anywhere: the eight multipliers of a dot product lay in three rows and all over the
width of the die, and an L1 was mixed with registers it has nothing to do with. A sixth of all wire
led to such places and back.

The plan is of `tiny` on a die with 84 thousand LUTs. The cluster lies in the upper part, the vector
core in the lower one on the right; what the plan does not name goes where nextpnr puts it. In a
machine whose parts have other numbers of cells, the plan fits nothing and is not used.

Names are what is known of modules after synthesis: a cell is called by the path of the register or
the memory behind it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hw.board.multipliers import MULTIPLIER

MEMORY = "DP16KD"

DICE = ("LFE5U-85F", "LFE5UM5G-85F")

BLOCKS = (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)
"""Columns at which the thirteen groups of four begin, in every row of either kind."""
SITES = {
    MULTIPLIER: ((0, "MULT18_0"), (1, "MULT18_1"), (4, "MULT18_4"), (5, "MULT18_5")),
    MEMORY: ((0, "EBR0"), (2, "EBR1"), (4, "EBR2"), (6, "EBR3")),
}
"""Column in a group, and name, of each site."""
ROWS = {MULTIPLIER: (10, 34, 58), MEMORY: (22, 46, 70, 82)}


@dataclass(frozen=True)
class Strip:
    """Cells side by side in a row of sites.

    Attributes
    ----------
    kind : str
        Type of the cells.
    row : int
        Of the die.
    first : int
        Site of the first cell.
    names : tuple of str
        Patterns, in the order of places: what one of them finds goes in the order of its numbers.
    count : int
        Cells there are if this is the machine of the plan.
    every : int
        One site of so many is taken.
    """

    kind: str
    row: int
    first: int
    names: tuple[str, ...]
    count: int
    every: int = 1

    @property
    def places(self) -> list[str]:
        """Sites, one for each cell."""
        return sites(self.kind, self.row)[self.first :: self.every][: self.count]


def sites(kind: str, row: int) -> list[str]:
    """Return the sites of a row, from left to right."""
    return [f"X{block + column}/Y{row}/{name}" for block in BLOCKS for column, name in SITES[kind]]


def _dots(*numbers: int) -> tuple[str, ...]:
    return tuple(rf"\.tensor\.dot_{number}\." for number in numbers)


LANES = 4
# A memory holds 9 bits of every word of the L1, which are of a lane's element in one half of it or
# the other.
L1 = sorted(range(29), key=lambda number: (9 * number % 128 // 32, number))


def _of_lane(lane: int) -> tuple[str, ...]:
    # One of a source's memories holds 18 bits of every half.
    numbers = [str(number) for number in range(8) if (18 * number + 9) // 32 == lane]
    return (
        rf"\.source_\d\$?\d*\.words\.memory\.0\.({'|'.join(numbers)})$",
        rf"\.registers\.copy_\d\.0\.{lane}$",
    )


# Of the dot products those that share operands, a row or a column of four, are near each other:
# this is the arrangement with the least wire for that, in rows of six.
PLAN = (
    Strip(MULTIPLIER, 10, 0, _dots(0, 8, 11, 1, 9, 10), 48),
    Strip(MULTIPLIER, 34, 0, _dots(12, 4, 7, 13, 5, 6), 48),
    Strip(MULTIPLIER, 58, 0, _dots(15, 3, 2, 14), 32),
    Strip(MULTIPLIER, 34, 50, (r"\.reach\.",), 2),
    Strip(
        MULTIPLIER,
        58,
        32,
        tuple(
            rf"\.pipe\.{unit}_{lane}\." for lane in range(LANES) for unit in ("multiplier", "seed")
        ),
        20,
    ),
    Strip(
        MEMORY,
        22,
        0,
        (
            r"\.unit_0\.datapath\.(accumulator|drain)\.",
            *(rf"\.l1[ab]\.elements\.0\.{number}$" for number in range(16)),
            r"\.l1[ab]\.scales\.",
        ),
        44,
    ),
    Strip(MEMORY, 46, 23, tuple(rf"\.l1\.bank_0\.0\.{number}$" for number in L1), 29),
    Strip(MEMORY, 70, 16, tuple(name for lane in range(LANES) for name in _of_lane(lane)), 33),
    Strip(
        MEMORY,
        82,
        28,
        tuple(rf"\.pipe\.{unit}_{lane}\." for lane in range(LANES) for unit in ("seed", "plain")),
        12,
        every=2,
    ),
)

# Where most words cross: between cluster, routers and vector core, between L1, registers and pipes
# of the vector core, at its VDRAIN, and around the memory of the board. Every third row stays free
# of logic there, so that the rows beside it have its wires too.
CROSSINGS = (
    ((22, 68), (8, 60)),
    ((56, 116), (61, 85)),
    ((78, 123), (8, 38)),
    ((22, 46), (69, 92)),
)
"""First and last column, first and last row of each."""


def arrange(cells: Mapping[str, Any], device: str, plan: Sequence[Strip] = PLAN) -> dict[str, str]:
    """Return a site for every cell that the plan names.

    Parameters
    ----------
    cells : mapping
        Name to cell, as Yosys writes them.
    device : str
        As a board calls it.
    plan : sequence of Strip
        What goes where.

    Returns
    -------
    dict of str to str
        Cell to site: empty on a device that is not one of `DICE`, and for a machine that has not
        just the cells of the plan.
    """
    if device not in DICE:
        return {}
    result: dict[str, str] = {}
    for strip in plan:
        named = [name for name, cell in cells.items() if cell["type"] == strip.kind]
        found = list(
            dict.fromkeys(
                name
                for pattern in strip.names
                for name in sorted(filter(re.compile(pattern).search, named), key=_natural)
            )
        )
        if len(found) != strip.count:
            return {}
        result.update(zip(found, strip.places, strict=True))
    return result


def spacers() -> dict[str, Any]:
    """Return functions of nothing, each at its place: no logic beside them in `CROSSINGS`."""
    taken = {row for rows in ROWS.values() for row in rows}
    return {
        f"spacer_{x}_{y}_{slice_}{number}": {
            "type": "LUT4",
            "parameters": {"INIT": "0" * 16},
            "attributes": {"BEL": f"X{x}/Y{y}/SLICE{slice_}.K{number}"},
            "port_directions": {},
            "connections": {},
        }
        for (left, right), (top, bottom) in CROSSINGS
        for y in range(top, bottom + 1)
        if y % 3 == 0 and y not in taken
        for x in range(left, right + 1)
        for slice_ in "ABCD"
        for number in range(2)
    }


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``sum_2`` before ``sum_10``."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
