"""pyproject.toml lists things that the disk also knows: the two must agree."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = PROJECT["tool"]


def test_compiler_folders_are_checked_strictly() -> None:
    strict = set(TOOLS["pyright"]["strict"])
    folders = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "compiler").iterdir()
        if path.is_dir() and any(path.glob("*.py")) and path.name != "tests"
    }
    assert folders <= strict, f"add to tool.pyright.strict: {sorted(folders - strict)}"


def test_every_tool_sees_the_same_packages() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    found = {name.rstrip("*") for name in TOOLS["setuptools"]["packages"]["find"]["include"]}
    assert packages == found == set(TOOLS["importlinter"]["root_packages"])
    assert packages <= set(TOOLS["pyright"]["include"])


def test_every_subpackage_has_a_layer() -> None:
    contract = TOOLS["importlinter"]["contracts"][0]
    placed = {
        name.strip(" ()")
        for layer in contract["layers"]
        for name in layer.replace("|", ":").split(":")
    }
    modules = {
        f"kohakutpu.{path.stem}"
        for path in (ROOT / "kohakutpu").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    modules.discard("kohakutpu.__init__")
    assert modules <= placed, f"give each a layer: {sorted(modules - placed)}"


def test_runtime_dependencies_say_why() -> None:
    text = (ROOT / "pyproject.toml").read_text().splitlines()
    names = [name.split(">")[0] for name in PROJECT["project"]["dependencies"]]
    assert names == ["numpy", "click", "rich"]
    for name in names:
        line = next(line for line in text if line.strip().startswith(f'"{name}>'))
        assert "#" in line, f"{name}: say in a comment what it is for"


def test_every_folder_of_a_package_is_one() -> None:
    # Without __init__.py a folder still imports, but the layer check does not look into it.
    for package in TOOLS["importlinter"]["root_packages"]:
        for path in (ROOT / package).rglob("*.py"):
            if "tests" not in path.parts:
                assert (path.parent / "__init__.py").is_file(), f"{path.parent} needs __init__.py"
