"""The Python in README.md and docs/*.md runs: a page's blocks in order, in one namespace.

A fence `python no-run` is only compiled. No other spelling of the language is accepted, so that no
block escapes by its label.
"""

import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    line: int  # of the first line of code, from 1
    info: str
    lines: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """Find the fenced blocks of a Markdown text, whatever their language."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    start, lines = 0, []
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.match(line)
        if opening is None:
            if match:
                opening, start, lines = match, number + 1, []
        elif match and match["fence"].startswith(opening["fence"]) and not match["info"].strip():
            found.append(Block(start, opening["info"].strip(), tuple(lines)))
            opening = None
        else:
            lines.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        raise ValueError(f"line {start - 1}: the fence is never closed")
    return found


def program(found: list[Block]) -> str:
    """Join blocks so that every line of code keeps the line number it has in the page."""
    lines: list[str] = []
    for block in found:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.lines
    return "\n".join(lines) + "\n"


def run(name: str, source: str, folder: Path) -> None:
    """Execute `source` as a module from a file, since tracing a kernel reads its source."""
    file = folder / f"{name}.py"
    file.write_text(source)
    module = types.ModuleType(f"page_{name}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(file), "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_labels(page: Path) -> None:
    for block in blocks(page.read_text()):
        if "py" in block.info.lower():
            assert block.info in {"python", "python no-run"}, f"{page.name}:{block.line - 1}"
        if block.info == "python no-run":
            compile(program([block]), str(page), "exec")


@pytest.mark.golden
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a page writes
    found = [block for block in blocks(page.read_text()) if block.info == "python"]
    run(page.stem.replace("-", "_"), program(found), tmp_path)


def test_blocks_are_found_where_they_stand() -> None:
    text = (
        "a\n```python\nx = 1\n```\n\n"
        "- item\n\n  ~~~python no-run\n  y = 2\n  ~~~\n\n"
        "````md\n```\n````\n"
    )
    assert blocks(text) == [
        Block(3, "python", ("x = 1",)),
        Block(9, "python no-run", ("y = 2",)),
        Block(13, "md", ("```",)),
    ]


def test_an_open_fence_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: the fence is never closed"):
        blocks("a\n```python\nx = 1\n")


def test_blocks_share_names_and_keep_lines(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\ntext\n```python\nassert x == 1\n\nraise KeyError(x)\n```\n"
    source = program([block for block in blocks(page) if block.info == "python"])
    with pytest.raises(KeyError) as caught:
        run("sample", source, tmp_path)
    assert caught.traceback[-1].lineno + 1 == 8
    assert caught.traceback[-1].path == tmp_path / "sample.py"
