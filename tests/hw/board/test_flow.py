"""From a system to a bitstream: what the steps say, and a small system through all of them."""

from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.board import flow
from hw.board.system import System
from hw.synth.boards import Board, board
from kohakutpu.config import preset
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
    timing = flow.timing(REPORT, seed=3, wanted=25.0)
    assert not timing.met
    assert [step.name for step in timing.path] == [
        "system.top.unit_1.front.pc",
        "system.top.unit_1.front.pc[2]",
        "system.top.mesh.o__valid",
    ]
    faster = flow.Timing(4, 24.0, 25.0, ())
    with pytest.raises(flow.TimingError, match=r"missed by 2 placements") as caught:
        flow.best([timing, faster])
    assert "seed 4: 24.0 MHz of 25.0" in str(caught.value)
    met = flow.Timing(5, 26.0, 25.0, ())
    assert flow.best([timing, met, faster]) is met


def test_a_clock_that_makes_no_rate() -> None:
    with pytest.raises(ValueError, match=r"makes no 3,000,000 bits a second: .* as 3,125,000"):
        System(preset("tiny"), 2048, 25_000_000, 3_000_000)
    with pytest.raises(ValueError, match="memory_words must be from 1"):
        System(preset("tiny"), 1 << 30, 25_000_000, 1_000_000)


@pytest.mark.build
def test_too_large(tmp_path: Path) -> None:
    small = Board("nail", "LFE5U-1F", {"LUT4": 100, "DP16KD": 1}, {}, ULX3S.platform, (), 1, "")
    flow.describe(SmallSystem(), ULX3S, tmp_path)
    with pytest.raises(flow.FitError, match=r"LFE5U-1F of nail: [\d,]+ LUT4 of 100, 9 DP16KD of 1"):
        flow.synthesise(small, tmp_path)


@pytest.mark.build
@pytest.mark.slow
def test_a_bitstream(tmp_path: Path) -> None:
    flow.describe(SmallSystem(), ULX3S, tmp_path)
    used = flow.synthesise(ULX3S, tmp_path)
    assert 500 < used["LUT4"] < 3000
    timing = flow.best([flow.place(ULX3S, tmp_path, 25.0, seed=1)])
    assert timing.reached > 25
    assert timing.path[0].name.startswith("system.bench.")
    assert flow.pack(tmp_path, timing.seed).stat().st_size > 50_000
