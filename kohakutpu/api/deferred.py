"""Operations that wait: they are computed when somebody looks, several in one kernel if they can.

A tensor of an operation that has not run holds an `Operation`, which holds what it works on. Its
memory is what makes it run: `Tensor.numpy`, a kernel that takes it, `sync`, `stats`, a full device.
Which operations share a kernel is decided in `fusion`; no result depends on it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kohakuaccel.errors import KernelError
from kohakuaccel.source import Location, caller, evaluate_at
from kohakutpu.api import broadcasting, fusion, products
from kohakutpu.api.array import Array

if TYPE_CHECKING:
    from kohakutpu.api.session import Session
    from kohakutpu.api.tensor import Tensor

_LOCK = threading.RLock()  # an operation is computed once, whoever wants it
WAITING = 256  # operations of a device that wait at most


class Operation:
    """What a tensor will be: computed once, when its `tensor` is asked for.

    Attributes
    ----------
    name : str
        ``matmul``, or an operation of `kohakutpu.kernels.fused`.
    operands : tuple
        Tensors that exist, numbers (FP32), and operations; let go once the result is there.
    shape : tuple of int
        Of the result, which is FP16.
    precision : str
        Of a contraction.
    users : int
        How often it is an operand of others.
    loc : Location
        The line that said so.
    """

    __slots__ = (
        "__weakref__", "_handle", "_result", "failed", "loc", "name", "operands", "precision",
        "session", "shape", "users",
    )  # fmt: skip
    format = "fp16"

    def __init__(
        self, name: str, operands: tuple[Any, ...], shape: tuple[int, ...], precision: str
    ) -> None:
        self.name = name
        self.operands = operands
        self.shape = shape
        self.precision = precision
        self.users = 0
        self.failed = False
        self.loc: Location = caller()
        self.session: Session = next(
            x.device if isinstance(x, Array) else x.session
            for x in operands
            if isinstance(x, Array | Operation)
        )
        self._handle: Callable[[], Any] = lambda: None
        self._result: Tensor | None = None
        for operand in operands:
            if isinstance(operand, Operation):
                operand.users += 1

    @property
    def done(self) -> bool:
        """Whether the result exists."""
        return self._result is not None

    @property
    def wanted(self) -> bool:
        """Whether the program still holds the tensor."""
        return self._handle() is not None

    def promise(self, kind: type[Tensor]) -> Tensor:
        """Return the tensor that this will be."""
        tensor = kind.promised(self, self.shape)
        self._handle = weakref.ref(tensor)
        return tensor

    @property
    def tensor(self) -> Tensor:
        """The result, computed now if it does not exist; what it needs comes first."""
        with _LOCK:
            pending = [self]
            while pending:
                operation = pending[-1]
                if operation.done:
                    pending.pop()
                    continue
                group = fusion.group_of(operation)
                missing = [x for x in group.operands if isinstance(x, Operation) and not x.done]
                if missing:
                    pending += missing
                else:
                    operation.compute(group)
        assert self._result is not None
        return self._result

    def compute(self, group: fusion.Group) -> None:
        """Run the kernel of a group of operations of which this is the last."""
        self.failed = True  # until it is known that it is not
        try:
            self._result = evaluate_at(self.loc, lambda: self._run(group))
            self.session.fused += group.size - 1
        except KernelError:
            if group.size == 1:
                raise
            single = fusion.alone(self)
            for operand in single.operands:  # what was to be fused comes first
                _ = operand.tensor if isinstance(operand, Operation) else None
            self._result = evaluate_at(self.loc, lambda: self._run(single))
        self.failed = False
        self.operands = ()

    def _run(self, group: fusion.Group) -> Tensor:
        operands = [x.tensor if isinstance(x, Operation) else x for x in group.operands]
        if group.product is None:
            return broadcasting.compute(group.expression, operands, self.shape)
        x, w, *others = operands
        precision = group.product.precision
        if group.expression == 0:
            return products.product(x, w, self.shape, precision)
        return products.fused_product(group.expression, (x, w), others, self.shape, precision)


def defer(
    name: str, operands: Sequence[Any], shape: tuple[int, ...], precision: str = "default"
) -> Tensor:
    """Return the tensor of an operation on tensors and FP32 numbers, all of which were checked.

    It is computed when it is wanted; right away where `eager` says so, or an operand is FP32.
    """
    tensors: list[Any] = [x for x in operands if isinstance(x, Array)]
    held = tuple(x.pending or x if isinstance(x, Array) else x for x in operands)
    operation = Operation(name, held, shape, precision)
    kind: type[Tensor] = type(tensors[0])  # pyright: ignore[reportUnknownVariableType]
    result = operation.promise(kind)
    if _Mode.eager or any(x.format != "fp16" for x in tensors):
        result.storage  # noqa: B018
        return result
    waiting = operation.session.waiting
    waiting.append(weakref.ref(operation))
    if len(waiting) >= WAITING:
        operation.session.flush()
    return result


def flush(waiting: Sequence[weakref.ref[Operation]]) -> None:
    """Compute what the program still holds and has not failed before."""
    for reference in waiting:
        operation = reference()
        if operation and operation.wanted and not operation.done and not operation.failed:
            _ = operation.tensor


class _Mode:
    """Whether operations run at once."""

    eager = os.environ.get("KTPU_EAGER", "0") not in ("", "0")


class eager:
    """Run every operation of tensors at once, or stop doing so.

    As a statement until further notice, in ``with ktpu.eager():`` until the block ends. The
    environment variable ``KTPU_EAGER=1`` starts so. Results have the same bits either way.

    Parameters
    ----------
    on : bool
        Whether operations run at once.
    """

    def __init__(self, on: bool = True) -> None:
        self._before = _Mode.eager
        _Mode.eager = bool(on)

    def __enter__(self) -> None:
        """Stay so until the block ends."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Go back to how it was."""
        _Mode.eager = self._before
