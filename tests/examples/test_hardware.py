"""The demo on simulated hardware, and a program through the command line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cocotb
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT), "KTPU_MACHINE": "tiny"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_demo() -> None:
    output = run(str(ROOT / "demos/kohakutpu/digits.py"), "--hardware")
    assert "simulated hardware (tiny): 32 digits in" in output
    assert "every bit the same" in output


def test_the_command_line() -> None:
    program = str(ROOT / "examples/kohakutpu/02_kernel.py")
    command = "from kohakutpu.cli import main; main()"
    output = run("-c", command, "run", "--device", "rtl", "--stats", program)
    assert re.search(r"^device +rtl, machine tiny$", output, re.MULTILINE)
    assert "EXEC" in output
