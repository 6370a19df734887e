"""Run compiled kernels on the golden machine, without the runtime, and state what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.pipeline import ArgSpec, Compiled, compile_kernel
from kohakutpu import isa
from kohakutpu.config import Machine
from kohakutpu.lang import Kernel
from kohakutpu.model import GoldenMachine, Program, Report

Array = np.ndarray[Any, Any]
DTYPES = {"fp16": np.dtype("<f2"), "fp32": np.dtype("<f4")}
START = 1 << 12  # bytes that nobody owns, at the bottom of memory


def rows_of(array: Array) -> Array:
    """The elements as rows, each padded with NaN to whole words: how tensors lie in memory."""
    width = array.shape[-1] if array.ndim else 1
    flat = array.reshape(int(np.prod(array.shape[:-1])), width)
    per_word = 32 // array.dtype.itemsize
    padded = np.full((flat.shape[0], -(-flat.shape[1] // per_word) * per_word), np.nan, array.dtype)
    padded[:, : flat.shape[1]] = flat
    return padded


class Launch:
    """One compiled kernel in the memory of a golden machine, ready to run."""

    def __init__(self, compiled: Compiled, args: Sequence[Array], machine: Machine, **options: Any):
        image = compiled.image
        self.compiled = compiled
        self.bases: list[int] = []
        address = START
        for info in image.operands:
            self.bases.append(address)
            address += -(-info.nbytes // 32) * 32 + 96  # a gap of three words
        words = sum(len(unit.words) for unit in image.units)
        self.device = GoldenMachine(machine, memory_words=(address + words) // 32 + 8, **options)
        memory = self.device.memory
        for base, info, array in zip(self.bases, image.operands, args, strict=False):
            rows = rows_of(array)
            assert rows.nbytes == info.nbytes, info
            memory.write(base, rows.tobytes())
        for base, info in zip(self.bases, image.operands, strict=True):
            if info.kind == "data":
                memory.write(base, image.data)
            elif info.kind != "in" and not options.get("poison"):
                memory.write(base, rows_of(np.full(info.nbytes // 2, np.nan, "<f2")).tobytes())
        self.programs: list[Program] = []
        for unit, code in zip(image.units, isa.patch(image, self.bases), strict=True):
            memory.write(address, code)
            self.programs.append(Program(unit.node, unit.kind, address, len(code) // 32))
            address += len(code)

    def run(self) -> Report:
        return self.device.run(self.programs)

    def results(self) -> list[Array]:
        """What the kernel returns, and after it what it prints, NaN where nobody wrote."""
        found: list[Array] = []
        specs = [(shape, dtype) for _, shape, dtype in self.compiled.out_specs]
        specs += [(shown.shape, shown.dtype) for shown in self.compiled.prints]
        outs = [i for i, info in enumerate(self.compiled.image.operands) if info.kind == "out"]
        for index, (shape, dtype) in zip(outs, specs, strict=True):
            info = self.compiled.image.operands[index]
            width = shape[-1] if shape else 1
            per_word = 32 // DTYPES[dtype].itemsize
            raw = np.frombuffer(
                self.device.memory.view(self.bases[index], info.nbytes).tobytes(), DTYPES[dtype]
            )
            padded = raw.reshape(-1, -(-width // per_word) * per_word)
            found.append(padded[:, :width].reshape(shape).copy())
        return found


def spec_of(array: Array) -> ArgSpec:
    return ArgSpec(array.shape, {2: "fp16", 4: "fp32"}[array.dtype.itemsize])


def run(
    kernel: Kernel,
    *args: Array,
    machine: Machine,
    knobs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Compile, run, and return the result (a tuple of several)."""
    compiled = compile_kernel(kernel, [spec_of(a) for a in args], knobs or {}, machine)
    launch = Launch(compiled, args, machine, **options)
    launch.run()
    found = launch.results()
    return found[0] if len(found) == 1 else tuple(found)


# Section 2 of the machine's design in plain numpy, written apart from kohakutpu.numerics.


def quantise(x: Array) -> tuple[Array, Array]:
    """MXINT8 of the last axis: integer elements [rows, blocks, 32] and scales [rows, blocks]."""
    rows, k = x.shape
    blocks = max(1, -(-k // 32))
    padded = np.zeros((rows, blocks * 32))
    padded[:, :k] = x.astype(np.float64)
    padded = padded.reshape(rows, blocks, 32)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        amax = np.max(np.abs(padded), axis=2)
        good = np.asarray(np.isfinite(padded).all(axis=2))
        exponent = np.where(good & (amax > 0), np.frexp(amax)[1] - 1.0, 0)  # floor(log2(amax))
        elements = np.rint(padded * 2.0 ** (6 - exponent)[:, :, None])
    elements = np.where(good[:, :, None], np.clip(elements, -127, 127), 0)
    scales = np.where(good, np.where(amax > 0, exponent + 127, 0), 255)
    return elements.astype(np.int64), scales.astype(np.int64)


def residual(x: Array) -> Array:
    """What the leading term left, as float64; not finite blocks leave nothing of use."""
    elements, scales = quantise(x)
    value = elements * 2.0 ** (scales - 127.0 - 6)[:, :, None]
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64) - value.reshape(x.shape[0], -1)[:, : x.shape[1]]


def flush(x: Array) -> Array:
    tiny = np.abs(x) < np.float32(2.0**-126)
    x = np.where(tiny, np.copysign(np.float32(0), x), x).astype(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), x)


def sweep(acc: Array, a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    """Add the products of two quantised operands, block after block in ascending K."""
    for block in range(a[0].shape[1]):
        s = a[0][:, block] @ b[0][:, block].T
        sa, sb = a[1][:, None, block], b[1][None, :, block]
        with np.errstate(over="ignore", invalid="ignore"):
            partial = flush((s * 2.0 ** (sa + sb - 266.0)).astype(np.float32))
            partial = np.where((sa == 255) | (sb == 255), np.float32(np.nan), partial)
            acc = flush(flush(acc) + partial)
    return acc


def contract(a: Array, b: Array, precision: str = "default") -> Array:
    """The accumulator of ``a @ b.T`` in FP32."""
    acc = np.zeros((a.shape[0], b.shape[0]), np.float32)
    lead_a, lead_b = quantise(a), quantise(b)
    acc = sweep(acc, lead_a, lead_b)
    if precision == "high":
        acc = sweep(acc, lead_a, quantise(residual(b)))
    if precision != "default":
        acc = sweep(acc, quantise(residual(a)), lead_b)
    return acc


def to_fp16(x: Array) -> Array:
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    return np.where(np.isnan(half), np.array(0x7E00, np.uint16).view(np.float16), half)


def bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view({2: np.uint16, 4: np.uint32}[x.dtype.itemsize])


def assert_same(actual: Array, expected: Array) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(bits(actual), bits(expected))
