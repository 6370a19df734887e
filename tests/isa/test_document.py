"""The reference page is what the records say, and Sphinx takes it without a warning."""

import subprocess
import sys
from pathlib import Path

from kohakutpu import isa

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "isa.md"


def test_the_page_is_up_to_date() -> None:
    update = "run: python -m kohakutpu.isa.document > docs/isa.md"
    assert PAGE.read_text() == isa.document(), update


def test_the_command_prints_the_page() -> None:
    command = [sys.executable, "-W", "error", "-m", "kohakutpu.isa.document"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert printed.stdout == isa.document()
    assert printed.stderr == ""


def test_everything_is_there() -> None:
    page = isa.document()
    for kind in "CV":
        for record in isa.records(kind):
            section = page.split(f"### {record.name}\n")[1].split("\n### ")[0].split("\n## ")[0]
            assert page.count(f"### {record.name}\n") == 1
            assert f"```text\n{record.mnemonic}" in section
            assert record.meaning in section
            for operand in record.own:
                assert f"\n| `{operand.name}` | " in section
            for check in record.checks[len(record.form.checks) :]:
                assert f"* {check.text} (*{check.name}*)" in section
    assert page.count("* two waits name different semaphores") == 1


def test_bits_are_those_of_the_layout() -> None:
    section = isa.document().split("### GEMM\n")[1].split("\n### ")[0]
    assert "| `gm` | 111:102 | an integer from 1 to 1023 |" in section
    assert "| `accumulate` | 164:160 (imm 160, reg 164:161) |" in section
    assert ("gm", 102, 10) in isa.GEMM.layout
    assert ("accumulate.imm", 160, 1) in isa.GEMM.layout


def test_sphinx_builds_the_page(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser']\nmyst_heading_anchors = 3\nroot_doc = 'isa'\n"
    )
    (tmp_path / "isa.md").write_text(isa.document())
    (tmp_path / "machine.md").write_text("---\norphan: true\n---\n\n# The machine\n")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(tmp_path), str(tmp_path / "out")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    html = (tmp_path / "out" / "isa.html").read_text()
    assert 'href="#exec"' in html
    assert "<td><p>111:102</p></td>" in html
