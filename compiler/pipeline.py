"""From a kernel and the shapes of its arguments to an image, pass by pass.

``KTPU_DUMP`` prints what a pass leaves: a pass's name, several separated by commas, or ``all``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compiler.analysis import check, check_capacity, check_specialised
from compiler.compilation import Compilation, Shape
from compiler.fallback import again
from compiler.listing import listing
from compiler.passes.choose import choose_knobs
from compiler.passes.context import THRIFT
from compiler.passes.encode import encode
from compiler.passes.place import place_stages
from compiler.passes.roll import roll
from compiler.passes.simplify import merge_syncs, simplify
from compiler.passes.specialise import ArgSpec, Print, Specialised, specialise
from compiler.passes.stage import cut
from compiler.passes.synchronise import unit_trees
from compiler.plan import Plan, flat, make_plan
from compiler.tree import show_trees, verify_trees
from kohakuaccel.errors import CapacityError, InternalError, KernelError
from kohakuaccel.image import Image
from kohakuaccel.ir.nodes import Trace
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel

__all__ = ["ArgSpec", "Compiled", "Print", "compile_kernel"]


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
            names = [one.name for one in PASSES]
            steps = [*PASSES[names.index(again(state, step.name, error)) :]]
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
