"""Pages of measurements are what was measured: the command that a page names prints it."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"cycles": "bench.document", "synthesis": "hw.synth.document", "timing": "hw.board.report"}


@pytest.mark.parametrize(("name", "module"), PAGES.items())
def test_the_page_is_what_the_command_prints(name: str, module: str) -> None:
    page, measured = DOCS / f"{name}.md", DOCS / f"{name}.json"
    command = [sys.executable, "-W", "error", "-m", module, str(measured)]
    found = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=True)
    update = f"run: python -m {module} docs/{name}.json > docs/{name}.md"
    assert page.read_text() == found.stdout, update
    assert found.stderr == ""
    assert f"python -m {module} docs/{name}.json" in found.stdout
