"""From what people have to the two formats memory holds, FP16 and FP32, and back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kohakuaccel.errors import CallError
from kohakuaccel.source import caller
from kohakutpu.config import WORD_BYTES

FP16_LIMIT = 65520.0  # the smallest magnitude that rounds to Inf, half a step above 65504
FORMATS = {"fp16": np.dtype(np.float16), "fp32": np.dtype(np.float32)}
ACCEPTED = "bool, integers and floating point"


def format_of(dtype: DTypeLike | str) -> str:
    """Return the storage format, ``"fp16"`` or ``"fp32"``, that a dtype names.

    Raises
    ------
    CallError
        If memory has no such format.
    """
    if isinstance(dtype, str) and dtype in FORMATS:
        return dtype
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        wanted = None
    for name, stored in FORMATS.items():
        if wanted == stored:
            return name
    raise CallError(
        f"a tensor cannot be stored as {dtype!r}",
        loc=caller(),
        fix='use dtype="fp16" (numpy.float16) or dtype="fp32" (numpy.float32)',
    )


def as_array(value: Any) -> NDArray[Any]:
    """Return `value` as a numpy array of a real dtype, without copying where numpy need not.

    Raises
    ------
    CallError
        If it is no array, or its elements are not real numbers.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        array = _from_dlpack(value, error)
    if array.dtype == object and array is not value and hasattr(value, "__dlpack__"):
        array = _from_dlpack(value, None)
    kind = array.dtype.kind
    # Formats of other packages (bfloat16 ...) are kind V; those that widen to FP32 are welcome.
    foreign = kind == "V" and array.dtype.names is None and np.can_cast(array.dtype, np.float32)
    if kind in "biuf" or foreign:
        return array
    what = f"elements of dtype {array.dtype}"
    if kind == "O":
        what = f"{type(value).__name__} becomes an array of Python objects"
    raise CallError(
        f"{what} cannot be stored: a tensor takes {ACCEPTED}",
        loc=caller(),
        fix="convert it first, for example with numpy.asarray(x, dtype=numpy.float32); "
        "take .real and .imag of complex numbers; make nested lists equally long",
    )


def _from_dlpack(value: Any, error: Exception | None) -> NDArray[Any]:
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as refused:
        raise CallError(
            f"{type(value).__name__} is neither an array nor convertible to one: "
            f"{error or refused}",
            loc=caller(),
            fix="pass numpy arrays, nested lists of equal lengths, numbers, or objects with "
            "__array__ or __dlpack__ in host memory",
        ) from refused


def to_format(array: NDArray[Any], stored: str, explicit: bool) -> NDArray[Any]:
    """Return `array` rounded to a storage format, round to nearest even.

    Parameters
    ----------
    array : ndarray
        Of a real dtype.
    stored : str
        ``"fp16"`` or ``"fp32"``.
    explicit : bool
        The caller named the format, so finite values beyond it become Inf; otherwise they are
        an error.

    Raises
    ------
    CallError
        If a finite value would become Inf and `explicit` is false.
    """
    target = FORMATS[stored]
    if array.dtype == target:
        return array
    wide = array.astype(np.float32) if array.dtype.kind == "V" else array
    with np.errstate(over="ignore", under="ignore"):
        result = wide.astype(target)
    if not explicit and wide.dtype.kind != "b":
        lost = np.isinf(result)
        if lost.any() and wide.dtype.kind == "f":
            lost &= np.isfinite(wide)
        if lost.any():
            _refuse_overflow(wide, lost)
    return result


def _refuse_overflow(array: NDArray[Any], lost: NDArray[np.bool_]) -> None:
    first = np.unravel_index(int(np.argmax(lost)), array.shape)
    place = f" at index {tuple(int(i) for i in first)}" if array.ndim else ""
    raise CallError(
        f"{array[first]!s}{place} is beyond FP16, which ends at 65504 ({int(lost.sum())} of "
        f"{array.size} values are): it would become Inf",
        loc=caller(),
        fix="scale the data, or say dtype='fp16' to accept Inf there",
    )


def row_bytes(shape: tuple[int, ...], stored: str) -> tuple[int, int, int]:
    """Return rows, bytes of data in a row, and bytes from row to row of a tensor in memory."""
    width = shape[-1] if shape else 1
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    data = width * FORMATS[stored].itemsize
    return rows, data, -(-data // WORD_BYTES) * WORD_BYTES


def pack(array: NDArray[Any], stored: str, padding: int = 0) -> memoryview:
    """Return the bytes of `array`, already of the storage format, as they lie in memory.

    Parameters
    ----------
    array : ndarray
        Any shape with at least one element, any strides.
    stored : str
        Its format.
    padding : int
        The byte that fills rows up to whole words.
    """
    rows, data, stride = row_bytes(array.shape, stored)
    flat = np.ascontiguousarray(array).reshape(rows, -1).view(np.uint8)
    if data == stride:
        return memoryview(cast("Any", flat.reshape(-1)))
    padded = np.full((rows, stride), padding, np.uint8)
    padded[:, :data] = flat
    return memoryview(cast("Any", padded.reshape(-1)))


def unpack(content: Any, shape: tuple[int, ...], stored: str) -> NDArray[Any]:
    """Return the tensor whose bytes in memory are `content`, as an array of its own."""
    rows, data, stride = row_bytes(shape, stored)
    flat = np.frombuffer(content, np.uint8).reshape(rows, stride)[:, :data]
    return np.array(flat, order="C").view(FORMATS[stored]).reshape(shape)
