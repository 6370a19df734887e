"""The API page names everything; what a module exports is listed by Sphinx, kernels by hand."""

from pathlib import Path

from kohakutpu import kernels

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()


def test_the_whole_library_is_listed() -> None:
    listed = [line.split(".")[-1] for line in PAGE.splitlines() if "autofunction::" in line]
    assert listed == sorted(kernels.__all__)
