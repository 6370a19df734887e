"""Every example and demo runs to its end, in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.golden
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
DEMOS = sorted((ROOT / "demos").rglob("*.py"))


def run(program: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("program", [*EXAMPLES, *DEMOS], ids=lambda path: path.stem)
def test_program(program: Path) -> None:
    assert "dispatches" in run(program)


def test_digits_says_what_it_measured() -> None:
    output = run(ROOT / "demos/kohakutpu/digits.py", KTPU_MACHINE="duo")
    host, machine = (
        float(re.search(rf"{name} +([\d.]+) %", output)[1])  # pyright: ignore[reportOptionalSubscript]
        for name in ("numpy FP32", "KohakuTPU")
    )
    assert host > 97
    assert abs(host - machine) <= 0.5
    assert "linear_silu" in output
    # Three layers and the softmax ran there, and did at least the work that 450 digits take.
    assert re.search(r"dispatches +4\n", output)
    macs = re.search(r"MACs +([\d,]+)", output)
    assert macs is not None
    assert int(macs[1].replace(",", "")) >= 450 * (64 * 128 + 128 * 64 + 64 * 10)
    assert "machine duo" in output


def test_there_is_something_to_run() -> None:
    assert len(EXAMPLES) >= 2
    assert len(DEMOS) >= 1
