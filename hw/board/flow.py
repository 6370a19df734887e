"""From a system to a bitstream: Yosys, nextpnr and a packer from PyPI, each step checked.

Fit is known after synthesis, before anything is placed. nextpnr is told to finish whatever the
timing is; a clock that is missed is then an error here, with the path that misses it.
"""

import json
import re
import sys
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from hw.board import floorplan, multipliers
from hw.board.process import Usage, measured
from hw.board.top import BoardTop
from hw.board.vendor import REPORT, TOP, vendor
from hw.sim.cache import obtain
from hw.sim.toolchain import ToolError, run
from hw.synth import yosys
from hw.synth.boards import Board
from hw.synth.family import Family
from hw.synth.netlist import relaxed

NAMELESS = "w:*[[]* x:* %d"
"""Only wires whose names it cannot bear: the others say where a path is."""


def versions(board: Board) -> dict[str, str]:
    """Return the versions of what makes a bitstream for a board.

    Raises
    ------
    ToolError
        If any of it is not installed.
    """
    found: dict[str, str] = {}
    for name in ("amaranth", yosys.PACKAGE, *vendor(board).packages):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise ToolError(f"a bitstream needs {name}; it is not installed") from None
    return found


class FitError(RuntimeError):
    """The system is larger than the FPGA."""


class TimingError(RuntimeError):
    """The clock is missed."""


class RoutingError(RuntimeError):
    """nextpnr ended without a placement or a way for every wire; the message has what it said."""


@dataclass(frozen=True)
class Step:
    """One hop of a path: the cell that it leaves or passes, and how long it takes.

    Parameters
    ----------
    kind : str
        ``"logic"``, ``"routing"``, ``"clk-to-q"`` or ``"setup"``.
    name : str
        Cell or net, with its module.
    delay : float
        Nanoseconds.
    """

    kind: str
    name: str
    delay: float


@dataclass(frozen=True)
class Timing:
    """How fast a placed system is.

    Parameters
    ----------
    seed : int
        Of the placement.
    reached, wanted : float
        MHz.
    path : tuple of Step
        The slowest.
    usage : Usage
        What placing and routing took.
    """

    seed: int
    reached: float
    wanted: float
    path: tuple[Step, ...]
    usage: Usage

    @property
    def met(self) -> bool:
        """Whether the clock is."""
        return self.reached >= self.wanted

    def describe(self) -> str:
        """Return the figures and the slowest path, its modules by name."""
        lines = [
            f"seed {self.seed}: {self.reached:.1f} MHz of {self.wanted:.1f}",
            *(f"  {step.delay:6.2f} ns  {step.kind:8}  {step.name}" for step in self.path),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Synthesis:
    """A system as cells of an FPGA, which are in ``top.json``.

    Parameters
    ----------
    used : dict of str to int
        What they take of each of the family's resources.
    usage : Usage
        What making them took, whenever that was.
    """

    used: dict[str, int]
    usage: Usage

    def fit(self, board: Board) -> None:
        """Check that they fit.

        Raises
        ------
        FitError
            If the board has not as much; the message has the numbers.
        """
        over = [
            f"{self.used[name]:,} {name} of {most:,}"
            for name, most in board.limits.items()
            if self.used[name] > most
        ]
        if over:
            raise FitError(f"too large for the {board.device} of {board.name}: {', '.join(over)}")


def describe(system: wiring.Component, board: Board, frequency: int, folder: Path) -> None:
    """Write the design and its pins.

    Parameters
    ----------
    system : amaranth.lib.wiring.Component
        What `hw.board.top.BoardTop` puts on a board.
    board : Board
        Which.
    frequency : int
        Hz of the system's clock.
    folder : pathlib.Path
        Where ``design.il`` and the file of pins go.

    Raises
    ------
    ValueError
        If the board cannot make that frequency.
    ToolError
        If amaranth-boards is missing.
    """
    tools = vendor(board)
    module_name, _, platform_name = board.platform.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise ToolError(f"a bitstream needs {error.name}; it is not installed") from None
    platform = getattr(module, platform_name)()
    # Without lines of sources: what is synthesised depends on what they say, not on where.
    top = BoardTop(system, board.clock, frequency, tools.clock, board.lights)
    files = platform.prepare(top, name=TOP, emit_src=False).files
    (folder / "design.il").write_text(relaxed(_text(files[f"{TOP}.il"])))
    (folder / tools.pins).write_text(_text(files[tools.pins]))


def synthesise(board: Board, folder: Path) -> Synthesis:
    """Map the design in `folder` to cells; one that was mapped before comes from the cache.

    Raises
    ------
    ToolError
        If Yosys is missing or fails.
    """
    design = (folder / "design.il").read_text()
    script = f"{yosys.script(board.family, TOP, NAMELESS)}write_json {TOP}.json\n"
    files = board.family.files()

    def build(work: Path) -> None:
        yosys.write(work, {"design.il": design, "synth.ys": script, **files})
        command = [sys.executable, "-c", yosys.YOSYS, "-q", "-l", "synth.log", "synth.ys"]
        usage = measured(command, work)
        (work / "usage.json").write_text(json.dumps(asdict(usage)))
        (work / "design.il").unlink()

    made = obtain("synth-board", [yosys.version(), script, design, *files.values()], build)
    # nextpnr as WebAssembly sees the folder it runs in, and nothing else.
    netlist = json.loads((made / f"{TOP}.json").read_bytes())
    cells = netlist["modules"][TOP]["cells"]
    multipliers.align(cells)
    places = floorplan.arrange(cells, board.device)
    for name, site in places.items():
        cells[name]["attributes"]["BEL"] = site
    if places:
        cells.update(floorplan.spacers())
    (folder / f"{TOP}.json").write_text(json.dumps(netlist))
    counts = board.family.count(yosys.counts(made, f"\\{TOP}"))
    usage = Usage(**json.loads((made / "usage.json").read_text()))
    return Synthesis(board.family.taken(counts), usage)


def place(board: Board, folder: Path, frequency: float, seed: int) -> Timing:
    """Place and route.

    Parameters
    ----------
    board : Board
        Which.
    folder : pathlib.Path
        Where `synthesise` left the design, and where the result goes.
    frequency : float
        MHz that are wanted.
    seed : int
        Another one is another placement.

    Raises
    ------
    ToolError
        If nextpnr is missing, or times no path.
    RoutingError
        If it finds no placement or route; another seed may.
    """
    versions(board)
    try:
        usage = measured(vendor(board).place(board, frequency, seed), folder)
    except ToolError as error:
        raise RoutingError(f"seed {seed}: no route: {error}") from error
    report = json.loads((folder / REPORT.format(seed=seed)).read_text())
    return timing(report, board.family, seed, frequency, usage)


def timing(
    report: dict[str, Any], family: Family, seed: int, wanted: float, usage: Usage
) -> Timing:
    """Return what nextpnr reports of the slowest clock."""
    if not report["fmax"]:
        raise ToolError("nextpnr found no path between registers, so it says nothing of the clock")
    # Yosys calls the cells around a register by its name, with this behind it.
    mapped = re.compile(rf"_({'|'.join(family.cells)})(_.*|$)")
    clock, figures = min(report["fmax"].items(), key=lambda item: item[1]["achieved"])
    path: list[dict[str, Any]] = next(
        (
            found["path"]
            for found in report["critical_paths"]
            if _clock(found["from"]) == _clock(found["to"]) == clock
        ),
        [],
    )
    steps = tuple(
        Step(hop["type"], mapped.sub("", hop.get("net") or hop["to"]["cell"]), hop["delay"])
        for hop in path
    )
    return Timing(seed, figures["achieved"], wanted, steps, usage)


def _text(contents: str | bytes) -> str:
    return contents if isinstance(contents, str) else contents.decode()


def _clock(end: str) -> str:
    """Return the clock of one end of a path, as ``posedge NAME``."""
    return end.split()[-1]


def pack(board: Board, folder: Path, seed: int) -> Path:
    """Return the bitstream of a placement.

    Raises
    ------
    ToolError
        If the packer fails.
    """
    run(vendor(board).pack(board, seed), cwd=folder)
    return folder / vendor(board).bitstream


def best(timings: list[Timing]) -> Timing:
    """Return the fastest placement.

    Raises
    ------
    TimingError
        If none meets the clock; the message has the path that misses it by the least.
    """
    fastest = max(timings, key=lambda timing: timing.reached)
    if not fastest.met:
        raise TimingError(
            f"the clock of {fastest.wanted:.1f} MHz is missed by {len(timings)} placements; the "
            f"best of them:\n{fastest.describe()}"
        )
    return fastest
