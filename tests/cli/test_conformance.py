import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from kohakutpu.cli.main import cli
from kohakutpu.conformance import runner
from kohakutpu.devices.golden import GoldenDevice

pytestmark = pytest.mark.conformance


def ktpu(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["conformance", "--machine", "tiny", *arguments])
    assert result.exit_code == status, result.output
    return result


def test_a_part_on_the_golden_machine(tmp_path: Path) -> None:
    output, junit = tmp_path / "verdicts.json", tmp_path / "junit.xml"
    shown = ktpu("--select", "pipeline/*", "--json", str(output), "--junit", str(junit)).output
    assert "golden tiny" in shown
    assert "pipeline" in shown
    assert "FAILED" not in shown
    assert "not met" not in shown  # of a part, coverage says nothing
    (told,) = json.loads(output.read_text())
    assert told["machine"] == "tiny"
    assert all(case["passed"] for case in told["cases"])
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "0")
    assert [case.get("name") for case in suite] == [case["name"] for case in told["cases"]]
    assert {case.get("classname") for case in suite} == {"tiny.pipeline"}


def test_what_was_not_run_is_not_covered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "gap", lambda *_: None)
    output = tmp_path / "verdicts.json"
    ktpu("--select", "pipeline/*", "--json", str(output))
    (told,) = json.loads(output.read_text())
    assert all(case["skipped"] for case in told["cases"])
    assert {tally["met"] for tally in told["coverage"]} == {0}


def test_exported_cases_run_as_well(tmp_path: Path) -> None:
    chosen = ("--select", "flag/*")
    shown = ktpu(*chosen, "--export", str(tmp_path)).stdout
    assert shown == f"{tmp_path / 'tiny'}: 7 cases\n"
    index = json.loads((tmp_path / "tiny" / "suite.json").read_text())
    assert len(index["cases"]) == 7
    assert "FAILED" not in ktpu("--from", str(tmp_path)).output


def test_names_are_listed() -> None:
    assert ktpu("--list", "--select", "flag/o[fn]*").stdout == "flag/off\nflag/on\nflag/one\n"


def test_a_failure_is_shown_and_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GoldenDevice.read
    monkeypatch.setattr(GoldenDevice, "read", lambda *a: bytes(len(honest(*a))))
    shown = ktpu("--select", "flag/on", status=1).output
    assert "FAILED flag/on" in shown
    assert "bytes from 0x0 differ" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "nothing/*"], "no case has a name like 'nothing/*'"),
        (["--device", "golem", "--select", "flag/on"], "no device is called 'golem'"),
        (["--device", "board", "--select", "flag/on"], "KTPU_PORT=/dev/ttyUSB0"),
        (["--machine", "huge"], "huge"),
        (["--from", "tests"], "No such file"),
        (["--from", "tests", "--export", "there"], "exclude each other"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["conformance", *arguments])
    assert result.exit_code == 2
    assert message in result.output
    assert "kohakutpu/cli" not in result.output  # nobody's program
