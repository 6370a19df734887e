"""What a trace means, statement by statement on numpy arrays: no compiler, no machine.

Instances run one after the other in an order drawn by chance, since their order must not matter.
Contractions are those of `compiler.tests.golden`, written in plain numpy; the machine's seed
functions and reductions come from `kohakutpu.numerics`, where they are compared with their scalar
references.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from compiler.tests import golden
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store, Tiling, Trace, Value
from kohakuaccel.ir.nodes import View as Window
from kohakuaccel.ir.scalar import evaluate
from kohakutpu.lang.call import solve
from kohakutpu.lang.ir import Accumulate, Assign, Computed, State, Tile, TileDecl, loads
from kohakutpu.numerics import reduction, seeds

Array = np.ndarray[Any, Any]
ELEMENTS = {"tiles": 4, "chunks32": 32, "rows": 1, "parts": 1}
PER_WORD = {"fp16": 16, "fp32": 8}
DTYPES: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32}


def larger(a: Array, b: Array) -> Array:
    """The maximum: NaN wins, and +0 is larger than -0."""
    zero = (a == 0) & (b == 0)
    return np.where(zero, np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0), np.maximum(a, b))


OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "exp2": lambda x: seeds.exp2(np.ascontiguousarray(x)),
    "log2": lambda x: seeds.log2(np.ascontiguousarray(x)),
    "recip": lambda x: seeds.recip(np.ascontiguousarray(x)),
    "rsqrt": lambda x: seeds.rsqrt(np.ascontiguousarray(x)),
    "max": larger,
    "min": lambda a, b: -larger(-a, -b),
    "lt": lambda a, b: (a < b).astype(np.float32),
    "le": lambda a, b: (a <= b).astype(np.float32),
    "eq": lambda a, b: (a == b).astype(np.float32),
    "select": lambda a, b, c: np.where(c != 0, a, b),
    "row_sum": lambda x: reduction.row_sum(np.ascontiguousarray(x))[:, None],
    "row_max": lambda x: reduction.row_max(np.ascontiguousarray(x))[:, None],
    "row_min": lambda x: reduction.row_min(np.ascontiguousarray(x))[:, None],
}


def interpret(trace: Trace, arrays: Sequence[Array], seed: int = 0) -> list[Array]:
    """Return the results of a trace whose knobs are all numbers, and after them what it prints."""
    extents = solve(trace, [array.shape for array in arrays])
    memory: dict[Buffer, Array] = {}
    given = iter(arrays)
    for buffer in trace.buffers:
        if buffer.role == "in":
            memory[buffer] = next(given)
        elif buffer.role == "table":
            memory[buffer] = np.asarray(buffer.value, DTYPES[buffer.dtype])
        else:
            memory[buffer] = np.full(extents.shape(buffer), np.nan, DTYPES[buffer.dtype])
    order = random.Random(seed)
    for batch in itertools.product(*(range(n) for n in extents.batch)):
        run = _Run(trace, {b: _Element(b, a, batch) for b, a in memory.items()}, extents.env, order)
        run.statements(trace.body)
    return [memory[b] for role in ("out", "print") for b in trace.buffers if b.role == role]


class _Element:
    """One batch element of a buffer as rows, each padded with NaN to whole words."""

    def __init__(self, buffer: Buffer, array: Array, batch: tuple[int, ...]) -> None:
        own = array.ndim - len(buffer.shape) if buffer.batched else 0
        lead = array.shape[:own]
        pairs = zip(batch[len(batch) - own :], lead, strict=True)
        self.target = array[(*(i if n > 1 else 0 for i, n in pairs), ...)]
        shape = self.target.shape
        self.width = shape[-1] if shape else 1
        self.rows = prod(shape[:-1])
        words = PER_WORD[buffer.dtype]
        self.stored = np.full((self.rows, -(-self.width // words) * words), np.nan, array.dtype)
        self.stored[:, : self.width] = self.target.reshape(self.rows, self.width)

    def keep(self) -> None:
        self.target[...] = self.stored[:, : self.width].reshape(self.target.shape)


class _Run:
    """One batch element: buffers, and the values of indices, tiles and states."""

    def __init__(
        self, trace: Trace, memory: dict[Buffer, Any], env: dict[Symbol, int], order: random.Random
    ) -> None:
        self.memory = memory
        self.env: dict[Symbol, int] = dict(env)
        self.order = order
        self.grid: Grid | None = None
        self.tiles: dict[Tile, list[tuple[Array, Array, bool]]] = {}
        self.states: dict[State, Array] = {}
        self.held: dict[tuple[int, int], dict[State, Array]] = {}

    def statements(self, body: Sequence[Statement]) -> None:
        for place, statement in enumerate(body):
            self.held[id(body), place] = dict(self.states)  # a value may have read it here
            match statement:
                case Grid():
                    self.instances(statement)
                case Repeat():
                    for number in range(self.count(statement.index)):
                        self.env[statement.index.symbol] = number
                        self.statements(statement.body)
                case TileDecl():
                    self.tiles[statement.tile] = []
                case Accumulate():
                    self.contract(statement)
                case Store():
                    self.store(statement)
                case Assign():
                    self.assign(statement)
                case _:
                    raise NotImplementedError(statement.describe())

    def instances(self, grid: Grid) -> None:
        self.grid = grid
        places = list(itertools.product(*(range(self.count(index)) for index in grid.indices)))
        self.order.shuffle(places)
        for place in places:
            self.env.update((i.symbol, v) for i, v in zip(grid.indices, place, strict=True))
            self.statements(grid.body)
        self.grid = None

    def count(self, index: Index) -> int:
        return index.count.evaluate(self.env)

    # ------------------------------------------------------------------ windows

    def size(self, tiling: Tiling | None, otherwise: int) -> int:
        return (
            otherwise if tiling is None else tiling.size.evaluate(self.env) * ELEMENTS[tiling.kind]
        )

    def block(self, kind: str) -> int:
        """How many elements the grid's own tiling of a kind cuts at a time, 0 if it has none."""
        assert self.grid is not None
        found = [i.tiling for i in self.grid.indices if i.tiling and i.tiling.kind == kind]
        return self.size(found[0], 0) if found else 0

    def span(self, window: Window, axis: int, extent: int, otherwise: int) -> slice:
        size = self.size(window.tilings[axis], otherwise)
        start = window.index[axis].evaluate(self.env) * size
        return slice(start, min(start + size, extent))

    def region(self, window: Window, sizes: tuple[int, int] = (0, 0)) -> Array:
        """The elements of a window: a view of what is stored, so that it can be written."""
        element: _Element = self.memory[window.buffer]
        stored, width, rows = element.stored, element.width, element.rows
        match window.kind:
            case "part":
                flat = stored.reshape(1, -1)
                total = width if rows == 1 else flat.size
                return flat[:, self.span(window, 0, total, self.block("parts") if self.grid else 0)]
            case "rows":
                return stored[self.span(window, 0, rows, self.block("rows")), :width]
            case "column" if len(window.buffer.shape) == 1:
                return stored[0, self.span(window, 0, width, self.block("rows") or sizes[0])][
                    :, None
                ]
            case "column":
                return stored[self.span(window, 0, rows, self.block("rows") or sizes[0]), :1]
            case "channel" | "scalar" | "whole":
                return stored[:, :width]
            case "channel_tile":
                return stored[:, self.span(window, 0, width, sizes[1])]
            case "tile" | "operand":
                down = self.span(window, 0, rows, sizes[0] or rows)
                return stored[down, self.span(window, 1, width, sizes[1] or width)]
            case "transposed":
                return stored[self.span(window, 0, rows, sizes[1]), :width].T
            case kind:
                raise NotImplementedError(kind)

    # ---------------------------------------------------------------- statements

    def store(self, store: Store) -> None:
        value = self.value(store.value)
        region = self.region(store.view, self.tile_sizes(store.value))
        exact = region.dtype == np.float32
        if store.value.op == "tile" and exact:  # the accumulator itself
            value = self.total(store.value.tile)
        region[...] = np.broadcast_to(value if exact else golden.to_fp16(value), region.shape)
        self.memory[store.view.buffer].keep()

    def assign(self, assign: Assign) -> None:
        self.states[assign.state] = self.value(assign.value)

    def contract(self, step: Accumulate) -> None:
        tile, number = step.tile, self.number
        k = 32 * number(tile.nk)
        left, right = (
            golden.to_fp16(self.value(side.value))
            if isinstance(side, Computed)
            else self.region(side, (4 * number(groups), k))
            for side, groups in ((step.lhs, tile.gm), (step.rhs, tile.gn))
        )
        self.tiles[tile].append((left, right, bool(step.computed)))

    def total(self, tile: Tile) -> Array:
        """What is in the accumulator: FP32 sums, in the order in which the machine adds."""
        terms = {
            "default": [(False, False)],
            "left": [(False, False), (True, False)],
            "high": [(False, False), (False, True), (True, False)],
        }[tile.precision]
        pairs = self.tiles[tile]
        steps = [(pair, term) for term in terms for pair in pairs]
        if any(computed for *_, computed in pairs):  # chunk by chunk
            steps = [(pair, term) for pair in pairs for term in terms]
        acc = np.zeros(self.tile_shape(tile), np.float32)
        for (left, right, _), (rest_left, rest_right) in steps:
            a = golden.quantise(golden.residual(left) if rest_left else left)
            b = golden.quantise(golden.residual(right) if rest_right else right)
            acc = golden.sweep(acc, a, b)
        return acc

    def tile_shape(self, tile: Tile) -> tuple[int, int]:
        """How many rows and columns of the whole matrix the tile has."""
        axes = ((tile.gm, tile.row, tile.rows), (tile.gn, tile.col, tile.cols))
        blocks = ((4 * self.number(g), self.number(i), self.number(n)) for g, i, n in axes)  # pyright: ignore
        rows, cols = (max(0, min(size, extent - size * at)) for size, at, extent in blocks)
        return rows, cols

    # --------------------------------------------------------------------- values

    def number(self, expression: Expr) -> int:
        return expression.evaluate(self.env)

    def tile_sizes(self, value: Value) -> tuple[int, int]:
        """Rows and columns of the tile that a value reads, for windows that name no size."""
        if value.op == "tile":
            return 4 * self.number(value.tile.gm), 4 * self.number(value.tile.gn)
        return next((s for arg in value.args if (s := self.tile_sizes(arg)) != (0, 0)), (0, 0))

    def value(self, root: Value) -> Array:
        """Evaluate a graph: FP32, every primitive rounded and flushed once."""
        sizes, known = self.tile_sizes(root), dict[int, Array]()
        masked = any(view.kind == "whole" for view in loads(root))

        def of(node: Value) -> Array:
            if id(node) not in known:
                known[id(node)] = leaf(node) if not node.args else computed(node)
            return known[id(node)]

        def leaf(node: Value) -> Array:
            if node.view is not None:
                return golden.flush(self.region(node.view, sizes).astype(np.float32))
            if node.tile is not None:
                return golden.to_fp16(self.total(node.tile)).astype(np.float32)
            if node.state is not None:
                read = node.state
                return self.held[id(read.body), read.place][read.state]
            with np.errstate(over="ignore", under="ignore"):
                number = np.float32(evaluate(node.number, self.env))
            return golden.flush(np.full((1, 1), number, np.float32))

        def computed(node: Value) -> Array:
            operands = [of(arg) for arg in node.args]
            if masked:  # a mask stands for itself: the last block may need less of it
                shapes = [x.shape for x in operands]
                rows, cols = (
                    min((n for n in axis if n > 1), default=1) for axis in zip(*shapes, strict=True)
                )
                operands = [x[:rows, :cols] for x in operands]
            with np.errstate(all="ignore"):
                return golden.flush(OPERATIONS[node.op](*operands).astype(np.float32))

        return of(root)
