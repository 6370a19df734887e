"""Run a kernel through every check, and compare what is said about it with what should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from compiler.analysis import check, check_capacity, check_specialised
from kohakuaccel.errors import Diagnostic, KernelError
from kohakuaccel.ir.nodes import Trace
from kohakutpu.config import preset
from kohakutpu.lang import Kernel
from kohakutpu.lang.call import solve

MARK = "# HERE"


def prove(kernel: Kernel, *shapes: tuple[int, ...], **knobs: Any) -> Trace:
    """Trace a kernel and run every proof for arguments of these shapes, on preset `small`."""
    trace = kernel.trace(**knobs)
    check(trace)
    if shapes:
        env = dict(solve(trace, shapes).env)
        for name, symbol in trace.knobs.items():
            env[symbol] = 32 if "part" in name else 2
        check_specialised(trace, env)
        check_capacity(trace, env, preset("small"))
    return trace


@contextmanager
def refused(
    text: str, caret: str, fix: str, *, error: type[Diagnostic] = KernelError, notes: int = 0
) -> Iterator[None]:
    """Expect one error whose line carries the mark and whose carets are under ``caret``."""
    with pytest.raises(error) as caught:
        yield
    said = caught.value
    shown = str(said)
    assert text in said.message, shown
    assert fix in said.fix, shown
    assert said.loc is not None, shown
    assert MARK in said.loc.text, shown
    assert said.loc.source.split("  #")[0] == caret, shown
    assert len(said.notes) >= notes, shown
    lines = shown.splitlines()
    assert lines[0] == f"{said.loc.file}:{said.loc.line}: {said.message}"
    assert lines[1].strip() == said.loc.text.strip()
    assert lines[1][lines[2].index("^") :].startswith(caret)
    assert set(lines[2].strip()) == {"^"}
    assert lines[-1] == f"fix: {said.fix}"
