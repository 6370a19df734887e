"""Another way for a kernel that asks for more than the machine has."""

from __future__ import annotations

from math import prod

from compiler.analysis import check
from compiler.compilation import Compilation
from compiler.passes.context import THRIFT
from compiler.passes.narrow import narrower
from compiler.passes.relax import relaxed
from kohakuaccel.errors import CapacityError, KernelError


def again(state: Compilation, name: str, error: CapacityError) -> str:
    """Return the pass to go on from after pass ``name`` has found that something does not fit.

    Programs that need too many address registers are placed with fewer places. If the kernel may, a
    fused grid gets smaller blocks of rows, and an epilogue that its core does not hold goes through
    memory.

    Raises
    ------
    CapacityError
        If there is no other way: what does not fit of the kernel as it is written.
    """
    if name == "roll" and state.thrift + 1 < len(THRIFT):
        state.thrift += 1
        return "place"
    if name not in ("specialise", "place") or not state.relax:
        raise state.refused or error
    if _narrow(state, error):
        return "specialise"
    assert state.trace is not None
    found = relaxed(state.trace) if name == "place" and not state.relayouts else None
    if state.refused is not None or found is None:
        raise state.refused or error
    state.trace, temps = found
    for temp in temps:
        shape = " x ".join(str(extent.evaluate(state.env)) for extent in temp.shape)
        nbytes = 2 * prod(extent.evaluate(state.env) for extent in temp.shape)
        state.relayouts.append(
            f"`{temp.name}` ({shape}, {nbytes:,} bytes an element of the batch) goes through "
            f"memory at line {temp.loc.line}: {error.message}; {error.fix} to avoid it"
        )
    return "specialise"


def _narrow(state: Compilation, error: CapacityError) -> bool:
    """Trace again with smaller blocks of rows, if that can help, and say so in the plan."""
    assert state.trace is not None
    sizes = narrower(state.trace, state.sizes, error.loc)
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
