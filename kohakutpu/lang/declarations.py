"""``L.In``, ``L.Out``, ``L.temp`` and ``L.table``: where buffers come from."""

from __future__ import annotations

from operator import index
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const, Expr, as_expr, is_integer
from kohakuaccel.ir.nodes import Buffer
from kohakuaccel.ir.unknown import Unknown
from kohakuaccel.lang.tracing import Tracer, current
from kohakuaccel.source import Location, caller
from kohakutpu.lang.tensors import Tensor

Axis = Expr | int | EllipsisType


def In(*shape: Axis, dtype: Any = "fp16") -> Tensor:
    """Declare an argument; ``...`` first absorbs leading axes.

    Parameters
    ----------
    *shape : Expr, int or ...
        The axes the kernel works on. ``...`` alone is one block of any rank; before other axes it
        is a batch, and the kernel describes one element of it.
    dtype : {"fp16", "fp32"}
        What the elements are stored as.

    Raises
    ------
    KernelError
        If an axis is no dimension, or ``dtype`` is unknown.
    """
    return Tensor(declare("in", shape, dtype, caller()))


def Out(*shape: Axis, dtype: Any = "fp16") -> Tensor:
    """Declare a result, which the call allocates and returns; see :func:`In`."""
    return Tensor(declare("out", shape, dtype, caller()))


def temp(*shape: Axis, dtype: Any = "fp16") -> Tensor:
    """Make an internal buffer, written in one stage and read in a later one.

    In a kernel with a batch there is one for every element of the batch.

    Raises
    ------
    KernelError
        If used outside a kernel, an axis is no dimension, or ``dtype`` is unknown.
    """
    loc = caller()
    tracer = current("L.temp", loc)
    buffer = declare("temp", shape, dtype, loc)
    buffer.name = _fresh(tracer, loc.target or "temp")
    buffer.batched = not buffer.any_rank and any(b.batched for b in tracer.trace.buffers)
    tracer.trace.buffers.append(buffer)
    return Tensor(buffer)


def table(array: Any, dtype: Any = None) -> Tensor:
    """Make a buffer whose contents are known now and ship with the program.

    Parameters
    ----------
    array : array_like
        Real numbers. Without ``dtype`` they are kept as FP16 where that is exact, else as FP32.
    dtype : {"fp16", "fp32"}, optional
        What the elements are stored as.

    Raises
    ------
    KernelError
        If used outside a kernel, ``array`` does not hold real numbers, or without ``dtype`` a
        finite one is beyond FP32. Named by ``dtype``, a format takes every value, as Inf where it
        ends earlier.
    """
    loc = caller()
    tracer = current("L.table", loc)
    contents = np.asarray(array)
    if contents.dtype.kind not in "biuf":
        raise KernelError(
            f"L.table holds real numbers, not {contents.dtype}",
            loc=loc,
            fix="give it an array of a real dtype",
        )
    chosen = ("fp16" if _fits_fp16(contents) else "fp32") if dtype is None else dtype
    name = _dtype(chosen, loc)
    with np.errstate(over="ignore"):
        stored = contents.astype(np.float16 if name == "fp16" else np.float32)
    if dtype is None and (np.isinf(stored) & np.isfinite(contents)).any():
        raise KernelError(
            "L.table holds a finite number beyond FP32, which ends at 3.40282e+38",
            loc=loc,
            fix='scale the numbers, or say dtype="fp32" to accept Inf there',
        )
    buffer = Buffer(
        _fresh(tracer, loc.target or "table"),
        "table",
        tuple(Const(extent) for extent in contents.shape),
        name,
        loc,
        value=stored,
    )
    tracer.trace.buffers.append(buffer)
    return Tensor(buffer)


def declare(role: str, shape: tuple[Axis, ...], dtype: Any, loc: Location) -> Buffer:
    """Return a nameless buffer of the declared axes.

    Raises
    ------
    KernelError
        If an axis is no dimension, or ``dtype`` is unknown.
    """
    leading = bool(shape) and shape[0] is Ellipsis
    axes: list[Expr] = []
    for number, axis in enumerate(shape[leading:], start=int(leading)):
        extent: Any = axis
        if not is_integer(axis) or (not isinstance(axis, Expr) and index(extent) < 1):
            late = "`...` comes first or not at all"
            what = late if axis is Ellipsis else f"{_shown(axis)} is no extent"
            raise KernelError(
                f"axis {number} of this declaration: {what}",
                loc=loc,
                fix='use symbols of dims("M, N"), arithmetic on them, or whole numbers from 1',
            )
        axes.append(as_expr(extent))
    return Buffer(
        "",
        role,
        tuple(axes),
        _dtype(dtype, loc),
        loc,
        batched=leading and bool(axes),
        any_rank=leading and not axes,
    )


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Unknown) else repr(value)


def _fits_fp16(contents: NDArray[Any]) -> bool:
    with np.errstate(over="ignore"):
        narrow = contents.astype(np.float16).astype(np.float64)
    return np.array_equal(narrow, contents, equal_nan=contents.dtype.kind == "f")


def _dtype(dtype: Any, loc: Location) -> str:
    if isinstance(dtype, str) and dtype in ("fp16", "fp32"):
        return dtype
    names = {np.dtype(np.float16): "fp16", np.dtype(np.float32): "fp32"}
    try:
        return names[np.dtype(dtype)]
    except (KeyError, TypeError):
        raise KernelError(
            f"no buffer holds elements of {dtype!r}", loc=loc, fix='use "fp16" or "fp32"'
        ) from None


def _fresh(tracer: Tracer, name: str) -> str:
    taken = {buffer.name for buffer in tracer.trace.buffers}
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}{number}", number + 1
    return unique
