"""From a system to a bitstream: what the steps say, and a small system through all of them."""

import resource
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.board import flow
from hw.board.process import MAXRSS_BYTES, Usage, measured
from hw.board.system import System
from hw.sim.toolchain import ToolError
from hw.synth.boards import BOARDS, Board, board
from kohakutpu.cli.building import MEMORY_WORDS
from kohakutpu.config import preset
from kohakutpu.devices.board import BAUD
from tests.hw.link.bench import LinkBench

ULX3S = board("ulx3s-85f")


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
    timing = flow.timing(REPORT, seed=3, wanted=25.0, usage=USAGE)
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


def test_a_clock_that_makes_no_rate() -> None:
    with pytest.raises(ValueError, match=r"makes no 3,000,000 bits a second: .* as 3,125,000"):
        System(preset("tiny"), 2048, 25_000_000, 3_000_000)
    with pytest.raises(ValueError, match="memory_words must be from 1"):
        System(preset("tiny"), 1 << 30, 25_000_000, 1_000_000)


def test_what_a_process_takes(tmp_path: Path) -> None:
    program = "import time; held = bytearray(300 << 20); held[::4096] = bytes(len(held[::4096]))"
    usage = measured([sys.executable, "-c", f"{program}; time.sleep(0.3)"], tmp_path)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_BYTES
    assert 300 << 20 <= usage.memory < max(600 << 20, own + 1)
    assert usage.seconds >= 0.3
    assert 0 < usage.processor < usage.seconds
    assert str(USAGE) == "60 s, of them 50 s of processor time, 1.00 GiB at most"


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    program = "import pathlib; pathlib.Path('here').touch(); print('no room'); raise SystemExit(3)"
    with pytest.raises(ToolError, match=r"failed with status 3:\nno room"):
        measured([sys.executable, "-c", program], tmp_path)
    assert (tmp_path / "here").exists()


def test_what_does_not_fit_is_said_in_numbers() -> None:
    used = {"LUT4": 1200, "FF": 10, "MULT18X18D": 0, "DP16KD": 9}
    made = flow.Synthesis(used, USAGE)
    limits = {"LUT4": 100, "FF": 10, "DP16KD": 1}
    small = Board("nail", "LFE5U-1F", limits, {}, "", (), 1, 1, 0, "")
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
@pytest.mark.timeout(1800)  # five minutes of a processor that is shared
def test_tiny_fits(tmp_path: Path) -> None:
    """What `ktpu build` synthesises, for which the clock of the placement is another matter."""
    system = System(preset("tiny"), MEMORY_WORDS, ULX3S.frequency, BAUD)
    flow.describe(system, ULX3S, ULX3S.frequency, tmp_path)
    made = flow.synthesise(tmp_path)
    made.fit(ULX3S)
    # Memory is 32 of the block RAMs, and every product of the systolic array has a multiplier.
    assert made.used["DP16KD"] > MEMORY_WORDS * 256 // (1 << 14)
    assert made.used["MULT18X18D"] >= 128
    assert made.used["LUT4"] < ULX3S.budget["LUT4"]


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.parametrize("name", BOARDS)
def test_a_bitstream(name: str, tmp_path: Path) -> None:
    target = board(name)
    flow.describe(SmallSystem(), target, 50_000_000, tmp_path)
    made = flow.synthesise(tmp_path)
    made.fit(target)
    assert 500 < made.used["LUT4"] < 3000
    timing = flow.best([flow.place(target, tmp_path, 50.0, seed=1)])
    assert timing.reached > 50
    assert timing.path[0].name.startswith("system.bench.")
    assert timing.usage.memory > 100 << 20
    assert flow.pack(tmp_path, timing.seed).stat().st_size > 50_000
