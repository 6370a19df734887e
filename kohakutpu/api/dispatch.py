"""What a call of a kernel does: check the operands, compile or find it compiled, run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.pipeline import ArgSpec, Compiled
from kohakuaccel.errors import Diagnostic, KernelError
from kohakuaccel.runtime.device import DeviceFault
from kohakuaccel.source import caller
from kohakutpu.api.array import common_device
from kohakutpu.api.compilation import COMPILATIONS
from kohakutpu.api.session import Session
from kohakutpu.api.tensor import Tensor
from kohakutpu.devices.faults import explain
from kohakutpu.lang import Kernel

if TYPE_CHECKING:
    from compiler.plan import Plan


class Backend:
    """How `kohakutpu.lang` runs and plans kernels on tensors."""

    def call(
        self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]
    ) -> Tensor | tuple[Tensor, ...]:
        """Run `kernel` and return its ``Out``, or a tuple of them.

        Raises
        ------
        CallError
            If operands are no tensors, or do not fit the kernel or each other.
        KernelError
            If the kernel is refused.
        MachineFault
            If the machine stopped.
        """
        session, compiled = self.compiled(kernel, args, knobs)
        outs = [Tensor.empty(session, shape, dtype) for _, shape, dtype in compiled.out_specs]
        if all(out.size for out in outs):
            # What has no elements has no memory, and no program touches it.
            addresses = [t.storage.address if t.size else 0 for t in (*args, *outs)]
            try:
                session.runtime.launch(compiled.image, addresses)
            except DeviceFault as fault:
                raise called_here(explain(compiled.image, fault), kernel) from fault
        return outs[0] if len(outs) == 1 else tuple(outs)

    def plan(self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]) -> Plan:
        """Return what `call` would run, without running it."""
        return self.compiled(kernel, args, knobs)[1].plan

    def compiled(
        self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]
    ) -> tuple[Session, Compiled]:
        """Return the device that the operands live on and the kernel compiled for it."""
        session = common_device(kernel.name, args)
        specs = [ArgSpec(tensor.shape, tensor.format) for tensor in args]
        try:
            return session, COMPILATIONS.get(kernel, specs, knobs, session.machine)
        except KernelError as error:
            called_here(error, kernel)
            raise


def called_here(error: Diagnostic, kernel: Kernel) -> Diagnostic:
    """Return `error`, which points into the kernel, with the line that called it."""
    error.notes = (*error.notes, (caller(), f"`{kernel.name}` is called here"))
    return error
