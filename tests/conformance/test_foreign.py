"""An exported suite, run by something that cannot import this repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kohakutpu.config import preset
from kohakutpu.conformance import export
from kohakutpu.conformance.suite import control

pytestmark = pytest.mark.conformance
CHOSEN = re.compile(r"control/.\.end|word/.\.(SETA|LOOP|END|HALT)/")
FOREIGN = Path(__file__).with_name("foreign.py")


def wrong(folder: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-I", str(FOREIGN), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def test_a_front_end_by_the_pages_alone(tmp_path: Path) -> None:
    machine = preset("tiny")
    cases = [case for case, _ in control.cases(machine) if CHOSEN.match(case.name)]
    assert export.write(tmp_path, machine, cases) == len(cases) > 100
    assert wrong(tmp_path) == []
    assert wrong(tmp_path, "9") == ["control/C.end/too-deep", "control/V.end/too-deep"]
