"""`ktpu synth`, with measurements that stand still; tests/hw/synth synthesises for real."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hw.synth import utilisation, yosys
from hw.synth.boards import Board
from hw.synth.ecp5 import ECP5
from kohakutpu.cli.main import cli
from kohakutpu.config import Machine

pytestmark = pytest.mark.golden


def row(path: str, copies: int = 1, **cells: int) -> utilisation.Row:
    counts = {kind: cells.get(kind, 0) for kind in ECP5.kinds}
    return utilisation.Row(path, copies, counts, counts)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def measure(
        machine: Machine, board: Board, progress: Callable[[str, int, int], None]
    ) -> utilisation.Utilisation:
        asked.append(machine.name)
        progress("top", 0, 1)
        rows = [
            row("top", LUT4=70_000, CCU2C=1_000, FF=123, MULT18X18D=128, DP16KD=9),
            row("top/mesh", LUT4=1_234),
            row("top/mesh/router", copies=3, FF=7),
            row("top/mesh/router/input", LUT4=1),
        ]
        limits, budget = dict(board.limits), dict(board.budget)
        return utilisation.Utilisation(
            machine.name, machine.hash, board.name, board.device, limits, budget, {}, rows
        )

    monkeypatch.setattr(utilisation, "measure", measure)
    monkeypatch.setattr(yosys, "version", lambda: "0")
    return asked


def test_the_table(measured: list[str], tmp_path: Path) -> None:
    file = tmp_path / "used.json"
    result = CliRunner().invoke(cli, ["synth", "--machine", "tiny", "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert measured == ["tiny"]
    lines = [line.strip("│┃ ").replace("│", " ").split() for line in result.stdout.splitlines()]
    assert "tiny on ulx3s-85f (LFE5U-85F)" in result.stdout
    assert ["top", "72,000", "123", "128", "9", "70,000", "1,000", "0", "0", "0"] in lines
    assert ["mesh", "1,234", "0", "0", "0", "1,234", "0", "0", "0", "0"] in lines
    assert ["router", "x3", "0", "21", "0", "0", "0", "0", "0", "0", "0"] in lines
    assert not any(line[:1] == ["input"] for line in lines)
    assert ["the", "device", "83,640", "83,640", "156", "208"] in lines
    assert ["used", "86.1%", "0.1%", "82.1%", "4.3%"] in lines
    assert "over budget: 72,000 LUT4 > 65,000" in result.stdout
    again = utilisation.Utilisation.from_json(json.loads(file.read_text()))
    assert again.rows[2] == row("top/mesh/router", copies=3, FF=7)


def test_mistakes_are_one_message(measured: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistake(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["synth", *arguments])
        assert result.exit_code == 2
        assert result.stdout == ""
        return result.stderr

    boards = "ulx3s-85f, ecpix5-85f, tangconsole-138k"
    unknown = mistake("--board", "x")
    assert f"no board is called 'x'; there are {boards}\nfix: " in unknown
    assert "no machine is called 'huge'" in mistake("--machine", "huge")
    monkeypatch.undo()
    monkeypatch.setattr(yosys, "PACKAGE", "yowasp-nothing")
    missing = mistake("--machine", "tiny")
    assert "yowasp-nothing" in missing
    assert "fix: python -m pip install 'kohakutpu[fpga]'" in missing
    assert measured == []
