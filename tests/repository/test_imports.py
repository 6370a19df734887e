import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Runs in a fresh interpreter: refuses to find what is neither ours, numpy nor the standard library.
GUARD = """
import sys

ALLOWED = {{"kohakutpu", "kohakuaccel", "compiler", "numpy"}} | set(sys.stdlib_module_names)
ALLOWED |= {{"_distutils_hack"}}  # what a virtual environment's own start-up files may import


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError(f"refused: {{name}}")
        return None


sys.meta_path.insert(0, Refuse())
sys.path.insert(0, {root!r})
import {module}
"""


def library_modules() -> list[str]:
    """Name every module of the library: all but the command line and the tests."""
    names: list[str] = []
    for package in ("kohakuaccel", "kohakutpu", "compiler"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] in {("kohakutpu", "cli"), ("compiler", "tests")}:
                continue
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def run_guarded(module: str) -> subprocess.CompletedProcess[str]:
    program = GUARD.format(root=str(ROOT), module=module)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )


def test_kohakutpu_alone() -> None:
    done = run_guarded("kohakutpu")
    assert done.returncode == 0, done.stderr


def test_every_library_module_needs_numpy_only() -> None:
    done = run_guarded(", ".join(library_modules()))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["rich", "click", "hypothesis"])
def test_the_guard_refuses(module: str) -> None:
    done = run_guarded(module)
    assert done.returncode != 0
    assert f"refused: {module}" in done.stderr
