import subprocess
import sys
from pathlib import Path

import pytest

from kohakutpu.numerics import document


@pytest.fixture(scope="module")
def page() -> str:
    return document.document()


def test_page_is_up_to_date(page: str) -> None:
    update = "run: python -m kohakutpu.numerics.document"
    assert document.PAGE.read_text(encoding="utf-8") == page, update


def test_nothing_is_left_open(page: str) -> None:
    assert "{" not in page
    for line in page.splitlines():
        assert not line.endswith(" ")


def test_tables_have_their_columns(page: str) -> None:
    columns = 0
    for line in page.splitlines():
        if line.startswith("|"):
            count = line.count("|")
            assert columns in (0, count), line
            columns = count
        else:
            columns = 0


def test_command_writes_the_page(page: str, tmp_path: Path) -> None:
    target = tmp_path / "numbers.md"
    command = [sys.executable, "-W", "error", "-m", "kohakutpu.numerics.document", str(target)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert target.read_text(encoding="utf-8") == page
