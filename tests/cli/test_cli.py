import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kohakuaccel.image import Image
from kohakutpu.api.session import _Current
from kohakutpu.cli.main import cli
from kohakutpu.config import PRESETS, preset

pytestmark = pytest.mark.golden
ROOT = Path(__file__).parents[2]

KERNELS = """\
from kohakuaccel.lang import grid
from kohakutpu import lang as L
from kohakutpu.lang import kernel

@kernel
def double(x=L.In(...), y=L.Out(...), *, n=None, factor=2):
    for e in grid(x.parts(n)):
        y[e] <<= x[e] * factor

@kernel
def half(x=L.In(...), y=L.Out(...)):
    for e in grid(2):
        y[e] <<= x[e]
"""


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let each command start as in a process of its own, in an empty folder."""
    monkeypatch.setattr(_Current, "session", None)
    monkeypatch.setattr(_Current, "opened", {})
    monkeypatch.setattr(sys, "argv", ["ktpu"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("KTPU_DEVICE", "KTPU_MACHINE", "KTPU_POISON", "KTPU_SEED", "KTPU_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(KERNELS)


def ktpu(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == status, (result.output, result.exception)
    assert "Traceback" not in result.output or status == 1
    return result


# ------------------------------------------------------------------------ run


def test_run_passes_arguments_and_selects(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    (tmp_path / "program.py").write_text(
        "import sys\nimport beside\nfrom kohakutpu import api as ktpu\n"
        "print(__name__, sys.argv, beside.NAME, ktpu.device().machine.name)\n"
        "print((ktpu.tensor([1.0, 2.0]) + 1).numpy())\n"
    )
    result = ktpu("run", "--machine", "tiny", "--stats", "program.py", "--stats", "-x", "1")
    assert "__main__ ['program.py', '--stats', '-x', '1'] beside tiny" in result.output
    assert "[2. 3.]" in result.output
    assert "golden, machine tiny" in result.output
    assert "dispatches" in result.output
    assert "dispatches" not in ktpu("run", "program.py").output


def test_run_shows_a_diagnostic_as_one_message(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from kohakutpu import api as ktpu\nx = ktpu.zeros((3, 4))\ny = x @ ktpu.zeros((4, 3))\n"
    )
    result = ktpu("run", "program.py", status=2)
    assert "program.py:3: matmul contracts the last axis of both" in result.stderr
    assert "    y = x @ ktpu.zeros((4, 3))" in result.stderr
    assert "fix: " in result.stderr


def test_run_shows_the_programs_own_exception_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    result = ktpu("run", "program.py", status=1)
    assert "ZeroDivisionError" in result.stderr
    assert 'program.py", line 4' in result.stderr
    assert "runpy" not in result.stderr
    (tmp_path / "program.py").write_text("def f(:\n")
    assert "SyntaxError" in ktpu("run", "program.py", status=1).stderr
    (tmp_path / "program.py").write_text("import sys\nsys.exit(7)\n")
    ktpu("run", "program.py", status=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing.py"], "nothing.py"),
        (["run", "--machine", "huge", "mine.py"], "no machine is called 'huge'"),
        (
            ["run", "--device", "toaster", "mine.py"],
            "no device is called 'toaster'; there are golden",
        ),
        (["plan", "matmul"], "Missing argument"),
        (["plan", "matmull", "4x4", "4x4"], "kohakutpu.kernels has no kernel 'matmull'; there are"),
        (["plan", "matmul", "4x4"], "lacks `b`"),
        (["plan", "matmul", "4x4", "4x5"], "K"),
        (["plan", "softmax", "1000"], "ktpu: `x` has"),
        (["plan", "matmul", "4x4", "4xx4"], "'4xx4' is no shape"),
        (["plan", "matmul", "4x4", "4x4", "-k", "gm"], "'gm' is no knob"),
        (["plan", "matmul", "4x4", "4x4", "-k", "gx=1"], "no knob `gx`"),
        (["plan", "matmul", "4x4", "4x4", "--machine", "huge"], "no machine is called 'huge'"),
        (["plan", "nothing.py:double", "4"], "nothing.py: no such file"),
        (["plan", "mine.py:triple", "4"], "there are double, half"),
        (["plan", "mine.py:half", "4"], "mine.py"),
        (["tune", "mine.py:double", "4", "-k", "n=16"], "there is nothing to search"),
        (["tune", "mine.py:double", "4", "-s", "n"], "'n' names no knob and values"),
        (["tune", "mine.py:double", "4", "-s", "m=1"], "no knob `m`"),
        (["tune", "mine.py:double", "4", "--measure", "toaster"], "no device is called"),
        (["disasm", "nothing.bin"], "nothing.bin"),
        (["disasm", "mine.py"], "not an image"),
        (["asm", "mine.py", "-o", "x.bin"], "line 1, column 1: expected .unit"),
        (["asm", "mine.py"], "--output"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_mistakes_are_one_message_and_status_2(arguments: list[str], message: str) -> None:
    result = ktpu(*arguments, status=2)
    assert message in result.stderr
    assert result.stdout == ""


def test_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTPU_TRACEBACK", "1")
    result = CliRunner().invoke(cli, ["plan", "matmull", "4x4", "4x4"])
    assert result.exception is not None
    assert type(result.exception).__name__ == "CallError"


# ------------------------------------------------------------ plan and disasm


def test_plan() -> None:
    result = ktpu("plan", "matmul", "100x64", "48x64", "-k", "gm=2", "-k", "nk=1")
    assert "matmul" in result.output
    assert "GEMM" in result.output
    assert result.output != ktpu("plan", "matmul", "100x64", "48x64", "-k", "gm=4").output
    assert "double" in ktpu("plan", "mine.py:double", "3x5", "-k", "factor=0.5").output
    assert ktpu("plan", "softmax", "8x1000", "--machine", "duo").output


def test_tune() -> None:
    lines = ktpu("tune", "mine.py:double", "40x100", "--measure", "golden").output.splitlines()
    assert lines[0].split() == ["n", "estimate", "measured"]
    assert "double: " in lines[-1]
    listed = ktpu("tune", "mine.py:double", "40x100", "-s", "n=16,64", "-k", "factor=3").output
    assert [line.split()[0] for line in listed.splitlines()[1:-1]][-1] in ("16", "64")


def test_run_shows_where_the_cycles_go(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from kohakutpu import api as ktpu\nx = ktpu.full((40, 40), 1.0)\n(x @ x).softmax()\n"
    )
    chosen = ["--profile", "--timeline", "run.json", "--roofline", "roof.svg"]
    output = ktpu("run", *chosen, "program.py").output
    assert output.splitlines()[0].startswith("kernel")
    assert "softmax" in output
    assert '"name":"GEMM"' in (tmp_path / "run.json").read_text()
    assert "matmul" in (tmp_path / "roof.svg").read_text()


def test_disassembly_goes_back_to_the_same_image(tmp_path: Path) -> None:
    result = ktpu("disasm", "mine.py:double", "3x5", "-o", "double.bin")
    text = result.output
    assert "mine.py:8: y[e] <<= x[e] * factor" in text
    assert "adds the address of x" in text
    assert ".unit" in text
    image = Image.from_bytes((tmp_path / "double.bin").read_bytes())
    assert image.machine_hash == preset("small").hash
    assert [operand.name for operand in image.operands][:2] == ["x", "y"]
    assert ktpu("disasm", "double.bin").output == text
    (tmp_path / "double.s").write_text(text)
    assert "instructions" in ktpu("asm", "double.s", "-o", "again.bin").output
    again = Image.from_bytes((tmp_path / "again.bin").read_bytes())
    assert again.units == image.units


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "no .unit section"),
        ("halt\n", "line 1, column 1: expected .unit NODE KIND"),
        (".unit 0 V\nhalt\n", "no such unit on small; its units are 0 C, 1 V"),
        (".unit 0 C\nhalt\n.unit 0 C\n", "line 3, column 1: unit 0 has a section already"),
        (".unit 0 C\nhalt\n\n.unit 1 V\nhalt\nstop\n", "line 6, column 1: no instruction 'stop'"),
    ],
)
def test_assembly_mistakes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "program.s").write_text(text)
    assert message in ktpu("asm", "program.s", "-o", "x.bin", status=2).stderr
    assert not (tmp_path / "x.bin").exists()


def test_damaged_images(tmp_path: Path) -> None:
    ktpu("disasm", "relu", "16", "-o", "relu.bin")
    content = bytearray((tmp_path / "relu.bin").read_bytes())
    (tmp_path / "short.bin").write_bytes(content[:100])
    content[-1] ^= 1
    (tmp_path / "wrong.bin").write_bytes(content)
    assert "truncated image" in ktpu("disasm", "short.bin", status=2).stderr
    assert "checksum" in ktpu("disasm", "wrong.bin", status=2).stderr


# ------------------------------------------------------------------- the rest


def test_info() -> None:
    output = ktpu("info").output
    for machine in PRESETS.values():
        assert machine.name in output
        assert machine.hash in output
    for words in ("kohakutpu 0", "numpy", "golden", "poison, seed", "512", "2,048", "C V"):
        assert words in output


def test_every_command_explains_itself() -> None:
    assert isinstance(cli, click.Group)
    assert sorted(cli.commands) == [
        "asm", "build", "conformance", "disasm", "info", "plan", "run", "synth", "tune",
    ]  # fmt: skip
    for name in cli.commands:
        assert len(ktpu(name, "--help").output.splitlines()) > 5


def test_the_installed_command() -> None:
    command = Path(sys.executable).with_name("ktpu")
    done = subprocess.run(
        [str(command), "plan", "matmul", "4x4", "4x5"],
        capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "40"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("ktpu: ")
