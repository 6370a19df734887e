"""Kernels with operands as bytes, to be run by any device and compared as bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.pipeline import ArgSpec, compile_kernel
from kohakuaccel.image import Image
from kohakuaccel.runtime.device import Device, Report
from kohakuaccel.runtime.launch import Runtime
from kohakutpu import isa, kernels
from kohakutpu.api.convert import pack
from kohakutpu.config import Machine
from kohakutpu.devices.golden import GoldenDevice

Shapes = Sequence[tuple[int, ...]]
NAN = 0xFF  # rows of inputs are filled up with it
UNTOUCHED = 0xA5  # what outputs hold before


@dataclass(frozen=True)
class Job:
    """An image and the bytes of its inputs, in the order of the image's operands."""

    image: Image
    inputs: tuple[bytes, ...]

    def run(self, runtime: Runtime) -> tuple[dict[str, bytes], Report]:
        """Return what every output buffer holds after a run, by name, and the counters."""
        given = iter(self.inputs)
        blocks, outputs = [], {}
        for operand in self.image.operands:
            if operand.kind not in ("in", "out"):
                continue
            block = runtime.allocate(operand.nbytes, operand.name)
            blocks.append(block)
            content = bytes([UNTOUCHED]) * operand.nbytes
            if operand.kind == "in":
                content = next(given)
            else:
                outputs[operand.name] = block
            runtime.write(block.address, content)
        report = runtime.launch(self.image, [block.address for block in blocks])
        result = {
            name: bytes(runtime.read(block.address, len_of(self.image, name)))
            for name, block in outputs.items()
        }
        for block in blocks:
            runtime.release(block)
        return result, report


def len_of(image: Image, name: str) -> int:
    return next(operand.nbytes for operand in image.operands if operand.name == name)


def job(
    machine: Machine,
    name: str,
    shapes: Shapes,
    *,
    scale: float = 1.0,
    knobs: Mapping[str, Any] | None = None,
) -> Job:
    """Return a kernel of the library with normally distributed operands."""
    rng = np.random.default_rng([len(name), *(extent for shape in shapes for extent in shape)])
    arrays = [(scale * rng.standard_normal(shape)).astype(np.float16) for shape in shapes]
    specs = [ArgSpec(shape, "fp16") for shape in shapes]
    compiled = compile_kernel(getattr(kernels, name), specs, dict(knobs or {}), machine)
    return Job(compiled.image, tuple(bytes(pack(array, "fp16", NAN)) for array in arrays))


def runtime(device: Device) -> Runtime:
    return Runtime(device, isa.patch)


def golden(machine: Machine) -> Runtime:
    return runtime(GoldenDevice(machine))
