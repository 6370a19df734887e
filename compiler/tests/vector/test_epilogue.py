"""Epilogues: tiles arrive from another unit and results leave, with the real hand-over.

The other unit is a vector core that plays the cluster: it sends windows of an array as a cluster
sends drained tiles, and takes credits for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.program import Advance, Affine, Emit, Left, Loop, Ring, UnitTree
from compiler.tests.vector.expressions import expressions, numbers
from compiler.tests.vector.harness import (
    HERE,
    buffer,
    context_of,
    load,
    op,
    operand_of,
    run_trees,
    same_bits,
    show,
)
from compiler.tests.vector.reference import stored, value_of
from compiler.vector import IndexValue, TileWindow, lower_vector
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const, Symbol
from kohakuaccel.ir.nodes import Buffer, Statement, Store, Tiling, Value, View
from kohakutpu import isa
from kohakutpu.config import PRESETS, Machine

pytestmark = pytest.mark.golden

LANES4 = Machine("duo4", "C V\nM H\nC V", lanes=4, registers=64, vl1_words=2048)


@dataclass(repr=False, eq=False)
class Epilogue:
    """Statements over tiles of ``M x N``, ``gm x gn`` sub-tiles each."""

    machine: Machine
    shape: tuple[int, int]
    gm: int
    gn: int
    arrays: dict[Buffer, Any] = field(default_factory=dict)
    tiles: dict[object, Buffer] = field(default_factory=dict)
    i: Symbol = field(default_factory=lambda: Symbol("i", "index"))
    j: Symbol = field(default_factory=lambda: Symbol("j", "index"))
    body: list[Store] = field(default_factory=list)
    seed: int | None = None

    def add(self, name: str, array: Any, role: str = "in") -> Buffer:
        made = buffer(name, array, role)
        self.arrays[made] = array
        return made

    def tile(self, name: str, array: Any) -> Value:
        tile = object()
        self.tiles[tile] = self.add(name, array)
        return Value("tile", (), "full", HERE, tile=tile)

    def view(self, of: Buffer) -> View:
        rows = Tiling("tiles", of, Const(self.gm), Const(0))
        cols = Tiling("tiles", of, Const(self.gn), Const(0))
        if len(of.shape) == 1:
            return View(of, "channel_tile", (self.j,), (cols,), HERE)
        return View(of, "tile", (self.i, self.j), (rows, cols), HERE)

    def column(self, of: Buffer) -> View:
        rows = Tiling("tiles", of, Const(self.gm), Const(0))
        return View(of, "column", (self.i,), (rows,), HERE)

    def store(self, to: View, value: Value) -> None:
        self.body.append(Store(HERE, to, value))

    def __repr__(self) -> str:
        stores = "; ".join(f"{s.view.buffer.name} <<= {show(s.value)}" for s in self.body)
        names = [(b.name, a.shape, a.dtype.name) for b, a in self.arrays.items()]
        where = (self.machine.name, self.shape, self.gm, self.gn, self.seed)
        return f"Epilogue({where}: {names}: {stores})"

    def run(self) -> None:
        receiver, sender = (node.id for node in self.machine.of_kind("V"))
        rows, cols = 4 * self.gm, 4 * self.gn
        m, n = -(-self.shape[0] // rows), -(-self.shape[1] // cols)
        loops = Loop("i", m), Loop("j", n)
        others = Loop("i", m), Loop("j", n)
        operands = {b: operand_of(k, a) for k, (b, a) in enumerate(self.arrays.items())}
        indices = {self.i: IndexValue(0, loops[0]), self.j: IndexValue(0, loops[1])}
        context = context_of(self.machine, operands, {}, indices, node=receiver)
        stride = -(-cols // 16)
        sent: list[Any] = []
        before: list[Any] = []
        after: list[Any] = []
        tiles = {}
        for number, (tile, source) in enumerate(self.tiles.items()):
            size = rows * stride
            ring = Ring(f"tile{number}", context.l1.allocate("tile", 2 * size), size, 2)
            full = context.semaphores.allocate("tile full")
            empty, own, credit = 3 * number, 3 * number + 1, 3 * number + 2
            tiles[tile] = TileWindow(
                tile, rows, cols, ring, stride, full, (sender, credit), self.shape[1]
            )
            before.append(Emit(isa.SYNC, {"engine": 0}, (), ((sender, empty),)))
            before.append(Emit(isa.SYNC, {"engine": 2}, (), ((sender, credit), (sender, credit))))
            after.append(Emit(isa.SYNC, {"engine": 2}, ((credit, 2), (empty, 1))))
            sent += self._send(
                operands[source], others, ring, number * size, stride, receiver, (sender, full),
                (empty, own, credit),
            )  # fmt: skip
        context.tiles = tiles
        statements: list[Statement] = list(self.body)
        lowering = lower_vector(statements, context)
        loops[1].body += lowering.body
        loops[0].body.append(loops[1])
        others[1].body += sent
        others[0].body.append(others[1])
        trees = [
            UnitTree(receiver, "V", [*lowering.prologue, loops[0], *lowering.epilogue]),
            UnitTree(sender, "V", [*before, others[0], *after]),
        ]
        run_trees(self.machine, trees, self.arrays, self.seed)

    def _send(
        self, operand: Any, loops: Any, ring: Ring, l1: int, stride: int, receiver: int,
        full: tuple[int, int], own: tuple[int, int, int],
    ) -> list[Any]:  # fmt: skip
        sender, full_there = full
        empty, here, credit = own
        rows, cols = 4 * self.gm, 4 * self.gn
        down, along = ((loops[0], rows),), ((loops[1], cols),)
        window = {
            "l1": Affine(l1),
            "l1_stride": stride,
            "rows": rows,
            "row_extent": Left(operand.rows, Affine(0, down)),
            "cols": cols,
            "col_extent": Left(operand.width, Affine(0, along)),
            "format": "fp16",
        }
        mem = Affine(
            0, ((loops[0], 4 * operand.row_words * rows), (loops[1], self.gn)), operand.number
        )
        there = {"to": "node", "nodes": 1 << receiver, "buffer": "vector", "residual": False}
        return [
            Emit(
                isa.VFILL,
                {**window, "mem": mem, "stride": operand.row_words, "nodes": 0},
                ((empty, 1),),
                ((sender, here),),
            ),
            Emit(
                isa.VDRAIN,
                {**window, **there, "order": "row", "mem": Affine(ring=ring), "stride": stride},
                ((here, 1), (credit, 1)),
                ((sender, empty), (receiver, full_there)),
            ),
            Advance(ring),
        ]

    def check(self) -> None:
        self.run()
        tiles = {tile: self.arrays[source] for tile, source in self.tiles.items()}
        for store in self.body:
            array = self.arrays[store.view.buffer]
            want = stored(value_of(store.value, self.arrays, tiles, self.shape), array)
            assert same_bits(want, array), store.view.buffer.name


@st.composite
def epilogues(draw: Any) -> Epilogue:
    machine = draw(st.sampled_from((LANES4, PRESETS["duo"])))
    shape = draw(st.integers(1, 40)), draw(st.integers(1, 70))
    whole = draw(st.booleans())
    gn = -(-shape[1] // 4) + draw(st.integers(0, 1)) if whole else draw(st.integers(1, 5))
    case = Epilogue(machine, shape, draw(st.integers(1, 4)), gn)
    dtypes = st.sampled_from((np.float16, np.float16, np.float32))
    leaves = [case.tile("acc", numbers(draw, *shape))]
    if draw(st.booleans()):
        leaves.append(case.tile("other", numbers(draw, *shape)))
    for name in ("bias", "scale")[: draw(st.integers(0, 2))]:
        leaves.append(load(case.view(case.add(name, numbers(draw, shape[1], dtype=draw(dtypes))))))
    if draw(st.booleans()):
        residual = case.add("residual", numbers(draw, *shape, dtype=draw(dtypes)))
        leaves.append(load(case.view(residual)))
    if draw(st.booleans()):
        leaves.append(load(case.column(case.add("rows", numbers(draw, shape[0], 1)))))
    values = draw(expressions(leaves, rows=whole, size=9))
    for number in range(draw(st.integers(1, 2))):
        out = case.add(f"out{number}", np.zeros(shape, draw(dtypes)), "out")
        used = values[-1 - number % len(values)]
        case.store(case.view(out), used if reads_tile(used) else op("add", used, leaves[0]))
    case.seed = draw(st.one_of(st.none(), st.integers(0, 1000)))
    return case


def reads_tile(value: Value) -> bool:
    return value.op == "tile" or any(map(reads_tile, value.args))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(epilogues())
def test_any_epilogue(case: Epilogue) -> None:
    unread = set(case.tiles) - {t for s in case.body for t in tiles_of(s.value)}
    for tile in unread:
        source = case.tiles.pop(tile)
        case.arrays.pop(source)
    case.check()


def tiles_of(value: Value) -> set[object]:
    found = {value.tile} if value.op == "tile" else set()
    return found.union(*map(tiles_of, value.args))


def test_a_row_function_needs_the_whole_row() -> None:
    case = Epilogue(PRESETS["duo"], (16, 64), 1, 4)
    acc = case.tile("acc", np.zeros((16, 64), np.float16))
    out = case.add("out", np.zeros((16, 64), np.float16), "out")
    case.store(case.view(out), op("mul", acc, op("row_sum", acc)))
    with pytest.raises(KernelError, match=r"holds 16 of 64 columns(.|\n)*gn = 16"):
        case.run()


def test_row_sums_of_a_tile_leave_as_a_column() -> None:
    rng = np.random.default_rng(3)
    case = Epilogue(PRESETS["duo"], (37, 50), 2, 13)
    acc = case.tile("acc", rng.standard_normal((37, 50)).astype(np.float16))
    sums = case.add("sums", np.zeros((37, 1), np.float16), "out")
    out = case.add("out", np.zeros((37, 50), np.float16), "out")
    total = op("row_sum", acc)
    case.store(case.column(sums), total)
    case.store(case.view(out), op("mul", acc, op("recip", total)))
    case.check()
