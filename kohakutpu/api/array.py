"""A tensor's memory, shape, layout and format, and the way to numpy; arithmetic comes on top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.api import layout
from kohakutpu.api.convert import FORMATS, pack, row_bytes, unpack
from kohakutpu.api.storage import Storage
from kohakutpu.config import WORD_BYTES

if TYPE_CHECKING:
    from kohakutpu.api.deferred import Operation
    from kohakutpu.api.session import Session

HOST = 1  # kDLCPU in DLPack


class Array:
    """Elements on a device: rows of the last axis, each on whole words.

    ``strides`` are the words from index to index of every axis but the last, ``offset`` the bytes
    from the start of the memory to the first element: two tensors may share their memory.
    """

    __slots__ = ("__weakref__", "_storage", "format", "offset", "pending", "shape", "strides")

    def __init__(
        self,
        storage: Storage,
        shape: tuple[int, ...],
        stored: str,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> None:
        self._storage: Storage | None = storage
        self.pending: Operation | None = None
        self.shape = shape
        self.format = stored
        self.strides = layout.packed(shape, stored) if strides is None else strides
        self.offset = offset

    # ---------------------------------------------------------------- making

    @classmethod
    def empty(cls, session: Session, shape: Sequence[int], stored: str) -> Self:
        """Return a tensor whose elements nobody has written yet."""
        shape = tuple(shape)
        return cls(Storage(session, shape, stored), shape, stored)

    @classmethod
    def promised(cls, operation: Operation, shape: tuple[int, ...]) -> Self:
        """Return the FP16 tensor that an operation will compute when its memory is wanted."""
        result = cls.__new__(cls)
        result._storage, result.pending = None, operation
        result.shape, result.format = shape, "fp16"
        result.strides, result.offset = layout.packed(shape, "fp16"), 0
        return result

    @classmethod
    def upload(cls, session: Session, values: NDArray[Any], stored: str) -> Self:
        """Return a tensor that holds `values`, which are of the storage format already."""
        result = cls.empty(session, values.shape, stored)
        if values.size:
            padding = session.runtime.device.padding
            session.runtime.write(result.storage.address, pack(values, stored, padding))
        return result

    def contiguous(self) -> Any:
        """Return the same elements with rows one after the other: itself, or a copy."""
        raise NotImplementedError(type(self).__name__)

    def strided(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Self:
        """Return other indices of the same memory, `offset` bytes further on."""
        storage = self.storage
        start = self.offset + offset
        return type(self)(storage, tuple(shape), self.format, tuple(strides), start)

    def view(self, shape: Sequence[int]) -> Self:
        """Return the same rows under another shape: leading axes may be split and merged.

        The last axis stays, or the tensor has one element.
        """
        shape = tuple(shape)
        same_rows = (self.shape or (1,))[-1] == (shape or (1,))[-1]
        assert same_rows, f"{self.shape} and {shape} have rows of different widths"
        assert math.prod(shape) == self.size, f"{self.shape} and {shape} differ in size"
        if shape == self.shape:
            return self
        source = self.contiguous()
        return source.strided(shape, layout.packed(shape, self.format))

    def stored_as(self, shape: Sequence[int]) -> Self:
        """Return the same memory under a shape of as many words; padding may become elements."""
        shape = tuple(shape)
        rows, _, stride = row_bytes(shape, self.format)
        own, _, step = row_bytes(self.shape, self.format)
        assert rows * stride == own * step, f"{self.shape} is not stored as {shape}"
        if shape == self.shape:
            return self
        return self.contiguous().strided(shape, layout.packed(shape, self.format))

    # ----------------------------------------------------------- description

    @property
    def storage(self) -> Storage:
        """Its memory; what is pending is computed first."""
        if self._storage is None:
            assert self.pending is not None
            result = self.pending.tensor
            assert result.is_contiguous, "an operation leaves rows one after the other"
            self._storage, self.offset, self.pending = result.storage, result.offset, None
        return self._storage

    @property
    def device(self) -> Session:
        """The device it lives on."""
        return self.pending.session if self.pending is not None else self.storage.session

    @property
    def dtype(self) -> np.dtype[Any]:
        """``float16``, or ``float32`` where that was asked for."""
        return FORMATS[self.format]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the device memory it lies in, rows filled up to whole words of 32 bytes."""
        return self.storage.nbytes

    @property
    def address(self) -> int:
        """Where the first element is; only memory that exists has an address."""
        return self.storage.address + self.offset

    @property
    def is_contiguous(self) -> bool:
        """Whether its rows follow each other, from the start of a word."""
        whole = self.offset % WORD_BYTES == 0
        return whole and layout.is_packed(self.shape, self.strides, self.format)

    def __len__(self) -> int:
        if not self.shape:
            raise CallError(
                "len() of a tensor without axes", loc=caller(), fix="use size, which is 1"
            )
        return self.shape[0]

    def __bool__(self) -> bool:
        raise CallError(
            "the truth of a tensor is not known before its data comes back",
            loc=caller(),
            fix="test x.numpy(), or x.size to know whether it has elements",
        )

    def __repr__(self) -> str:
        return f"tensor(shape={self.shape}, dtype={self.dtype}, {self.device!r})"

    # -------------------------------------------------------------- to numpy

    def numpy(self) -> NDArray[Any]:
        """Bring the elements back to host memory.

        Returns
        -------
        ndarray
            A new array of this shape and dtype.
        """
        if not self.size:
            return np.empty(self.shape, self.dtype)
        runtime = self.device.runtime
        if self.is_contiguous:
            rows, _, stride = row_bytes(self.shape, self.format)
            return unpack(runtime.read(self.address, rows * stride), self.shape, self.format)
        low, high = layout.span(self.shape, self.strides, self.format)
        start = (self.address + low) // WORD_BYTES * WORD_BYTES
        end = -(-(self.address + high) // WORD_BYTES) * WORD_BYTES
        content = runtime.read(start, end - start)
        return layout.gather(content, self.address - start, self.shape, self.strides, self.format)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the elements are on a device: numpy cannot have them without a copy")
        values = self.numpy()
        return values if dtype is None else values.astype(cast("Any", dtype), copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of a copy in host memory.

        Raises
        ------
        BufferError
            If the consumer wants no copy, or memory of another kind.
        """
        if copy is False:
            raise BufferError("the elements are on a device: nobody can have them without a copy")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"elements come back to host memory, not to device {dl_device}")
        return self.numpy().__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where `__dlpack__` puts the elements: host memory."""
        return (HOST, 0)

    # -------------------------------------------------------------- lifetime

    def pin(self) -> Self:
        """Keep it resident even when nothing references it, until `unpin`. Returns itself."""
        self.device.pin(self)
        return self

    def unpin(self) -> Self:
        """Take back one `pin`: memory is freed once nothing references it. Returns itself.

        Raises
        ------
        CallError
            If it is not pinned.
        """
        self.device.unpin(self)
        return self


def common_device(what: str, operands: Sequence[Any]) -> Session:
    """Return the one device that all operands live on.

    Parameters
    ----------
    what : str
        The operation, as a message shall name it.
    operands : sequence
        What somebody passed as its tensors.

    Raises
    ------
    CallError
        If one is no tensor, there are two devices, or theirs is closed.
    """
    first: Array | None = None
    for operand in operands:
        if not isinstance(operand, Array):
            kind = cast("type[object]", type(operand))
            name = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
            number = isinstance(operand, Real)
            wanted = "not a tensor" if number else "neither a tensor nor a real number"
            raise CallError(
                f"{what}: an operand is of type {name}, {wanted}",
                loc=caller(),
                fix="put numbers and arrays on the machine first: ktpu.tensor(x)",
            )
        if first is None:
            first = operand
        elif operand.device is not first.device:
            raise CallError(
                f"{what}: operands on two devices: {first.device!r} and {operand.device!r}",
                loc=caller(),
                fix="make both on one device; ktpu.tensor(x) moves x to the selected one",
            )
    if first is None:
        raise CallError(
            f"{what}: no operand is a tensor", loc=caller(), fix="make one with ktpu.tensor(x)"
        )
    first.device.runtime.require_open()
    return first.device
