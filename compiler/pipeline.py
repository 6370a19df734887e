"""From a kernel and the shapes of its arguments to an image, pass by pass.

``KTPU_DUMP`` prints what a pass leaves: a pass's name, several separated by commas, or ``all``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from compiler.analysis import check, check_capacity, check_specialised
from compiler.listing import listing
from compiler.passes.choose import choose_knobs
from compiler.passes.encode import encode
from compiler.passes.narrow import narrower
from compiler.passes.place import THRIFT, Placed, Round, place_stages
from compiler.passes.relax import relaxed
from compiler.passes.roll import Line, roll
from compiler.passes.simplify import merge_syncs, simplify
from compiler.passes.specialise import ArgSpec, Print, Specialised, specialise
from compiler.passes.stage import Part, cut
from compiler.passes.synchronise import unit_trees
from compiler.plan import Plan, flat, make_plan
from compiler.program import UnitTree
from compiler.tree import show_trees, verify_trees
from kohakuaccel.errors import CapacityError, InternalError, KernelError
from kohakuaccel.image import Image
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Trace
from kohakuaccel.lang.tracing import Cutting
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel

__all__ = ["ArgSpec", "Compiled", "Print", "compile_kernel"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Compiled:
    """A kernel ready to run on one machine, for arguments of certain shapes.

    Parameters
    ----------
    image : Image
        Its operands are the arguments, the results, what is printed, temporaries and, where there
        are constants, the image's data, in this order.
    plan : Plan
        What was decided.
    out_specs : list
        Name, shape and dtype of each result.
    prints : list of Print
        What is to be shown after a run; among the image's operands they follow the results.
    """

    image: Image
    plan: Plan
    out_specs: list[tuple[str, Shape, str]]
    prints: list[Print]

    def disassemble(self) -> str:
        """Return the instructions of every unit, the lines of the kernel above what they became."""
        return listing(self.image)


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


class Pass(Protocol):
    """One step; it says what it leaves and checks that it is sound."""

    @property
    def name(self) -> str:
        """The verb."""
        ...

    def run(self, state: Compilation) -> None:
        """Take the step."""
        ...

    def verify(self, state: Compilation) -> None:
        """Raise `InternalError` if the step left something that is no program."""
        ...

    def show(self, state: Compilation) -> str:
        """Return what the step left as text."""
        ...


def _traced(state: Compilation) -> Trace:
    assert state.trace is not None
    return state.trace


def _specialised(state: Compilation) -> Specialised:
    assert state.program is not None
    return state.program


@dataclass(frozen=True)
class TracePass:
    """Run the Python function once, and prove what holds for all shapes."""

    name: str = "trace"

    def run(self, state: Compilation) -> None:
        state.trace = state.kernel.trace(**state.knobs)

    def verify(self, state: Compilation) -> None:
        check(_traced(state))

    def show(self, state: Compilation) -> str:
        return _traced(state).pretty()


@dataclass(frozen=True)
class SpecialisePass:
    """Solve dimensions, lay out buffers, choose knobs; prove what depends on numbers."""

    name: str = "specialise"

    def run(self, state: Compilation) -> None:
        state.program = specialise(_traced(state), state.specs, state.out_strides)
        state.env = choose_knobs(state.program, state.machine)

    def verify(self, state: Compilation) -> None:
        check_specialised(_traced(state), state.env)
        check_capacity(_traced(state), state.env, state.machine)

    def show(self, state: Compilation) -> str:
        lines = [f"{symbol} = {value}" for symbol, value in state.env.items()]
        for buffer, storage in _specialised(state).storage.items():
            lines.append(f"{buffer.name}: {storage.operand}, {storage.nbytes} bytes")
        return "\n".join(lines)


@dataclass(frozen=True)
class StagePass:
    """Cut the kernel where units must wait for each other."""

    name: str = "stage"

    def run(self, state: Compilation) -> None:
        if any(0 not in shape for _, shape, _ in _specialised(state).out_specs):
            state.stages = cut(_traced(state).body, state.env)

    def verify(self, state: Compilation) -> None:
        empty = all(0 in shape for _, shape, _ in _specialised(state).out_specs)
        if not state.stages and not empty:
            raise InternalError(f"kernel {state.kernel.name} has no stage")

    def show(self, state: Compilation) -> str:
        return "\n".join(part.describe() for part in state.stages)


@dataclass(frozen=True)
class PlacePass:
    """Decide who does what, where it lies, and which engines wait for each other."""

    name: str = "place"

    def run(self, state: Compilation) -> None:
        places = THRIFT[state.thrift]
        state.placed = place_stages(state.stages, _specialised(state), state.machine, places)

    def verify(self, state: Compilation) -> None:
        if len(state.placed) != len(state.stages):
            raise InternalError(f"{len(state.stages)} stages became {len(state.placed)}")

    def show(self, state: Compilation) -> str:
        shares = (share for part in flat(state.placed) for share in part.shares)
        return "\n".join(map(str, shares))


@dataclass(frozen=True)
class SynchronisePass:
    """Join the stages of each unit, with barriers between them."""

    name: str = "synchronise"

    def run(self, state: Compilation) -> None:
        state.trees = unit_trees(state.placed, state.machine)

    def verify(self, state: Compilation) -> None:
        verify_trees(state.trees)

    def show(self, state: Compilation) -> str:
        return show_trees(state.trees)


@dataclass(frozen=True)
class SimplifyPass:
    """Drop loops that are none and ``SYNC`` that neighbours can do."""

    name: str = "simplify"

    def run(self, state: Compilation) -> None:
        for tree in state.trees:
            tree.body = merge_syncs(simplify(tree.body))

    def verify(self, state: Compilation) -> None:
        verify_trees(state.trees)

    def show(self, state: Compilation) -> str:
        return show_trees(state.trees)


@dataclass(frozen=True)
class RollPass:
    """Allocate address registers and write instructions."""

    name: str = "roll"

    def run(self, state: Compilation) -> None:
        state.programs = [(tree, roll(tree)) for tree in state.trees]

    def verify(self, state: Compilation) -> None:
        for tree, lines in state.programs:
            records = isa.records(tree.kind)
            for line in lines:
                if line.instruction.record not in records:
                    raise InternalError(f"unit {tree.node} cannot execute {line.instruction}")

    def show(self, state: Compilation) -> str:
        lines: list[str] = []
        for tree, program in state.programs:
            lines.append(f"unit {tree.node} ({tree.kind})")
            lines.append(isa.disassemble([line.instruction for line in program]))
        return "\n".join(lines)


@dataclass(frozen=True)
class EncodePass:
    """Gather the programs into an image."""

    name: str = "encode"

    def run(self, state: Compilation) -> None:
        program = _specialised(state)
        units = [(tree.node, tree.kind, lines) for tree, lines in state.programs]
        meta = {"kernel": state.kernel.name, "machine": state.machine.name}
        state.image = encode(units, program.infos, program.data, state.machine, meta)

    def verify(self, state: Compilation) -> None:
        assert state.image is not None  # an image checks itself when it is made

    def show(self, state: Compilation) -> str:
        assert state.image is not None
        sizes = (f"unit {u.node} ({u.kind}): {len(u.words) // 32} words" for u in state.image.units)
        return "\n".join(sizes)


PASSES: tuple[Pass, ...] = (
    TracePass(),
    SpecialisePass(),
    StagePass(),
    PlacePass(),
    SynchronisePass(),
    SimplifyPass(),
    RollPass(),
    EncodePass(),
)


def compile_kernel(
    kernel: Kernel,
    specs: Sequence[ArgSpec],
    knobs: Mapping[str, Any],
    machine: Machine,
    dump: str | None = None,
    out_strides: Sequence[Shape | None] = (),
    relax: bool | None = None,
) -> Compiled:
    """Compile a kernel for arguments of these shapes.

    Parameters
    ----------
    kernel : Kernel
        What to compile.
    specs : sequence of ArgSpec
        The arguments, in the order of the kernel's ``L.In``.
    knobs : mapping
        Numbers for its keyword-only parameters; the others have their defaults.
    machine : Machine
        What to compile for.
    dump : str, optional
        Names of passes whose result to print to standard error, separated by commas, or ``all``;
        the variable ``KTPU_DUMP`` if left out.
    out_strides : sequence of (tuple of int or None), optional
        How each result lies in memory, as in `ArgSpec`.
    relax : bool, optional
        Whether what does not fit may run in another way; as the kernel says if left out.

    Raises
    ------
    KernelError
        If the kernel is wrong.
    CallError
        If the arguments do not fit it.
    """
    chosen = (os.environ.get("KTPU_DUMP", "") if dump is None else dump).split(",")
    state = Compilation(kernel, specs, knobs, machine, out_strides)
    state.relax = kernel.relax if relax is None else relax
    steps = list(PASSES)
    while steps:
        step = steps.pop(0)
        try:
            step.run(state)
            step.verify(state)
        except CapacityError as error:
            steps = _again(state, step.name, error)
            continue
        except KernelError as error:  # of sizes that nobody has written
            raise state.refused or error from None
        if step.name in chosen or "all" in chosen:
            print(f"--- after {step.name}\n{step.show(state)}", file=sys.stderr)
    assert state.image is not None
    program = _specialised(state)
    plan = make_plan(
        program,
        state.env,
        state.placed,
        state.image,
        machine,
        {**kernel.knobs, **knobs},
        [*state.narrowed.values(), *state.relayouts],
    )
    return Compiled(state.image, plan, program.out_specs, program.prints)


def _again(state: Compilation, name: str, error: CapacityError) -> list[Pass]:
    """Return the passes to run again after one has found that something does not fit.

    Programs that need too many address registers are placed with fewer places. If the kernel may, a
    fused grid gets smaller blocks of rows, and an epilogue that its core does not hold goes through
    memory.
    """

    def since(first: str) -> list[Pass]:
        return [*PASSES[[step.name for step in PASSES].index(first) :]]

    if name == "roll" and state.thrift + 1 < len(THRIFT):
        state.thrift += 1
        return since("place")
    if name not in ("specialise", "place") or not state.relax:
        raise state.refused or error
    if _narrow(state, error):
        return since("specialise")
    if state.refused is not None or name != "place" or state.relayouts:
        raise state.refused or error
    found = relaxed(_traced(state))
    if found is None:
        raise error
    state.trace, temps = found
    for temp in temps:
        shape = " x ".join(str(extent.evaluate(state.env)) for extent in temp.shape)
        nbytes = 2 * prod(extent.evaluate(state.env) for extent in temp.shape)
        state.relayouts.append(
            f"`{temp.name}` ({shape}, {nbytes:,} bytes an element of the batch) goes through "
            f"memory at line {temp.loc.line}: {error.message}; {error.fix} to avoid it"
        )
    return since("specialise")


def _narrow(state: Compilation, error: CapacityError) -> bool:
    """Trace again with smaller blocks of rows, if that can help, and say so in the plan."""
    sizes = narrower(_traced(state), state.sizes, error.loc)
    if sizes is None:
        return False
    state.refused = state.refused or error
    try:
        trace = state.kernel.trace_with(state.knobs, sizes)
        check(trace)
    except KernelError:
        return False  # something else in the kernel says how many rows there are
    state.trace = trace
    for (_, buffer, written), size in sizes.items():
        if state.sizes.get(("rows", buffer, written)) != size:
            state.narrowed[buffer, written] = (
                f"blocks of {size} rows of `{buffer}` take the place of those of {written}, and "
                f"nothing goes through memory: {state.refused.message}"
            )
    state.sizes = sizes
    return True
