"""Run a kernel at the first of several sizes that fits, on operands that lie anywhere."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kohakuaccel.errors import CapacityError, InternalError
from kohakutpu.api.dispatch import MAX_STRIDE, Backend
from kohakutpu.api.tensor import Tensor
from kohakutpu.config import WORD_BYTES
from kohakutpu.lang import Kernel

BACKEND = Backend()

LIMIT = 4096  # answers remembered
_fitting: dict[Hashable, int] = {}

Try = tuple[Kernel, Sequence[Tensor], Mapping[str, Any]]


def run(tries: Sequence[Try], out: Tensor | None = None) -> Tensor:
    """Return the result of the first kernel with operands and knobs that the machine can hold.

    It goes to `out` if that is given, whose rows may lie anywhere. Which one it was is remembered
    for operands that look the same.

    Raises
    ------
    CapacityError
        If it holds none; this is what the last one says.
    """
    first, operands, knobs = tries[0]
    looks = tuple((x.shape, x.strides, x.format) for x in operands)
    machine = operands[0].device.machine.hash
    key = (machine, first, looks, tuple(sorted(knobs.items())))
    for number in range(_fitting.get(key, 0), len(tries)):
        try:
            result = launch(*tries[number], out)
        except CapacityError:
            if number == len(tries) - 1:
                raise
            continue
        if len(_fitting) >= LIMIT:
            _fitting.clear()
        _fitting[key] = number
        return result
    raise InternalError("nothing to try")


def launch(
    kernel: Kernel,
    operands: Sequence[Tensor],
    knobs: Mapping[str, Any],
    out: Tensor | None = None,
) -> Tensor:
    """Return the one result of a kernel that takes its operands wherever their rows lie.

    Raises
    ------
    CapacityError
        If the machine cannot hold an instance.
    """
    given = () if out is None else (out,)
    session, compiled = BACKEND.compiled(kernel, operands, knobs, given, relax=False)
    [(_, shape, dtype)] = compiled.out_specs
    result = Tensor.empty(session, shape, dtype) if out is None else out
    assert result.shape == shape
    BACKEND.launch(session, kernel, compiled, operands, (result,))
    return result


def filled(x: Tensor, unit: int = WORD_BYTES) -> Tensor:
    """Return an operand as a FILL takes it: rows on whole words, any distance apart.

    With a `unit` of a quarter, as a VFILL does.
    """
    apart = x.strides[-1] if x.ndim > 1 and x.shape[-2] > 1 else 0
    anywhere = x.offset % unit == 0 and 0 <= apart <= MAX_STRIDE
    return x if anywhere else x.contiguous()
