"""Runs lowered statements on the golden machine, as the only stage of a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.passes.roll import Line, roll
from compiler.passes.simplify import merge_syncs, simplify
from compiler.program import Loop, UnitTree
from compiler.vector import (
    Allocator,
    IndexValue,
    Operand,
    VectorContext,
    VectorLowering,
    lower_vector,
)
from kohakuaccel.ir.expr import Const, Expr, Symbol, as_expr, ceildiv
from kohakuaccel.ir.nodes import Buffer, Statement, Store, Tiling, Value, View
from kohakuaccel.source import Location
from kohakutpu import isa
from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.model import GoldenMachine, Program

HERE = Location(__file__, 1)
BYTES = {"fp16": 2, "fp32": 4}
DTYPES = {"fp16": np.float16, "fp32": np.float32}
NAN_BYTE = 0xFF


def buffer(name: str, array: NDArray[Any], role: str = "in") -> Buffer:
    dtype = "fp16" if array.dtype == np.float16 else "fp32"
    return Buffer(name, role, tuple(map(Const, array.shape)), dtype, HERE)


def load(view: View) -> Value:
    extents = {"channel": "channel", "channel_tile": "channel", "column": "row", "scalar": "scalar"}
    return Value("load", (), extents.get(view.kind, "full"), HERE, view=view)


def const(number: Any) -> Value:
    return Value("const", (), "scalar", HERE, number=number)


def op(name: str, *args: Value) -> Value:
    extents = {arg.extent for arg in args}
    full = "full" in extents or {"row", "channel"} <= extents
    extent = "full" if full else next((e for e in ("row", "channel") if e in extents), "scalar")
    return Value(name, args, "row" if name.startswith("row_") else extent, HERE)


def show(value: Value) -> str:
    """Return a value as an expression."""
    if value.view is not None:
        return f"{value.view.buffer.name}:{value.view.kind}"
    if value.op == "const":
        return str(value.number)
    return f"{value.op}({', '.join(map(show, value.args))})"


def rows_of(array: NDArray[Any]) -> tuple[int, int]:
    """Return rows and width as memory has them."""
    if array.ndim == 0:
        return 1, 1
    return int(np.prod(array.shape[:-1], dtype=int)), array.shape[-1]


def operand_of(number: int, array: NDArray[Any], batch: int = 0) -> Operand:
    """Return the operand of an array; with ``batch`` its first axes are a batch."""
    rows, width = rows_of(array[(0,) * batch] if batch else array)
    words = -(-width * array.itemsize // WORD_BYTES)
    dtype = "fp16" if array.dtype == np.float16 else "fp32"
    strides = []
    for axis in range(batch):
        inside = int(np.prod(array.shape[axis + 1 : batch], dtype=int)) * rows * words
        strides.append(0 if array.shape[axis] == 1 else inside)
    return Operand(number, rows, width, words, dtype, tuple(strides))


def image_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an array as memory holds it, rows filled up with NaN."""
    rows, width = rows_of(array)
    words = -(-width * array.itemsize // WORD_BYTES)
    image = np.full((rows, words * WORD_BYTES), NAN_BYTE, np.uint8)
    image[:, : width * array.itemsize] = (
        np.ascontiguousarray(array).reshape(rows, width).view(np.uint8)
    )
    return image


@dataclass(repr=False)
class Stage:
    """Statements over one tiling, the arrays behind their buffers, and the run."""

    machine: Machine
    arrays: dict[Buffer, NDArray[Any]] = field(default_factory=dict)
    env: dict[Symbol, int] = field(default_factory=dict)
    symbol: Symbol = field(default_factory=lambda: Symbol("r", "index"))
    kind: str = "rows"
    size: Any = field(default_factory=lambda: Const(1))  # an Expr
    tiled: Buffer | None = None
    batch: tuple[int, ...] = ()

    def add(self, name: str, array: NDArray[Any], role: str = "in") -> Buffer:
        made = buffer(name, array, role)
        self.arrays[made] = array
        return made

    def view(self, of: Buffer, kind: str | None = None) -> View:
        kind = kind or {"rows": "rows", "parts": "part"}[self.kind]
        if kind in ("channel", "scalar"):
            return View(of, kind, (), (), HERE)
        tiling = Tiling(self.kind, of, self.size, as_expr(0))
        return View(of, kind, (self.symbol,), (tiling,), HERE)

    def load(self, of: Buffer, kind: str | None = None) -> Value:
        return load(self.view(of, kind))

    def store(self, to: Buffer, value: Value, kind: str | None = None) -> Store:
        return Store(HERE, self.view(to, kind), value)

    def __repr__(self) -> str:
        arrays = {made.name: (array.shape, array.dtype.name) for made, array in self.arrays.items()}
        machine = (self.machine.name, self.machine.lanes, self.machine.registers)
        return f"Stage({machine}, {self.kind} of {self.size}, {arrays})"

    # ---------------------------------------------------------------- running

    def context(
        self, indices: dict[Symbol, IndexValue] | None = None, batch: Any = ()
    ) -> VectorContext:
        return context_of(self.machine, self.operands(), self.env, indices or {}, batch)

    def operands(self) -> dict[Buffer, Operand]:
        depth = len(self.batch)
        result = {}
        for number, (made, array) in enumerate(self.arrays.items()):
            batched = array.ndim - len(made.shape) if depth == 0 else depth * made.batched
            result[made] = operand_of(number, array, batched)
        return result

    def count(self) -> int:
        """Return how many instances there are."""
        tiled = self.tiled or next(iter(self.arrays))
        operand = self.operands()[tiled]
        total: Expr = Const(operand.rows)
        if self.kind == "parts":
            total = Const(operand.rows * operand.row_words * WORD_BYTES // BYTES[operand.dtype])
        return ceildiv(total, self.size).evaluate(self.env)

    def lower(self, body: list[Statement]) -> tuple[VectorLowering, UnitTree]:
        loop = Loop("r", self.count())
        batches = [Loop(f"b{i}", count) for i, count in enumerate(self.batch)]
        context = self.context(
            {self.symbol: IndexValue(0, loop)}, [IndexValue(0, each) for each in batches]
        )
        lowering = lower_vector(body, context)
        tree = UnitTree(context.node, "V")
        loop.body += lowering.body
        inner: Any = loop
        for each in reversed(batches):
            each.body.append(inner)
            inner = each
        tree.body = [*lowering.prologue, inner, *lowering.epilogue]
        return lowering, tree

    def run(self, body: list[Statement], seed: int | None = None) -> VectorLowering:
        """Run ``body``; the arrays of role ``"out"`` get what memory then holds."""
        lowering, tree = self.lower(body)
        run_trees(self.machine, [tree], self.arrays, seed)
        return lowering


def context_of(
    machine: Machine,
    operands: Any,
    env: Any,
    indices: Any,
    batch: Any = (),
    tiles: Any = None,
    node: int | None = None,
) -> VectorContext:
    return VectorContext(
        machine,
        machine.of_kind("V")[0].id if node is None else node,
        env,
        indices,
        operands,
        Allocator("L1 words", machine.vl1_words),
        Allocator("registers", machine.registers),
        Allocator("semaphores", 32),
        batch,
        tiles or {},
    )


def run_trees(
    machine: Machine, trees: list[UnitTree], arrays: dict[Buffer, NDArray[Any]], seed: int | None
) -> None:
    """Run the programs of some units over the arrays; poisoned."""
    images = [image_of(array) for array in arrays.values()]
    words = 8192 + sum(image.size // WORD_BYTES + 3 for image in images)
    golden = GoldenMachine(machine, poison=True, seed=seed, memory_words=words)
    memory = golden.memory
    address = WORD_BYTES * 4096
    bases: list[int] = []
    for (made, array), image in zip(arrays.items(), images, strict=True):
        bases.append(address // 8)
        memory.write(address, image)
        if made.role == "out":
            nbytes = array.shape[-1] * array.itemsize if array.ndim else array.itemsize
            data = -(-nbytes // 8) * 8
            for row in range(len(image)):
                memory.poison(address + row * image.shape[1], data)
        address += image.size + 3 * WORD_BYTES
    programs = []
    at = 0
    for tree in trees:
        tree.body = merge_syncs(simplify(tree.body))
        words = [isa.encode(patched(line, bases)) for line in roll(tree)]
        memory.write(at, b"".join(words))
        programs.append(Program(tree.node, tree.kind, at, len(words)))
        at += len(words) * WORD_BYTES
        assert at <= WORD_BYTES * 4096
    golden.run(programs)
    for (made, array), base in zip(arrays.items(), bases, strict=True):
        if made.role == "out":
            width = rows_of(array)[1]
            image = image_of(array)
            found = memory.read(base * 8, image.size).reshape(image.shape)
            kept = found[:, : width * array.itemsize].copy().view(array.dtype)
            array[...] = kept.reshape(array.shape)
            padding = found[:, -(-width * array.itemsize // 8) * 8 :]
            assert made.name.startswith("flat") or (padding == NAN_BYTE).all()


def patched(line: Line, bases: list[int]) -> isa.Instruction:
    if line.operand is None:
        return line.instruction
    return line.instruction.replace(imm=(line.instruction.imm + bases[line.operand]) % (1 << 34))


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are equal to the bit, any NaN being like any other."""
    codes = {2: np.uint16, 4: np.uint32}[one.itemsize]
    nan = np.isnan(one)
    return bool(
        one.shape == other.shape
        and (nan == np.isnan(other)).all()
        and (one.view(codes)[~nan] == other.view(codes)[~nan]).all()
    )
