"""Two workers of `make test` do not wait for the same simulator."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = "tests/hw/test_control.py"
OTHERS = "tests/isa/test_construction.py"


@pytest.mark.parametrize(("file", "workers"), [(BENCH, 1), (OTHERS, 2)])
def test_a_bench_has_one_worker(file: str, workers: int) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "-v", "-p", "no:cacheprovider", file]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    ran = re.findall(rf"\[(gw\d)\] .* PASSED {re.escape(file)}", found.stdout)
    assert len(ran) > 2
    assert len(set(ran)) == workers
