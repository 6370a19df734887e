from pathlib import Path

import pytest

from tools import file_sizes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [(400, 0, ""), (401, 0, "worth a look"), (600, 0, "worth a look"), (601, 1, "split it")],
)
def test_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, status: int, words: str
) -> None:
    (tmp_path / "hw").mkdir()
    (tmp_path / "hw" / "router.py").write_text("x = 1\n" * lines)
    assert file_sizes.main(tmp_path) == status
    printed = capsys.readouterr().out
    assert (f"hw/router.py: {lines} lines" in printed) == bool(words)
    assert words in printed


def test_tables_are_excepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kohakutpu").mkdir()
    (tmp_path / "kohakutpu" / "rom.py").write_text("1,\n" * 5000)
    assert file_sizes.main(tmp_path) == 1
    monkeypatch.setitem(file_sizes.TABLES, "kohakutpu/rom.py", "coefficients")
    assert file_sizes.main(tmp_path) == 0


def test_this_repository() -> None:
    assert file_sizes.main(ROOT) == 0
    assert all((ROOT / name).is_file() for name in file_sizes.TABLES)
    covered = {name.split("/")[0] for name, _ in file_sizes.lengths(ROOT)}
    assert {"kohakuaccel", "kohakutpu", "compiler", "tests", "tools"} <= covered
