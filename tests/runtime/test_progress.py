import sys
from time import sleep

import pytest

from kohakuaccel.runtime import progress
from kohakutpu.devices.expected import RunProgress, describe


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "LOGGED", 0.05)


def test_what_is_quick_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.notice("building"):
        pass
    RunProgress().update(1, 1)
    assert capsys.readouterr().err == ""


def test_what_takes_long_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.notice("building"):
        sleep(0.2)
        assert capsys.readouterr().err == "ktpu: building ...\n"
    assert capsys.readouterr().err == "ktpu: building: 0 s\n"


def test_what_fails_says_so_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="wrong"), progress.notice("building"):
        raise ValueError("wrong")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("cycles", "seconds", "instructions", "total", "text"),
    [
        (300_000, 3.0, 0, 0, "300,000 cycles, 100 k/s"),
        (300_000, 3.0, 250, 1000, "300,000 cycles, 100 k/s, about 9 s left"),
        (300_000, 3.0, 1000, 1000, "300,000 cycles, 100 k/s, about 0 s left"),
        (300_000, 3.0, 1001, 1000, "300,000 cycles, 100 k/s"),  # the estimate was wrong
    ],
)
def test_lines(cycles: int, seconds: float, instructions: int, total: int, text: str) -> None:
    assert describe(cycles, instructions, seconds, total) == text


def test_a_run_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def expected() -> int:
        asked.append(True)
        return 100

    shown = RunProgress(expected)
    shown.update(10, 1)
    sleep(0.06)
    shown.update(2000, 50)
    shown.update(2001, 50)  # too soon
    sleep(0.06)
    shown.update(4000, 100)
    shown.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" cycles")[0] for line in lines] == ["ktpu: 2,000", "ktpu: 4,000"]
    assert asked == [True]


def test_a_run_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = RunProgress()
    sleep(0.06)
    shown.update(2000, 0)
    shown.close()
    err = capsys.readouterr().err
    assert err.startswith("\r\x1b[Kktpu: 2,000 cycles")
    assert err.endswith("\r\x1b[K")
    assert "\n" not in err
