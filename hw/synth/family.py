"""What synthesis must know of a family of FPGAs: how it is mapped, and what its cells take."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Counts = dict[str, int]


def no_files() -> dict[str, str]:
    """Return no files."""
    return {}


@dataclass(frozen=True)
class Family:
    """FPGAs that Yosys maps alike.

    Parameters
    ----------
    name : str
        For messages.
    commands : str
        Of Yosys, from a flat design to cells: ``{top}`` is the design, ``{mapping}`` what ABC is
        told, ``{delay}`` is `delay`.
    delay : int
        Picoseconds that logic between two registers may take, as ABC counts them.
    cells : mapping of str to str
        What the tables call a cell, by the name that Yosys gives it.
    nothing : frozenset of str
        Cells of Yosys that take nothing of the FPGA.
    resources : mapping of str to mapping of str to int
        What there is a limited number of, and how many of it each cell takes, by its name in the
        tables.
    columns : mapping of str to str
        Headings of the cells that the table of modules counts beside the resources.
    note : str
        How `resources` are counted, for the page of the documentation.
    files : callable
        Returns the texts that `commands` read, by file name; raises `ToolError` if Yosys lacks
        what they are made of.
    """

    name: str
    commands: str
    delay: int
    cells: Mapping[str, str]
    nothing: frozenset[str]
    resources: Mapping[str, Mapping[str, int]]
    columns: Mapping[str, str]
    note: str
    files: Callable[[], Mapping[str, str]] = no_files

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every name that the tables have for a cell, once."""
        return tuple(dict.fromkeys(self.cells.values()))

    def count(self, cells: Mapping[str, int]) -> Counts:
        """Return how many cells of each kind there are, from counts by Yosys's names."""
        found = dict.fromkeys(self.kinds, 0)
        for name, count in cells.items():
            if name in self.cells:
                found[self.cells[name]] += count
        return {kind: count for kind, count in found.items() if count}

    def unknown(self, cells: Iterable[str]) -> list[str]:
        """Return the names among `cells` that are nothing of the FPGA's."""
        return sorted(name for name in cells if name not in self.cells and name not in self.nothing)

    def taken(self, counts: Mapping[str, int]) -> Counts:
        """Return what cells take of each of `resources`, from counts by the tables' names."""
        return {
            name: sum(weight * counts.get(kind, 0) for kind, weight in weights.items())
            for name, weights in self.resources.items()
        }
