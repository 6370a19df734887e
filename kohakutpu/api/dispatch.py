"""What a call of a kernel does: check the operands, compile or find it compiled, run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.pipeline import ArgSpec, Compiled
from kohakuaccel.errors import Diagnostic, KernelError
from kohakuaccel.runtime.device import DeviceFault
from kohakuaccel.source import caller
from kohakutpu import kernels
from kohakutpu.api import layout, printing
from kohakutpu.api.array import Array, common_device
from kohakutpu.api.compilation import COMPILATIONS
from kohakutpu.api.convert import row_bytes
from kohakutpu.api.session import Session
from kohakutpu.config import WORD_BYTES
from kohakutpu.devices.faults import explain
from kohakutpu.lang import Kernel

if TYPE_CHECKING:
    from kohakutpu.api.tensor import Tensor

FILLING = frozenset((kernels.matmul, kernels.batched_matmul))  # rows may lie anywhere
MAX_STRIDE = (1 << 24) - 1  # words from row to row that an instruction names


class Backend:
    """How `kohakutpu.lang` runs and plans kernels on tensors."""

    def call(
        self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]
    ) -> Tensor | tuple[Tensor, ...]:
        """Run `kernel` and return its ``Out``, or a tuple of them; show what it prints.

        Raises
        ------
        CallError
            If operands are no tensors, or do not fit the kernel or each other.
        KernelError
            If the kernel is refused.
        MachineFault
            If the machine stopped.
        """
        operands: list[Tensor] = [accepted(kernel, x) for x in args]
        session, compiled = self.compiled(kernel, operands, knobs)
        kind = type(operands[0])
        outs = [kind.empty(session, shape, dtype) for _, shape, dtype in compiled.out_specs]
        shown = [printing.blank(session, found, kind) for found in compiled.prints]
        self.launch(session, kernel, compiled, operands, [*outs, *shown])
        for found, values in zip(compiled.prints, shown, strict=True):
            print(printing.text(found, values, kernel.name))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def call_into(self, kernel: Kernel, args: Sequence[Tensor], *outs: Tensor) -> None:
        """Run a kernel that takes strides on elements that exist; its results go to `outs`."""
        session, compiled = self.compiled(kernel, args, {}, outs)
        self.launch(session, kernel, compiled, args, outs)

    def launch(
        self,
        session: Session,
        kernel: Kernel,
        compiled: Compiled,
        args: Sequence[Tensor],
        outs: Sequence[Tensor],
    ) -> None:
        """Run what was compiled, from `args` to `outs`.

        Raises
        ------
        MachineFault
            If the machine stopped.
        """
        results = outs[: len(compiled.out_specs)]  # behind them is what the kernel prints
        if not all(out.size for out in results):
            return  # what has no elements has no memory, and no program touches it
        addresses = [tensor.address if tensor.size else 0 for tensor in (*args, *outs)]
        try:
            session.runtime.launch(compiled.image, addresses, temporaries_of(compiled))
        except DeviceFault as fault:
            raise called_here(explain(compiled.image, fault), kernel) from fault

    def program(self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]) -> Compiled:
        """Return what `call` would run, without running it."""
        return self.compiled(kernel, [accepted(kernel, x) for x in args], knobs)[1]

    def compiled(
        self,
        kernel: Kernel,
        args: Sequence[Tensor],
        knobs: Mapping[str, Any],
        outs: Sequence[Tensor] = (),
        relax: bool | None = None,
    ) -> tuple[Session, Compiled]:
        """Return the device that the operands live on and the kernel compiled for it."""
        session = common_device(kernel.name, args)
        specs = [ArgSpec(x.shape, x.format, strides_of(x)) for x in args]
        result = tuple(strides_of(out) for out in outs)
        try:
            return session, COMPILATIONS.get(kernel, specs, knobs, session.machine, result, relax)
        except KernelError as error:
            called_here(error, kernel)
            raise


def temporaries_of(compiled: Compiled) -> list[tuple[int, int, int]]:
    """Return how each temporary lies in memory: a batch of rows, whose padding is no data."""
    result: list[tuple[int, int, int]] = []
    for buffer in compiled.plan.buffers:
        if buffer.role == "temp":
            _, data, stride = row_bytes(buffer.shape, buffer.dtype)
            result.append((buffer.nbytes // stride if stride else 0, data, stride))
    return result


def accepted(kernel: Kernel, x: Any) -> Any:
    """Return an operand as `kernel` takes it: rows one after the other, unless it fills them."""
    if not isinstance(x, Array) or not x.size or x.is_contiguous:
        return x
    if kernel in FILLING and x.offset % WORD_BYTES == 0 and x.shape[-1] > 1:
        row = x.strides[-1] if x.strides else 0
        if 0 <= row <= MAX_STRIDE:
            return x
    return x.contiguous()


def strides_of(x: Tensor) -> tuple[int, ...] | None:
    """Return the strides that a compilation depends on: none where rows follow each other."""
    return None if layout.is_packed(x.shape, x.strides, x.format) else x.strides


def called_here(error: Diagnostic, kernel: Kernel) -> Diagnostic:
    """Return `error`, which points into the kernel, with the line that called it."""
    error.notes = (*error.notes, (caller(), f"`{kernel.name}` is called here"))
    return error
