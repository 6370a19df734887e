"""From a component to Verilog that simulates as it should."""

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil, verilog
from amaranth.lib import wiring

from hw.common.resting import GatesClocks

CONSTANT = re.compile(r"^(\s*)always @\*(\n\s+[^\n]* = \d+'[hbd][0-9a-f]+;)$", re.MULTILINE)


def emit(component: wiring.Component, *, gated: bool = False) -> str:
    """Return the Verilog of a component, as the module ``top``.

    Memories whose initial content is all zeros are left without one: hardware that works after a
    reset, which clears no memory, does not depend on it.

    Parameters
    ----------
    component : amaranth.lib.wiring.Component
        What.
    gated : bool
        Parts at rest have no clock, which makes simulators faster; see `hw.common.resting`.
    """
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")  # in process: the fast one
    with _no_collection(), _no_zeros():
        text = verilog.convert(
            component,
            name="top",
            platform=GatesClocks() if gated else None,
            emit_src=False,
            strip_internal_attrs=True,
        )
    # Yosys writes the constant part of a signal as a block that waits for a change of nothing, and
    # so never runs; `always_comb` runs once at the start.
    return CONSTANT.sub(r"\1always_comb\2", text)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Let the garbage collector rest: it takes half the time among millions of live objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _no_zeros() -> Iterator[None]:
    """Leave out initial content that is all zeros.

    Amaranth writes out every bit of it, millions for the machine's L1s: a third of the time that is
    left, and more in the tools behind.
    """
    original = rtlil.ModuleEmitter.emit_memory

    def emit_memory(self: Any, index: int, cell: Any) -> None:
        if any(cell.init):
            original(self, index, cell)

    rtlil.ModuleEmitter.emit_memory = emit_memory
    try:
        yield
    finally:
        rtlil.ModuleEmitter.emit_memory = original
