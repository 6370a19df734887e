"""The page on timing is what was measured, with the machine and the board of today."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hw.board.report import Report, document
from hw.synth.boards import board
from kohakutpu.config import preset

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "timing.json"
PAGE = ROOT / "docs" / "timing.md"


@pytest.fixture(scope="module")
def measured() -> Report:
    return Report.from_json(json.loads(MEASURED.read_text()))


def test_the_page_is_what_the_json_says(measured: Report) -> None:
    update = "run: python -m hw.board.report docs/timing.json > docs/timing.md"
    assert PAGE.read_text() == document(measured), update


def test_the_command_prints_the_page() -> None:
    command = [sys.executable, "-W", "error", "-m", "hw.board.report", str(MEASURED)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert printed.stdout == PAGE.read_text()
    assert printed.stderr == ""


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
