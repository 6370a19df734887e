"""What the build cache keeps, and what it must not."""

import json
from pathlib import Path

import pytest

from hw.sim import __main__ as ahead
from hw.sim import model, toolchain
from kohakutpu.config import Machine, preset

TINY = preset("tiny")


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Return the commands that would have described a machine; none is run."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: object) -> str:
        commands.append(command)
        Path(command[-1]).write_text(f"description {len(commands)}")
        return ""

    toolchain.find()
    monkeypatch.setattr(toolchain, "run", run)
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path))
    return commands


def test_a_description_is_kept(described: list[list[str]]) -> None:
    assert model.verilog(TINY) == model.verilog(TINY) == "description 1"
    (command,) = described
    assert command[1:3] == ["-m", "hw.sim.testbench"]
    assert Machine(**json.loads(command[3])) == TINY


def test_changed_sources_are_described_again(
    described: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model.verilog(TINY)
    monkeypatch.setattr(model, "digest", lambda: "other sources")
    assert model.verilog(TINY) == "description 2"


def test_nothing_is_kept_of_sources_that_change_meanwhile(
    described: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr(model, "digest", lambda: next(digests))
    with pytest.raises(toolchain.ToolError, match=r"changed while tiny was described .*: run it"):
        model.verilog(TINY)
    assert not list(tmp_path.glob("*/top.v"))
    monkeypatch.setattr(model, "digest", lambda: "before")
    assert model.verilog(TINY) == "description 2"


def test_the_digest_is_of_what_describes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model, "ROOT", tmp_path)
    for name in ("hw/top.py", "hw/noc/mesh.py", "hw/synth/yosys.py", "kohakutpu/config.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    def changed(name: str) -> bool:
        before = model.digest()
        (tmp_path / name).write_text((tmp_path / name).read_text() + "#")
        return model.digest() != before

    assert changed("hw/top.py")
    assert changed("hw/noc/mesh.py")
    assert changed("kohakutpu/config.py")
    assert not changed("hw/synth/yosys.py")


def test_simulators_are_built_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[str, model.Variant]] = []
    monkeypatch.setattr(
        model, "build", lambda machine, variant: built.append((machine.name, variant))
    )
    ahead.main(["duo", "tiny"])
    ahead.main(["--checked", "small"])
    assert sorted(built[:2]) == [("duo", model.Variant.FAST), ("tiny", model.Variant.FAST)]
    assert built[2:] == [("small", model.Variant.CHECKED)]
