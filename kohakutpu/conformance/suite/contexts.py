"""For each engine instruction: storage in a known state, and an instruction that works there.

A context's instruction is small and in the middle of things, so that nearly every change of one
operand still gives an instruction that does something, or is a fault for one reason alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kohakuaccel.isa import Instruction, Record
from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.conformance.draft import Draft
from kohakutpu.conformance.shorthand import (
    destination,
    drain,
    execute,
    fill,
    gemm,
    source,
    vdrain,
    vfill,
)
from kohakutpu.conformance.suite import samples
from kohakutpu.isa import (
    DRAIN,
    EXEC,
    FILL,
    GEMM,
    VDRAIN,
    VFILL,
    Destination,
    Source,
)

Setup = Callable[[Draft, int], Instruction]

BACKGROUND = 40
"""Entries of L1A and L1B, and sub-tiles of the accumulator less 4, that hold something."""

CORE_WORDS = 100
"""Words of a vector L1 that hold something."""

CORE_BEATS = 64
"""Beats of a register file that hold something."""


@dataclass(frozen=True)
class Context:
    """A place for an instruction.

    Attributes
    ----------
    name : str
        The record's name, a dot and what is particular.
    record : Record
        Of the instruction.
    kind : str
        Kind of the unit.
    setup : callable
        Writes what comes before into a draft, for a unit, and returns the instruction.
    fields : tuple of str
        Operands whose edges are tried here; all if empty.
    step : int
        Register `n` holds this times `n`.
    """

    name: str
    record: Record
    kind: str
    setup: Setup
    fields: tuple[str, ...] = ()
    step: int = 1

    def node(self, machine: Machine) -> int:
        """Return the unit the instruction is for: the first one."""
        return machine.of_kind(self.kind)[0].id


# ------------------------------------------------------------------ storage in a known state


def load_entries(
    draft: Draft, node: int, buffer: str, count: int = BACKGROUND, scales: tuple[int, ...] = ()
) -> None:
    """Load packed entries from entry 0 on."""
    content = samples.packed(f"entries {buffer} {scales}", count, scales or samples.MILD)
    draft.program(node).chain(fill(buffer, mem=draft.data(content), g=count, mode="packed"))


def load_tiles(draft: Draft, node: int, scales: tuple[int, ...] = ()) -> None:
    """Make 6 x 6 sub-tiles from sub-tile 0 on; L1A and L1B hold 6 entries afterwards."""
    for buffer in "AB":
        load_entries(draft, node, buffer, 6, scales)
    draft.program(node).chain(gemm(gm=6, gn=6))


def load_words(draft: Draft, node: int, content: bytes, first: int = 0) -> None:
    """Load whole words into a vector L1."""
    count = len(content) // WORD_BYTES
    draft.program(node).chain(vfill(mem=draft.data(content), l1=first, cols=16 * count))


def load_registers(draft: Draft, node: int) -> None:
    """Fill the first beats of a register file from the words of L1, read as FP16."""
    cols = CORE_BEATS * draft.machine.lanes
    draft.program(node).chain(execute(cols=cols, a=source("l1h"), dst=destination("reg")))


def load_core(draft: Draft, node: int) -> None:
    """Load the words of a vector L1 that hold something."""
    load_words(draft, node, samples.fp16_bytes("core", 16 * CORE_WORDS, 0.05))


# ------------------------------------------------------------------ FILL and GEMM


def _fill(mode: str, transpose: bool) -> Setup:
    def setup(draft: Draft, node: int) -> Instruction:
        if mode == "packed":
            place = draft.data(samples.packed("fill", 40, samples.WILD))
            particular: dict[str, Any] = {}
        else:
            place = draft.data(samples.fp16_bytes("fill", 16 * 256, 0.02))
            particular = {"rows": 7, "k": 50, "stride": 4, "transpose": transpose}
        for buffer in "AB":
            load_entries(draft, node, buffer)
        return fill(mem=place + 8, l1=4, l1_stride=3, g=2, nk=2, mode=mode, **particular)

    return setup


def _gemm(draft: Draft, node: int) -> Instruction:
    for buffer in "AB":
        load_entries(draft, node, buffer)
    draft.program(node).chain(gemm(gm=6, gn=6))
    return gemm(a=1, b=2, acc=3, gm=2, gn=3, nk=2, a_stride=3, b_stride=4, accumulate=True)


# ------------------------------------------------------------------ drains


def _receive(draft: Draft, node: int, kind: str, buffer: str) -> dict[str, Any]:
    """Prepare the last unit of a kind to receive, and return the operands that name it."""
    to = draft.machine.of_kind(kind)[-1].id
    if kind == "C":
        load_entries(draft, to, "A" if buffer == "l1a" else "B")
    elif to != node:
        load_core(draft, to)
    return {"to": "node", "nodes": 1 << to, "buffer": buffer, "mem": 4 if kind == "C" else 60}


def _drain(receiver: str = "", buffer: str = "", **given: Any) -> Setup:
    def setup(draft: Draft, node: int) -> Instruction:
        operands: dict[str, Any] = {"mem": draft.output(160) + 8, "rows": 7, "cols": 10}
        load_tiles(draft, node, samples.WILD)
        if receiver:
            operands |= _receive(draft, node, receiver, buffer)
        operands |= {"acc": 1, "gm": 2, "gn": 3, "stride": 3, "format": "fp16"}
        return drain(**operands | given)

    return setup


def _vdrain(receiver: str = "", buffer: str = "", **given: Any) -> Setup:
    def setup(draft: Draft, node: int) -> Instruction:
        operands: dict[str, Any] = {"mem": draft.output(160) + 9, "rows": 3, "cols": 20}
        load_core(draft, node)
        if receiver:
            operands |= _receive(draft, node, receiver, buffer)
        operands |= {"l1": 5, "l1_stride": 4, "stride": 3, "row_extent": 2, "col_extent": 17}
        return vdrain(**operands | given)

    return setup


# ------------------------------------------------------------------ vector core


def _vfill(format: str) -> Setup:
    def setup(draft: Draft, node: int) -> Instruction:
        place = draft.data(samples.fp16_bytes("vfill", 16 * 128, 0.2)) + 9
        load_core(draft, node)
        window = {"l1": 5, "l1_stride": 4, "rows": 3, "row_extent": 2, "cols": 20}
        return vfill(mem=place, stride=3, col_extent=17, format=format, **window)

    return setup


SOURCES = {
    "none": source("none"),
    "imm": Source.imm(1.5),
    "reg": source("reg", 2, 6),
    "l1h": source("l1h", 2, 3),
    "l1f": source("l1f", 2, 4),
    "row": source("row", 30),
}
DESTINATIONS = {
    "none": destination("none"),
    "reg": destination("reg", 44, 6),
    "l1h": destination("l1h", 60, 3),
    "l1f": destination("l1f", 60, 4),
}
TEMPLATES: dict[str, dict[str, Source] | dict[str, Destination]] = {
    "a": SOURCES,
    "b": SOURCES,
    "c": SOURCES,
    "dst": DESTINATIONS,
}
"""What a source or destination of another kind looks like in the context of `EXEC`."""


def _exec(draft: Draft, node: int) -> Instruction:
    load_core(draft, node)
    load_registers(draft, node)
    sources = {"a": SOURCES["l1h"], "b": SOURCES["reg"], "c": SOURCES["row"]}
    return execute(rows=3, cols=20, dst=DESTINATIONS["l1f"], reduce="sum", red=40, **sources)


_TILE: dict[str, Any] = {"rows": 0, "cols": 0, "order": "tile"}
_PLACE = ("mem", "stride", "rows", "cols", "nodes", "format", "order", "buffer", "residual", "to")
_TILES_IN_L1: dict[str, Any] = {"rows": 8, "cols": 12, "order": "tile", "row_extent": 7}
_WINDOW = (*_PLACE, "row_extent", "col_extent", "l1", "l1_stride")

CONTEXTS = (
    Context("FILL.rows", FILL, "C", _fill("fp16", False), step=4),
    Context("FILL.columns", FILL, "C", _fill("fp16", True), ("stride", "rows", "k", "g", "nk"), 4),
    Context("FILL.residual", FILL, "C", _fill("residual", False), ("buffer", "rows", "k"), 4),
    Context(
        "FILL.packed",
        FILL,
        "C",
        _fill("packed", False),
        ("buffer", "l1", "mem", "l1_stride", "g", "nk", "rows", "k", "stride", "transpose"),
        4,
    ),
    Context("GEMM.tile", GEMM, "C", _gemm),
    Context("DRAIN.memory", DRAIN, "C", _drain()),
    Context("DRAIN.sub-tiles", DRAIN, "C", _drain(**_TILE), _PLACE, 4),
    Context("DRAIN.vector", DRAIN, "C", _drain("V", "vector"), _PLACE),
    Context(
        "DRAIN.vector-sub-tiles",
        DRAIN,
        "C",
        _drain("V", "vector", order="tile"),
        _PLACE,
    ),
    Context("DRAIN.l1a", DRAIN, "C", _drain("C", "l1a"), _PLACE),
    Context("DRAIN.l1b", DRAIN, "C", _drain("C", "l1b"), ("mem", "residual")),
    Context("VFILL.fp16", VFILL, "V", _vfill("fp16")),
    Context("VFILL.fp32", VFILL, "V", _vfill("fp32"), ("rows", "cols", "col_extent", "stride")),
    Context("EXEC.window", EXEC, "V", _exec),
    Context("VDRAIN.memory", VDRAIN, "V", _vdrain()),
    Context("VDRAIN.sub-tiles", VDRAIN, "V", _vdrain(**_TILES_IN_L1), _WINDOW),
    Context("VDRAIN.vector", VDRAIN, "V", _vdrain("V", "vector"), _PLACE),
    Context("VDRAIN.l1a", VDRAIN, "V", _vdrain("C", "l1a"), _WINDOW),
    Context("VDRAIN.l1b", VDRAIN, "V", _vdrain("C", "l1b"), ("mem", "residual")),
)
