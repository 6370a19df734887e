"""The page on cycles is what was measured."""

import json
from pathlib import Path

from bench.document import TITLES, shares
from bench.simulation import MACHINES
from kohakutpu.config import preset

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "cycles.json"


def test_figures_are_possible() -> None:
    figures = {r["name"]: r["figures"] for r in json.loads(MEASURED.read_text())["results"]}
    assert set(figures) <= set(TITLES)
    for name, found in figures.items():
        assert 0 <= found["utilisation"] <= 1
        for figure in found:
            engine, _, kind = figure.rpartition("_")
            if kind == "busy":
                assert 0 <= found[figure] + found[f"{engine}_stalled"] <= 1, (name, engine)
    macs = 256 * 1024 * 256
    names = {machine: f"rtl_{machine}_matmul_256x1024x256" for machine in MACHINES}
    measured = {machine: figures[name] for machine, name in names.items() if name in figures}
    assert "small" in measured
    for machine, found in measured.items():
        peak = preset(machine).macs_per_cycle * len(preset(machine).of_kind("C"))
        done = found["cycles"] * found["utilisation"] * peak
        assert done >= macs * (1 - 1e-6)
        assert done <= 1.05 * macs  # tiles that do not divide the matrix pad it


def test_shares_by_hand() -> None:
    assert shares({"fill_busy": 0.25, "fill_stalled": 0.5}, "fill") == "25 / 50 / 25"
    assert shares({}, "fill") == ""
