"""A kernel on its way through the passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.passes.placed import Placed, Round
from compiler.passes.roll import Line
from compiler.passes.specialise import ArgSpec, Specialised
from compiler.passes.stage import Part
from compiler.program import UnitTree
from kohakuaccel.errors import CapacityError
from kohakuaccel.image import Image
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Trace
from kohakuaccel.lang.tracing import Cutting
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Compilation:
    """A kernel on its way: what the passes so far have made of it."""

    kernel: Kernel
    specs: Sequence[ArgSpec]
    knobs: Mapping[str, Any]
    machine: Machine
    out_strides: Sequence[Shape | None] = ()
    trace: Trace | None = None
    program: Specialised | None = None
    env: dict[Symbol, int] = field(default_factory=dict[Symbol, int])
    stages: list[Part] = field(default_factory=list[Part])
    placed: list[Placed | Round] = field(default_factory=list["Placed | Round"])
    trees: list[UnitTree] = field(default_factory=list[UnitTree])
    programs: list[tuple[UnitTree, list[Line]]] = field(
        default_factory=list[tuple[UnitTree, "list[Line]"]]
    )
    image: Image | None = None
    thrift: int = 0
    relayouts: list[str] = field(default_factory=list[str])
    relax: bool = True
    sizes: dict[Cutting, int] = field(default_factory=dict[Cutting, int])
    refused: CapacityError | None = None  # the first one, of the kernel as it is written
    narrowed: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
