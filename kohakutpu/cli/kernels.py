"""Kernels and shapes as the command line names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compiler.pipeline import ArgSpec, Compiled
from kohakuaccel.errors import CallError
from kohakutpu import kernels
from kohakutpu.api.compilation import COMPILATIONS
from kohakutpu.cli.running import execute
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel

SHAPE = re.compile(r"(?:(?P<extents>\d+(?:x\d+)*)|scalar)(?::(?P<format>fp16|fp32))?")


def find_kernel(name: str) -> Kernel:
    """Return a kernel of the library, or of a file as ``FILE.py:kernel``.

    Raises
    ------
    CallError
        If there is none of that name.
    OSError
        If the file cannot be read.
    """
    file, colon, inner = name.rpartition(":")
    if not colon:
        found: dict[str, Any] = {known: getattr(kernels, known) for known in kernels.__all__}
        where, inner = "kohakutpu.kernels", name
    else:
        if not Path(file).is_file():
            raise FileNotFoundError(f"{file}: no such file")
        found = execute(Path(file), Path(file).stem)
        where = file
    kernel = found.get(inner)
    if isinstance(kernel, Kernel):
        return kernel
    known = sorted(key for key, value in found.items() if isinstance(value, Kernel))
    raise CallError(
        f"{where} has no kernel {inner!r}; there are {', '.join(known) or 'none'}",
        fix="name one of them, or another file's as FILE.py:kernel",
    )


def read_shape(text: str) -> ArgSpec:
    """Return the operand that ``1024x1024``, ``16``, ``scalar`` or ``8x8:fp32`` describes.

    Raises
    ------
    CallError
        If it describes none.
    """
    match = SHAPE.fullmatch(text)
    if match is None:
        raise CallError(
            f"{text!r} is no shape",
            fix="write extents with x between them, as 1024x1024 or 16; scalar for no axes; "
            ":fp32 after it for that format",
        )
    extents = match["extents"]
    shape = tuple(int(extent) for extent in extents.split("x")) if extents else ()
    return ArgSpec(shape, match["format"] or "fp16")


def read_knobs(texts: Sequence[str]) -> dict[str, Any]:
    """Return knobs given as ``name=value``: numbers become numbers, all else is text.

    Raises
    ------
    CallError
        If one has no ``=``.
    """
    knobs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise CallError(f"{text!r} is no knob", fix="write name=value, as gm=16")
        knobs[name] = read_value(value)
    return knobs


def read_candidates(text: str) -> tuple[str, tuple[Any, ...]]:
    """Return a knob and what to try for it, given as ``name=value,value``.

    Raises
    ------
    CallError
        If it is not of that form.
    """
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not all(values.split(",")):
        raise CallError(
            f"{text!r} names no knob and values", fix="write name=value,value, as gm=4,8,16"
        )
    return name, tuple(read_value(value) for value in values.split(","))


def read_value(text: str) -> Any:
    """Return the value a knob's text stands for."""
    constants = {"none": None, "true": True, "false": False}
    if text.lower() in constants:
        return constants[text.lower()]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def compile_named(
    name: str, shapes: Sequence[str], knobs: Sequence[str], machine: Machine
) -> Compiled:
    """Return a kernel compiled for operands of these shapes.

    Raises
    ------
    CallError
        If kernel, shapes or knobs do not exist or do not go together.
    KernelError
        If the kernel is refused.
    """
    kernel = find_kernel(name)
    specs = [read_shape(text) for text in shapes]
    try:
        _, chosen = kernel.bind(tuple(specs), read_knobs(knobs))
        return COMPILATIONS.get(kernel, specs, chosen, machine)
    except CallError as error:
        error.loc = None  # the call is the command line, not a line of a program
        raise
