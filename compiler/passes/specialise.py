"""Put numbers on a trace: dimensions from the arguments, buffers with sizes, the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.vector.context import Operand
from kohakuaccel.errors import CallError, InternalError
from kohakuaccel.image import OperandInfo
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Trace
from kohakuaccel.source import Location, call_site
from kohakutpu.config import WORD_BYTES
from kohakutpu.lang.call import Extents, solve
from kohakutpu.lang.layout import elements_per_word, rows_and_width

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ArgSpec:
    """An argument as far as compilation depends on it.

    Parameters
    ----------
    shape : tuple of int
        Its extents.
    dtype : str
        ``"fp16"`` or ``"fp32"``.
    strides : tuple of int, optional
        Words from index to index of every axis but the last, whose elements always follow each
        other; left out, rows follow each other.
    """

    shape: Shape
    dtype: str = "fp16"
    strides: Shape | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a buffer is and how it lies there, batch included.

    Parameters
    ----------
    operand : Operand
        One batch element; its ``batch_strides`` are of no stage yet.
    shape : tuple of int
        The whole shape.
    batch : tuple of int
        Words from element to element along each axis of the call's batch, 0 where shared.
    nbytes : int
        All of it.
    """

    operand: Operand
    shape: Shape
    batch: Shape
    nbytes: int


@dataclass(frozen=True)
class Print:
    """A value of a kernel to show after a run: what to call it, its shape, dtype and line."""

    label: str
    shape: Shape
    dtype: str
    loc: Location


@dataclass(eq=False, slots=True)
class Specialised:
    """A trace and its numbers.

    ``env`` has no knobs yet. ``batch`` is the broadcast of the arguments' leading axes. ``infos``
    describes the operands of the image: arguments, results, prints, temporaries and, last, its
    data.
    """

    trace: Trace
    env: dict[Symbol, int]
    batch: Shape
    storage: dict[Buffer, Storage]
    infos: list[OperandInfo]
    data: bytes

    @property
    def out_specs(self) -> list[tuple[str, Shape, str]]:
        """Name, shape and dtype of every result."""
        return [
            (buffer.name, self.storage[buffer].shape, buffer.dtype)
            for buffer in self.trace.buffers
            if buffer.role == "out"
        ]

    @property
    def prints(self) -> list[Print]:
        """What is to be shown after a run."""
        return [
            Print(buffer.value, self.storage[buffer].shape, buffer.dtype, buffer.loc)
            for buffer in self.trace.buffers
            if buffer.role == "print"
        ]


def specialise(
    trace: Trace, specs: Sequence[ArgSpec], out_strides: Sequence[Shape | None] = ()
) -> Specialised:
    """Solve the dimensions of ``trace`` for these arguments and lay out its buffers.

    ``out_strides`` are those of the results, as in `ArgSpec`; left out, rows follow each other.

    Raises
    ------
    CallError
        If the arguments do not fit the declarations or each other.
    """
    ins = [buffer for buffer in trace.buffers if buffer.role == "in"]
    for buffer, spec in zip(ins, specs, strict=True):
        if spec.dtype != buffer.dtype:
            raise CallError(
                f"`{buffer.name}` is declared {buffer.dtype}, but the argument holds {spec.dtype}",
                loc=call_site(),
                fix=f"pass a tensor of dtype {buffer.dtype}",
                notes=[(buffer.loc, f"`{buffer.name}` is declared here")],
            )
    extents = solve(trace, [spec.shape for spec in specs])
    shapes = {buffer: tuple(spec.shape) for buffer, spec in zip(ins, specs, strict=True)}
    outs = [buffer for buffer in trace.buffers if buffer.role == "out"]
    strides = {buffer: spec.strides for buffer, spec in zip(ins, specs, strict=True)}
    strides |= dict(zip(outs, out_strides, strict=bool(out_strides)))
    result = Specialised(trace, dict(extents.env), extents.batch, {}, [], b"")
    for role in ("in", "out", "print", "temp"):
        for buffer in trace.buffers:
            if buffer.role == role:
                shape = shapes[buffer] if role == "in" else extents.shape(buffer)
                number, given = len(result.infos), strides.get(buffer)
                storage = _laid_out(buffer, shape, extents, number, strides=given)
                result.storage[buffer] = storage
                kind = "out" if role == "print" else role
                result.infos.append(OperandInfo(buffer.name, kind, storage.nbytes))
    _add_tables(result, extents)
    return result


def _laid_out(
    buffer: Buffer,
    shape: Shape,
    extents: Extents,
    number: int,
    offset: int = 0,
    strides: Shape | None = None,
) -> Storage:
    rows, width = (extent.evaluate(extents.env) for extent in rows_and_width(buffer))
    row_words = -(-width // elements_per_word(buffer.dtype))
    element = rows * row_words
    own = shape[: len(shape) - len(buffer.shape)] if buffer.batched else ()
    axes: list[int] = []
    step = element
    for size in reversed(own):
        axes.insert(0, step if size != 1 else 0)
        step *= size
    if strides is not None:
        if buffer.any_rank or len(buffer.shape) > 2 or len(strides) != max(len(shape) - 1, 0):
            raise InternalError(f"`{buffer.name}` of shape {shape} cannot have strides {strides}")
        axes = [step if size != 1 else 0 for size, step in zip(own, strides, strict=False)]
        row_words = strides[-1] if len(buffer.shape) == 2 and rows > 1 else row_words
    batch = (0,) * (len(extents.batch) - len(own)) + tuple(axes)
    operand = Operand(number, rows, width, row_words, buffer.dtype, (), offset)
    nbytes = prod(own) * element * WORD_BYTES
    return Storage(operand, shape, batch, nbytes)


def _add_tables(result: Specialised, extents: Extents) -> None:
    tables = [buffer for buffer in result.trace.buffers if buffer.role == "table"]
    number = len(result.infos)
    data = bytearray()
    for buffer in tables:
        storage = _laid_out(buffer, buffer.value.shape, extents, number, len(data) // WORD_BYTES)
        result.storage[buffer] = storage
        operand = storage.operand
        padded = np.zeros((operand.rows, operand.row_words * elements_per_word(buffer.dtype)))
        padded[:, : operand.width] = buffer.value.reshape(operand.rows, operand.width)
        data += padded.astype("<f2" if buffer.dtype == "fp16" else "<f4").tobytes()
    if data:
        result.infos.append(OperandInfo(_free_name(result.infos), "data", len(data)))
        result.data = bytes(data)


def _free_name(infos: Sequence[OperandInfo]) -> str:
    taken = {info.name for info in infos}
    name = "data"
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch loops of one stage: how often each runs, and every buffer as it sees them."""

    counts: Shape
    operands: Mapping[Buffer, Operand]


def collapse_batch(program: Specialised, buffers: Sequence[Buffer]) -> Batch:
    """Merge neighbouring batch axes that every buffer walks evenly; drop what nobody walks."""
    counts: list[int] = []
    strides: list[list[int]] = []  # by axis, then buffer
    for axis, size in enumerate(program.batch):
        steps = [program.storage[buffer].batch[axis] for buffer in buffers]
        if size == 1 or not any(steps):
            continue
        if counts and all(
            outer == size * step for outer, step in zip(strides[-1], steps, strict=True)
        ):
            counts[-1] *= size
            strides[-1] = steps
        else:
            counts.append(size)
            strides.append(steps)
    operands: dict[Buffer, Operand] = {}
    for place, buffer in enumerate(buffers):
        own = program.storage[buffer].operand
        batch_strides = tuple(steps[place] for steps in strides)
        operands[buffer] = Operand(
            own.number, own.rows, own.width, own.row_words, own.dtype, batch_strides, own.offset
        )
    return Batch(tuple(counts), operands)
