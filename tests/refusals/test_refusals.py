"""Every example of the page is refused as it says, by one typed error with a place and a fix."""

from collections.abc import Callable

import pytest

from kohakuaccel.errors import Diagnostic
from tests.refusals.page import CATALOGUES, ROOT, example, functions, page

pytestmark = pytest.mark.golden

EXAMPLES = [function for catalogue in CATALOGUES for function in functions(catalogue)]


@pytest.mark.parametrize("function", EXAMPLES, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_a_refusal_says_where_what_and_how(function: Callable[[], None]) -> None:
    shown = example(function)
    assert isinstance(shown.error, Diagnostic)
    assert shown.error.message
    assert shown.error.fix
    assert shown.error.loc is not None
    lines = shown.text.splitlines()
    assert lines[-1] == f"fix: {shown.error.fix}"
    own = [line for line in lines if line.startswith("example.py:")]
    assert own, "no line of the example is named"
    for line in own:
        number = int(line.split(":")[1])
        assert 1 <= number <= len(shown.code.splitlines())


def test_there_are_many_and_no_two_are_one() -> None:
    texts = [example(function).error.message for function in EXAMPLES]
    assert len(set(texts)) == len(texts) >= 60


def test_the_page_is_up_to_date() -> None:
    update = "run: python -m tests.refusals.page > docs/refusals.md"
    assert (ROOT / "docs" / "refusals.md").read_text() == page(), update
