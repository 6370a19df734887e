"""What a machine takes of an FPGA: a row for every module, as data that JSON holds."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from amaranth.back import rtlil
from amaranth.lib import wiring

from hw.synth import yosys
from hw.synth.boards import Board
from hw.synth.netlist import Module, Netlist, read
from hw.top import Top
from kohakutpu.config import Machine

CELLS = {
    "LUT4": "LUT4",
    "CCU2C": "CCU2C",
    "PFUMX": "PFUMX",
    "L6MUX21": "L6MUX21",
    "TRELLIS_DPR16X4": "DPR16X4",
    "TRELLIS_FF": "FF",
    "MULT18X18D": "MULT18X18D",
    "DP16KD": "DP16KD",
}
LUTS = {"LUT4": 1, "CCU2C": 2, "DPR16X4": 6}
RESOURCES = ("LUT4", "FF", "MULT18X18D", "DP16KD")

Counts = dict[str, int]
Synthesise = Callable[[str, str, str], yosys.Cells]
Progress = Callable[[str, int, int], None]


class CellError(RuntimeError):
    """Synthesis left cells that are nothing of the FPGA's."""


@dataclass(frozen=True)
class Row:
    """A module, or several siblings with the same contents.

    Parameters
    ----------
    path : str
        Of the first of them, from the top.
    copies : int
        How many there are in one parent.
    own : dict of str to int
        Cells by type, in one copy, without those of rows below.
    total : dict of str to int
        The same with those of rows below.
    """

    path: str
    copies: int
    own: Counts
    total: Counts

    @property
    def depth(self) -> int:
        """Rows above this one."""
        return self.path.count("/")


@dataclass(frozen=True)
class Utilisation:
    """What a machine takes of a board's FPGA.

    Parameters
    ----------
    machine : str
        Name of the machine.
    hash : str
        Of its configuration.
    board, device : str
        Of the FPGA.
    limits, budget : dict of str to int
        By resource; see `hw.synth.boards.Board`.
    tools : dict of str to str
        Versions.
    rows : list of Row
        In order of the hierarchy, the whole machine first.
    """

    machine: str
    hash: str
    board: str
    device: str
    limits: Counts
    budget: Counts
    tools: dict[str, str]
    rows: list[Row]

    def as_json(self) -> dict[str, Any]:
        """Return what `json` writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Utilisation":
        """Return what `as_json` gave."""
        return cls(**{**values, "rows": [Row(**row) for row in values["rows"]]})

    @property
    def over(self) -> list[str]:
        """Resources beyond the budget, as texts."""
        used = resources(self.rows[0].total)
        return [
            f"{used[name]:,} {name} > {most:,}"
            for name, most in self.budget.items()
            if used[name] > most
        ]


def resources(cells: Counts) -> Counts:
    """Return what cells take of each of `RESOURCES`.

    A carry cell (CCU2C) takes the two LUT4 of its slice, a LUT RAM of 16 words of 4 bits three
    slices: two hold the bits, the inputs of the third write them. Multiplexers between LUTs
    (PFUMX, L6MUX21) are there anyway.
    """
    luts = sum(count * cells.get(kind, 0) for kind, count in LUTS.items())
    return {"LUT4": luts} | {name: cells.get(name, 0) for name in RESOURCES[1:]}


def measure(
    machine: Machine,
    board: Board,
    progress: Progress,
    synthesise: Synthesise = yosys.synthesise,
) -> Utilisation:
    """Synthesise a machine.

    Parameters
    ----------
    machine : Machine
        Which.
    board : Board
        For what.
    progress : callable
        Told a module's path, how many are done and how many there are, before each.
    synthesise : callable
        As `hw.synth.yosys.synthesise`.

    Raises
    ------
    ToolError
        If Yosys is missing or fails.
    CellError
        If something remains that the FPGA does not have.
    """
    rows = survey(Top(machine), progress, synthesise)
    tools = {name: metadata.version(name) for name in ("amaranth", yosys.PACKAGE)}
    return Utilisation(
        machine.name,
        machine.hash,
        board.name,
        board.device,
        dict(board.limits),
        dict(board.budget),
        tools,
        rows,
    )


def survey(
    component: wiring.Component,
    progress: Progress,
    synthesise: Synthesise = yosys.synthesise,
) -> list[Row]:
    """Return the rows of any component, which are called ``top`` and what is below it.

    Parameters and exceptions are those of `measure`.
    """
    netlist = read(rtlil.convert(component, name="top", emit_src=False))
    modules = netlist.modules()
    counts: dict[str, Counts] = {}
    for done, module in enumerate(modules):
        path = module.path
        progress(path, done, len(modules))
        label = path.rpartition(".")[2].replace("$", "-")
        cells = synthesise(label, module.synonym, netlist.text(module))
        counts[module.digest] = known(path, cells, netlist)
    return list(tabulate(netlist, netlist.top, counts, "top", 1))


def known(path: str, cells: yosys.Cells, netlist: Netlist) -> Counts:
    """Return the FPGA's cells by the names of the table, and refuse any other."""
    boxes = {f"m{digest}" for digest in netlist.kept}
    others = sorted(
        name
        for name in cells
        if name not in CELLS and name.lstrip("\\") not in boxes and name != "$scopeinfo"
    )
    if others:
        raise CellError(f"{path} has cells that are nothing of the FPGA's: {', '.join(others)}")
    return {CELLS[name]: count for name, count in cells.items() if name in CELLS}


def tabulate(
    netlist: Netlist, module: Module, counts: dict[str, Counts], path: str, copies: int
) -> Iterator[Row]:
    """Yield the row of a kept module, then those of what is below it."""
    _, below = netlist.parts(module)
    groups: dict[str, list[tuple[str, Module]]] = {}
    for name, child in below:
        groups.setdefault(child.digest, []).append((name, child))
    own = counts[module.digest]
    total = {kind: own.get(kind, 0) for kind in CELLS.values()}
    inner: list[Row] = []
    for group in groups.values():
        name, child = group[0]
        rows = list(tabulate(netlist, child, counts, f"{path}/{name}", len(group)))
        for kind in total:
            total[kind] += len(group) * rows[0].total[kind]
        inner += rows
    yield Row(path, copies, {kind: own.get(kind, 0) for kind in total}, total)
    yield from inner
