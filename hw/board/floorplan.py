"""Where multipliers go: those of one module side by side.

nextpnr looks for the place of each multiplier by itself. Where nearly all of an FPGA's are taken,
that ends with any one anywhere: the eight of a dot product lay in three rows and all over the width
of the die, and a quarter of all wire led to them and back.

Names are what is known of modules after synthesis: a cell is called by the path of the register
behind it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

MULTIPLIER = "MULT18X18D"

# A row of a die with 84 thousand LUTs has 13 blocks of four multipliers.
BLOCKS = (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)
PLACES = ((0, 0), (1, 1), (4, 4), (5, 5))
"""Column in a block, and number, of each multiplier."""
ROWS = (10, 34, 58)
DICE = ("LFE5U-85F", "LFE5UM5G-85F")


def sites(device: str) -> list[list[str]]:
    """Return the multipliers of an FPGA, row by row, so that each row begins where one ended.

    Parameters
    ----------
    device : str
        As a board calls it; none are known of a device that is not one of `DICE`.
    """
    if device not in DICE:
        return []
    columns = [(block + column, number) for block in BLOCKS for column, number in PLACES]
    rows = [[f"X{x}/Y{y}/{MULTIPLIER[:6]}_{n}" for x, n in columns] for y in ROWS]
    return [row[::-1] if number % 2 else row for number, row in enumerate(rows)]


def arrange(cells: Mapping[str, Any], rows: list[list[str]]) -> dict[str, str]:
    """Return a place for each multiplier of a netlist.

    Modules are taken by their paths, those that a number at the end of the name sets apart in the
    order of their numbers: ``pipe.multiplier_0``, ``pipe.seed_0``, ``pipe.multiplier_1``. Each goes
    into the first row that has room for all of it.

    Parameters
    ----------
    cells : mapping
        Name to cell, as Yosys writes them.
    rows : list of list of str
        As of `sites`.

    Returns
    -------
    dict of str to str
        Cell to site. The multipliers of a module that no row has room for are not in it.
    """
    modules: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for name, cell in cells.items():
        if cell["type"] == MULTIPLIER:
            modules[_order(name)].append(name)
    free = [iter(row) for row in rows]
    left = [len(row) for row in rows]
    result: dict[str, str] = {}
    for _, names in sorted(modules.items()):
        row = next((n for n, room in enumerate(left) if room >= len(names)), None)
        if row is None:
            continue
        left[row] -= len(names)
        result.update(zip(sorted(names, key=_natural), _take(free[row], len(names)), strict=True))
    return result


def _take(row: Iterator[str], count: int) -> list[str]:
    return [next(row) for _ in range(count)]


def _order(name: str) -> tuple[Any, ...]:
    """Return the path of a cell's module, with the number of the module before its name."""
    *path, module, _ = ("", *name.split("."))
    numbered = re.fullmatch(r"(.*?)_(\d+)", module)
    number, kind = (int(numbered[2]), numbered[1]) if numbered else (-1, module)
    return tuple(path), number, kind


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``sum_2`` before ``sum_10``."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
