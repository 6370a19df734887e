"""What an error looks like, and where it says it happened."""

import importlib
import sys
from pathlib import Path
from typing import Any

from kohakuaccel.errors import CapacityError, KernelError
from kohakuaccel.source import Location, call_site, caller, locate


def here() -> Location:
    return locate(sys._getframe(1))


def test_the_expression_that_runs() -> None:
    loc = (1, here())[1]
    assert loc.file == __file__
    assert loc.source == "here()"
    assert (
        loc.caret
        == loc.text[: loc.column].replace(loc.text.strip()[0], " ")[:0] + " " * 14 + "^" * 6
    )
    assert loc.function == "test_the_expression_that_runs"


def test_columns_count_bytes_and_carets_letters() -> None:
    ä, loc = "äöü", here()
    assert ä
    assert loc.source == "here()"
    assert loc.text[loc.caret.index("^") :] == "here()"


def test_an_expression_of_several_lines_runs_to_the_end_of_the_first() -> None:
    error = outer(
        "one argument that is long enough for the formatter to keep the call on several lines"
    )
    assert error.source == "outer("
    assert error.end_column is None


def outer(_: str) -> Location:
    return locate(sys._getframe(1))


def test_names_of_results() -> None:
    first = here()
    second: Any = here()
    a, b = here(), here()
    assert (first.target, second.target) == ("first", "second")
    assert (a.target, b.target) == ("a", "b")
    assert [here()][0].target is None
    last = [here()]
    assert last[0].target is None


def test_machinery_is_skipped(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "user_module.py").write_text("def call(f):\n    return f()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("user_module")
    assert module.call(caller).text == "    return f()"
    monkeypatch.setitem(module.__dict__, "__name__", "kohakuaccel.lang.fake")
    assert module.call(caller).file == __file__
    monkeypatch.setitem(module.__dict__, "__name__", "kohakutpu.kernels.fake")
    assert module.call(caller).text == "    return f()"
    assert module.call(call_site).file == __file__
    monkeypatch.setitem(module.__dict__, "__name__", "compiler.tests.fake")
    assert module.call(call_site).text == "    return f()"


def test_layout_of_a_message(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("def f():\n\tc[j, i] <<= acc\n")
    loc = Location(str(file), 2, 1, 8, "f")
    notes = [(Location(str(file), 1), "in here"), (None, "x")]
    error = KernelError("swapped", loc=loc, fix="write c[i, j]", notes=notes)
    assert str(error) == (
        f"{file}:2: swapped\n"
        "    c[j, i] <<= acc\n"
        "    ^^^^^^^\n"
        f"{file}:1: note: in here\n"
        "    def f():\n"
        "    ^^^^^^^^\n"
        "note: x\n"
        "fix: write c[i, j]"
    )


def test_without_source() -> None:
    assert str(KernelError("a", loc=Location("<stdin>", 3), fix="b")) == "<stdin>:3: a\nfix: b"
    assert str(CapacityError("a", fix="b")) == "a\nfix: b"
    assert issubclass(CapacityError, KernelError)
