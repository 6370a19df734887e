"""`ktpu conformance --device board`: the suite through serial pins."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kohakutpu import devices
from kohakutpu.cli.main import cli
from kohakutpu.conformance import generate, run
from tests.devices.board import MACHINE, SLOW_BAUD, Board

pytestmark = pytest.mark.cocotb


@pytest.mark.parametrize(
    ("select", "passed", "skipped"),
    [("flag/*", 7, 0), ("fault/MEMORY/VFILL*", 2, 1)],  # one asks for more memory than it has
)
def test_a_part_of_the_suite(
    board: Board, tmp_path: Path, select: str, passed: int, skipped: int
) -> None:
    output = tmp_path / "verdicts.json"
    found = CliRunner().invoke(
        cli,
        ["conformance", "--device", "board", "--select", select, "--json", str(output)],
        env={"KTPU_PORT": str(board.port), "KTPU_BAUD": str(SLOW_BAUD), "KTPU_MACHINE": "tiny"},
    )
    assert found.exit_code == 0, found.output
    (told,) = json.loads(output.read_text())
    assert (told["device"], told["machine"]) == ("board", "tiny")
    cases = told["cases"]
    assert [sum(bool(c[key]) for c in cases) for key in ("passed", "skipped", "problems")] == [
        passed,
        skipped,
        0,
    ]


@pytest.mark.slow
def test_cases_of_every_group(board: Board) -> None:
    chosen = [case for case, _ in generate(MACHINE)][::40]
    assert len({case.group for case in chosen}) >= 10
    options = {"port": str(board.port), "baud": SLOW_BAUD}
    device = devices.create("board", MACHINE, options)
    verdicts = run(chosen, device)
    device.close()
    assert [(v.case.name, v.problems) for v in verdicts if v.problems] == []
    assert sum(bool(v.skipped) for v in verdicts) <= 1  # its memory is small
