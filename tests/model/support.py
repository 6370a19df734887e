"""Hand-written unit programs on the golden machine: instructions to words to memory to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kohakutpu import isa
from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.isa import Address, Extent, Flag, Instruction
from kohakutpu.model import GoldenMachine, Program, Report

CODE = 0  # byte address of the programs; data goes to DATA and above
DATA = 1 << 16
ORIGIN = Address(0, 0)
ON, OFF = Flag(True, 0), Flag(False, 0)


def at(imm: int, reg: int = 0) -> Address:
    return Address(reg, imm)


def full(limit: int) -> Extent:
    return Extent(limit, 0)


def words(instructions: Sequence[Instruction | bytes]) -> bytes:
    return b"".join(i if isinstance(i, bytes) else isa.encode(i) for i in instructions)


def run(
    golden: GoldenMachine,
    programs: Mapping[int, Sequence[Instruction | bytes]],
    **options: Any,
) -> Report:
    """Put programs into memory one after the other from CODE on and run them."""
    kinds = {node.id: node.kind for node in golden.machine.nodes}
    table: list[Program] = []
    address = CODE
    for node, instructions in programs.items():
        code = words(instructions)
        golden.memory.write(address, code)
        table.append(Program(node, kinds[node], address, len(code) // WORD_BYTES))
        address += len(code)
    assert address <= DATA
    return golden.run(table, **options)


def row_words(elements: int, size: int = 2) -> int:
    return -(-elements * size // WORD_BYTES)


def put(golden: GoldenMachine, address: int, matrix: np.ndarray[Any, Any]) -> int:
    """Write a matrix with its rows on words, padding full of NaN; return its stride in words."""
    rows, cols = matrix.shape
    stride = row_words(cols, matrix.itemsize)
    padded = np.full((rows, stride * WORD_BYTES // matrix.itemsize), np.nan, matrix.dtype)
    padded[:, :cols] = matrix
    golden.memory.write(address, padded)
    return stride


def take(
    golden: GoldenMachine, address: int, rows: int, cols: int, dtype: Any = np.float16
) -> np.ndarray[Any, Any]:
    """Read a matrix whose rows start on words."""
    size = np.dtype(dtype).itemsize
    stride = row_words(cols, size) * WORD_BYTES
    data = golden.memory.read(address, rows * stride).reshape(rows, stride)
    return np.ascontiguousarray(data).view(dtype)[:, :cols]


def nodes(machine: Machine, kind: str) -> list[int]:
    return [node.id for node in machine.of_kind(kind)]


def chain(node: int, instructions: Sequence[Instruction]) -> list[Instruction]:
    """Make each engine instruction wait for the one before it, and end the program.

    Each hand-over has a semaphore of its own, from 31 down.
    """
    result: list[Instruction] = []
    waits: tuple[isa.Wait, ...] = ()
    semaphore = 31
    for instruction in instructions:
        if instruction.engine is None:
            result.append(instruction)
        else:
            result.append(instruction.replace(waits=waits, posts=(isa.Post(node, semaphore),)))
            waits = (isa.Wait(semaphore),)
            semaphore -= 1
    assert semaphore > 10
    return [*result, isa.SYNC(0, waits=waits), isa.HALT()]
