"""A test that hangs fails, and says where."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_there_is_a_limit(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.hasplugin("timeout")
    assert 60 <= float(pytestconfig.getini("timeout")) <= 1800


def test_a_hang_is_a_failure_with_a_traceback(tmp_path: Path) -> None:
    hang = tmp_path / "test_hang.py"
    hang.write_text("import time\n\ndef test_hang():\n    time.sleep(30)  # here\n")
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0.5", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", str(hang)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "time.sleep(30)  # here" in done.stdout
    assert "Timeout (>0.5s)" in done.stdout
