"""What a machine takes of an FPGA: a row for every module, as data that JSON holds."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from amaranth.back import rtlil
from amaranth.lib import wiring

from hw.synth import boards, yosys
from hw.synth.boards import Board
from hw.synth.family import Counts, Family
from hw.synth.netlist import Module, Netlist, read
from hw.top import Top
from kohakutpu.config import Machine

Synthesise = Callable[[Family, str, str, str], Counts]
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
    def family(self) -> Family:
        """That of the board's FPGA."""
        return boards.board(self.board).family

    @property
    def over(self) -> list[str]:
        """Resources beyond the budget, as texts."""
        used = self.family.taken(self.rows[0].total)
        return [
            f"{used[name]:,} {name} > {most:,}"
            for name, most in self.budget.items()
            if used[name] > most
        ]


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
    rows = survey(Top(machine), board.family, progress, synthesise)
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
    family: Family,
    progress: Progress,
    synthesise: Synthesise = yosys.synthesise,
) -> list[Row]:
    """Return the rows of any component, which are called ``top`` and what is below it.

    Of the parameters `family` is that of the FPGA, the others and the exceptions are those of
    `measure`.
    """
    netlist = read(rtlil.convert(component, name="top", emit_src=False))
    modules = netlist.modules()
    counts: dict[str, Counts] = {}
    for done, module in enumerate(modules):
        path = module.path
        progress(path, done, len(modules))
        label = path.rpartition(".")[2].replace("$", "-")
        cells = synthesise(family, label, module.synonym, netlist.text(module))
        counts[module.digest] = known(path, cells, netlist, family)
    return list(tabulate(netlist, netlist.top, counts, family, "top", 1))


def known(path: str, cells: Counts, netlist: Netlist, family: Family) -> Counts:
    """Return the FPGA's cells by the names of the table, and refuse any other."""
    boxes = {f"m{digest}" for digest in netlist.kept}
    others = family.unknown(name for name in cells if name.lstrip("\\") not in boxes)
    if others:
        raise CellError(f"{path} has cells that are nothing of the FPGA's: {', '.join(others)}")
    return family.count(cells)


def tabulate(
    netlist: Netlist,
    module: Module,
    counts: dict[str, Counts],
    family: Family,
    path: str,
    copies: int,
) -> Iterator[Row]:
    """Yield the row of a kept module, then those of what is below it."""
    _, below = netlist.parts(module)
    groups: dict[str, list[tuple[str, Module]]] = {}
    for name, child in below:
        groups.setdefault(child.digest, []).append((name, child))
    own = counts[module.digest]
    total = {kind: own.get(kind, 0) for kind in family.kinds}
    inner: list[Row] = []
    for group in groups.values():
        name, child = group[0]
        rows = list(tabulate(netlist, child, counts, family, f"{path}/{name}", len(group)))
        for kind in total:
            total[kind] += len(group) * rows[0].total[kind]
        inner += rows
    yield Row(path, copies, {kind: own.get(kind, 0) for kind in total}, total)
    yield from inner
