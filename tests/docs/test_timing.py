"""The page on timing is what was measured, with the machine and the board of today."""

import json
from pathlib import Path

import pytest

from hw.board.report import Report
from hw.synth.boards import board
from kohakutpu.config import preset

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "timing.json"


@pytest.fixture(scope="module")
def measured() -> Report:
    return Report.from_json(json.loads(MEASURED.read_text()))


def test_the_machine_is_that_of_today(measured: Report) -> None:
    update = "run: ktpu build --machine tiny --json docs/timing.json"
    assert (measured.machine, measured.hash) == ("tiny", preset("tiny").hash), update
    assert measured.limits == board(measured.board).limits
    assert measured.memory_words * 32 >= 64 << 10


def test_the_clock_is_met(measured: Report) -> None:
    assert measured.fastest.wanted >= 25
    assert measured.fastest.met
    assert all(measured.used[name] <= most for name, most in measured.limits.items())
    delays = sum(step.delay for step in measured.fastest.path)
    assert delays == pytest.approx(1000 / measured.fastest.reached, rel=0.01)
