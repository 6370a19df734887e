"""Run a kernel at the first of several sizes that fits, on operands that lie anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohakuaccel.errors import CapacityError
from kohakutpu.api.dispatch import MAX_STRIDE, Backend
from kohakutpu.api.tensor import Tensor
from kohakutpu.config import WORD_BYTES
from kohakutpu.lang import Kernel

BACKEND = Backend()

Try = tuple[Kernel, Sequence[Tensor], Mapping[str, Any]]


def run(tries: Sequence[Try], out: Tensor | None = None) -> Tensor:
    """Return the result of the first kernel with operands and knobs that the machine can hold.

    It goes to `out` if that is given, whose rows may lie anywhere.

    Raises
    ------
    CapacityError
        If it holds none; this is what the last one says.
    """
    *others, last = tries
    for kernel, operands, knobs in others:
        try:
            return launch(kernel, operands, knobs, out)
        except CapacityError:
            continue
    return launch(*last, out)


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
    session, compiled = BACKEND.compiled(kernel, operands, knobs, given)
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
