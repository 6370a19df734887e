"""Running the simulated hardware with mistakes in it.

``python -m tests.conformance.mutants.simulated > tests/conformance/mutants/hardware.json``: copies
`hw` and what it needs, alters the copy so that it holds every mutant of `hardware`, builds one
simulator of `tiny` from it, and runs the suite once for each mutant until a case fails. The result
leads from mutant to case. Which mutant is selected comes with the latency of memory, the one number
that reaches the hardware at a reset.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conformance.mutants.hardware import MISTAKES

ROOT = Path(__file__).parents[3]
COPIED = ("hw", "kohakutpu", "kohakuaccel", "compiler", "tests/conformance/mutants")
SELECTION = '''"""Which mutant is selected, and what that changes."""

from amaranth.hdl import Mux, Signal

MUTANT = Signal(8)


def instead(number, wrong, right):
    """Return `wrong` while a mutant is selected, else `right`."""
    return Mux(MUTANT == number, wrong, right)
'''
SHIFT = 16  # of the mutant's number in the latency of memory
LATENCY = 16
WATCHDOG = 8192
LIMIT = 400_000  # cycles; no case takes a tenth

MEMORY = (
    ("    input rready\n", "    input rready,\n    output reg [7:0] mutant\n"),
    (
        "latency <= ram_latency();",
        f"latency <= ram_latency() & 32'hffff; mutant <= 8'(ram_latency() >> {SHIFT});",
    ),
)
SELECTED = 'o_mutant=MUTANT if node == self._machine.of_kind("M")[0] else Signal(8),\n'
TESTBENCH = (
    ("from hw.control.lite import", "from hw.mutation import MUTANT\nfrom hw.control.lite import"),
    (
        "i_rst=ResetSignal(),\n",
        "i_rst=ResetSignal(),\n" + SELECTED,
    ),
)


def replace(path: Path, old: str, new: str, times: int = 1) -> None:
    """Replace text in a file.

    Raises
    ------
    ValueError
        If it is not there as often as it should be.
    """
    text = path.read_text()
    if text.count(old) != times:
        raise ValueError(f"{old!r} is {text.count(old)} times in {path}, not {times}")
    path.write_text(text.replace(old, new))


def alter(copy: Path) -> None:
    """Copy the hardware to a folder, with every mutant in it."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    hw = copy / "hw"
    (hw / "mutation.py").write_text(SELECTION)
    for old, new in MEMORY:
        replace(hw / "sim" / "axi_ram.v", old, new)
    for old, new in TESTBENCH:
        replace(hw / "sim" / "testbench.py", old, new)
    for number, mistake in enumerate(MISTAKES, start=1):
        path = hw / mistake.file
        replace(path, mistake.old, mistake.new.format(n=number), mistake.times)
        text = path.read_text()
        if "import instead" not in text:
            start = text.index("\nfrom amaranth") + 1
            path.write_text(f"{text[:start]}from hw.mutation import instead\n{text[start:]}")


def hunt_all() -> dict[str, str]:
    """Return for each mutant the first case that fails on it, "" if none does.

    The unaltered machine is the mutant called "".
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        alter(copy)
        environment = {**os.environ, "PYTHONPATH": folder}
        command = [sys.executable, "-m", "tests.conformance.mutants.simulated", "--here"]
        done = subprocess.run(
            command, cwd=copy, env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
    return json.loads(done.stdout)


def hunt_here() -> dict[str, str]:
    """Do so in an altered copy, whose modules are those that are imported."""
    from kohakutpu.config import preset
    from kohakutpu.conformance import generate, judge
    from kohakutpu.devices.rtl import RtlDevice

    machine = preset("tiny")
    cases = [case for case, _ in generate(machine)]
    found: dict[str, str] = {}
    for number, name in enumerate(["", *(mistake.name for mistake in MISTAKES)]):
        latency = LATENCY | number << SHIFT
        device = RtlDevice(machine, latency=latency, watchdog=WATCHDOG, limit=LIMIT)
        failed = (case.name for case in cases if not judge(case, device).passed)
        found[name] = next(failed, "")
        device.close()
        print(f"{name or 'no mutant'}: {found[name] or 'passes'}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    result = hunt_here() if "--here" in sys.argv else hunt_all()
    print(json.dumps(result, indent=1))
