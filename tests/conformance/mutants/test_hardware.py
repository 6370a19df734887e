"""Mistakes in the hardware: that they are still where they were, and that each is caught."""

import json
from pathlib import Path

import pytest

from tests.conformance.mutants import page, simulated
from tests.conformance.mutants.hardware import MISTAKES


@pytest.mark.conformance
@pytest.mark.slow
def test_every_mistake_can_be_made(tmp_path: Path) -> None:
    simulated.alter(tmp_path)
    for number, mistake in enumerate(MISTAKES, start=1):
        text = (tmp_path / "hw" / mistake.file).read_text()
        assert text.count(f"instead({number},") == mistake.times
        compile(text, mistake.file, "exec")


@pytest.mark.conformance
def test_each_was_caught() -> None:
    found: dict[str, str] = json.loads(page.FOUND.read_text())
    assert found.pop("") == ""  # the machine without a mistake passes
    assert set(found) == {mistake.name for mistake in MISTAKES}
    assert all(found.values())
    assert len(MISTAKES) >= 15


@pytest.mark.cocotb
@pytest.mark.slow
def test_each_is_caught() -> None:
    assert simulated.hunt_all() == json.loads(page.FOUND.read_text())


@pytest.mark.conformance
def test_a_text_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "part.py"
    file.write_text("one two two")
    with pytest.raises(ValueError, match=r"'two' is 2 times in .*part\.py, not 1"):
        simulated.replace(file, "two", "three")
