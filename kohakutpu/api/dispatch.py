"""What a call of a kernel does: check the operands, compile or find it compiled, run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.pipeline import ArgSpec, Compiled
from kohakuaccel.errors import CallError
from kohakuaccel.runtime.device import DeviceFault
from kohakuaccel.source import caller
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
            addresses = [tensor.storage.address for tensor in (*args, *outs)]
            try:
                session.runtime.launch(compiled.image, addresses)
            except DeviceFault as fault:
                raise explain(compiled.image, fault) from fault
        return outs[0] if len(outs) == 1 else tuple(outs)

    def plan(self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]) -> Plan:
        """Return what `call` would run, without running it."""
        return self.compiled(kernel, args, knobs)[1].plan

    def compiled(
        self, kernel: Kernel, args: Sequence[Tensor], knobs: Mapping[str, Any]
    ) -> tuple[Session, Compiled]:
        """Return the device that the operands live on and the kernel compiled for it."""
        session = common_session(kernel.name, args)
        specs = [ArgSpec(tensor.shape, tensor.format) for tensor in args]
        return session, COMPILATIONS.get(kernel, specs, knobs, session.machine)


def common_session(what: str, args: Sequence[Tensor]) -> Session:
    """Return the one device that all operands live on.

    Raises
    ------
    CallError
        If there are two, or an operand is no tensor.
    """
    first: Tensor | None = None
    for position, tensor in enumerate(args):
        # The static type promises a tensor; whoever calls a kernel may not.
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CallError(
                f"{what}: operand {position} is a {type(tensor).__name__}, not a tensor",
                loc=caller(),
                fix="put it on the machine first: ktpu.tensor(x)",
            )
        if first is None:
            first = tensor
        elif tensor.session is not first.session:
            raise CallError(
                f"{what}: operands on two devices: {first.session!r} and {tensor.session!r}",
                loc=caller(),
                fix="make both on one device; ktpu.tensor(x.numpy()) moves one to the selected "
                "device",
            )
    if first is None:
        raise CallError(
            f"{what}: called without operands",
            loc=caller(),
            fix="pass a tensor for each In parameter",
        )
    first.session.runtime.require_open()
    return first.session
