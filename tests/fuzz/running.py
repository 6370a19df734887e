"""Texts become kernels, kernels run on the golden machine and in the interpreter."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np

from compiler.pipeline import compile_kernel
from compiler.tests.golden import Launch, spec_of
from kohakutpu.config import preset
from kohakutpu.lang import Kernel
from tests.fuzz.interpreter import interpret
from tests.fuzz.writer import Source

MACHINES = ("tiny", "small", "duo")


def kernel_of(text: str, name: str) -> Kernel:
    """Return the kernel `fuzz` of a text, whose lines messages can show."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": name}
    exec(compile(text, file, "exec"), scope)
    return scope["fuzz"]


def check(source: Source, seed: int, free: bool = True) -> None:
    """Compare what the machine computes with what the trace means, bit for bit.

    Parameters
    ----------
    source : Source
        The kernel.
    seed : int
        Of the order of instances and engines.
    free : bool
        Sizes that are left open may be anything; else the trace is read with those that the
        compiler has chosen, since with others it may be wrong.

    Raises
    ------
    Diagnostic
        If the kernel is refused.
    AssertionError
        If a bit differs.
    """
    kernel = kernel_of(source.text, f"fuzz-{seed}")
    machine = preset(MACHINES[seed % len(MACHINES)])
    knobs = {n: v for n, v in source.knobs.items() if n not in source.left_open}
    kernel.bind(tuple(source.arrays), knobs)
    specs = [spec_of(array) for array in source.arrays]
    compiled = compile_kernel(kernel, specs, knobs, machine)
    launch = Launch(compiled, source.arrays, machine, poison=True, seed=seed)
    if not compiled.image.units:
        return  # nothing runs where no result has elements
    fill_padding(launch)
    fill_prints(launch)
    launch.run()
    sizes = compiled.plan.sizes
    chosen = {} if free else {n: sizes[n] for n in source.left_open if n in sizes}
    trace = kernel.trace(**{**source.knobs, **chosen})
    if trace.knobs:
        return  # a size that a mutation left open: nothing says how to read the trace
    expected = interpret(trace, source.arrays, seed)
    if not all(array.size for array in expected):
        return
    for found, wanted in zip(launch.results(), expected, strict=True):
        nan = np.isnan(wanted)
        assert np.array_equal(np.isnan(found), nan), "NaN differs"
        unsigned = f"u{found.dtype.itemsize}"
        wrong = (found.view(unsigned) != wanted.view(unsigned)) & ~nan
        assert not wrong.any(), f"{wrong.sum()} of {wrong.size} differ, at {np.argwhere(wrong)[0]}"


def fill_prints(launch: Launch) -> None:
    """Fill what will be printed with NaN, as the runtime does: instances need not cover it."""
    outs = [n for n, info in enumerate(launch.compiled.image.operands) if info.kind == "out"]
    for place in outs[len(launch.compiled.out_specs) :]:
        nbytes = launch.compiled.image.operands[place].nbytes
        launch.device.memory.write(launch.bases[place], np.full(nbytes, 0xFF, np.uint8))


def fill_padding(launch: Launch) -> None:
    """Fill up the rows of temporaries with NaN, as the runtime does: it is no data, but is read."""
    buffers = iter(b for b in launch.compiled.plan.buffers if b.role == "temp")
    for base, info in zip(launch.bases, launch.compiled.image.operands, strict=True):
        if info.kind != "temp":
            continue
        buffer = next(buffers)
        size = 2 if buffer.dtype == "fp16" else 4
        data = -(-(buffer.shape[-1] if buffer.shape else 1) * size // 8) * 8
        stride = -(-data // 32) * 32
        for row in range(info.nbytes // stride if data < stride else 0):
            fill = np.full(stride - data, 0xFF, np.uint8)
            launch.device.memory.write(base + row * stride + data, fill)
