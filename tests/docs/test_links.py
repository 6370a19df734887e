"""Sphinx checks the links between pages of docs/; these files lie outside it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "bench/README.md"])
def test_relative_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    missing = [link for link in LINK.findall(text) if not ((ROOT / page).parent / link).exists()]
    assert not missing


def test_readme_has_links() -> None:
    assert "docs/getting-started.md" in LINK.findall((ROOT / "README.md").read_text())
