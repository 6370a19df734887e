"""The other road for an epilogue that does not fit: the tile goes through memory.

A grid that computes with its tiles becomes two: the first stores the tiles, rounded to FP16 as they
are read anyway, the second computes over their rows, in blocks that fit. Bits stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compiler.analysis.sites import is_fused
from kohakuaccel.ir.expr import Symbol, ceildiv
from kohakuaccel.ir.nodes import (
    Buffer,
    Grid,
    Index,
    Repeat,
    Statement,
    Store,
    Tiling,
    Trace,
    Value,
    View,
)
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Tile, TileDecl, loads, tiles_of, walk

ALIKE = {"channel_tile": "channel", "scalar": "scalar", "tile": "rows", "column": "column"}


def relaxed(trace: Trace) -> tuple[Trace, list[Buffer]] | None:
    """Return a kernel that stores what tiles it computes with, and these temporaries.

    ``None`` if there is no tile of which that can be said.
    """
    rewriter = _Rewriter(trace)
    body = list(rewriter.body(trace.body))
    if not rewriter.temps:
        return None
    result = replace(
        trace,
        buffers=[*trace.buffers, *rewriter.temps],
        knobs={**trace.knobs, **rewriter.knobs},
        body=body,
    )
    return result, rewriter.temps


class _Rewriter:
    def __init__(self, trace: Trace) -> None:
        self.temps: list[Buffer] = []
        self.knobs: dict[str, Symbol] = {}
        self._batched = any(buffer.batched for buffer in trace.buffers)
        self._taken = {buffer.name for buffer in trace.buffers} | set(trace.knobs)

    def body(self, body: Sequence[Statement]) -> Iterator[Statement]:
        """Yield statements outside of grids, grids in two where that helps."""
        for statement in body:
            if isinstance(statement, Repeat):
                yield replace(statement, body=list(self.body(statement.body)))
            elif isinstance(statement, Grid) and _comes_apart(statement):
                yield from self._split(statement)
            else:
                yield statement

    def _split(self, grid: Grid) -> Iterator[Grid]:
        computing = [s for s in grid.body if isinstance(s, Store) and s.value.op != "tile"]
        tiles = list(dict.fromkeys(tile for s in computing for tile in tiles_of(s.value)))
        temps = {tile: self._temp(tile) for tile in tiles}
        first: list[Statement] = [s for s in grid.body if s not in computing]
        for tile, temp in temps.items():
            assert tile.row is not None
            assert tile.col is not None
            tilings = _tilings(computing, tile)
            view = View(temp, "tile", (tile.row, tile.col), tilings, tile.loc)
            first.append(Store(tile.loc, view, Value("tile", (), "full", tile.loc, tile=tile)))
        yield replace(grid, barrier=True, body=first)
        rows = self._rows(temps[tiles[0]], grid.loc)
        second: list[Statement] = []
        for store in computing:
            values: dict[Value, Value] = {}
            for node in walk(store.value):
                args = tuple(values[arg] for arg in node.args)
                values[node] = _moved(replace(node, args=args), temps, rows)
            second.append(
                replace(store, view=_rows_of(store.view, rows), value=values[store.value])
            )
        yield Grid(grid.loc, (rows,), True, second)

    def _temp(self, tile: Tile) -> Buffer:
        assert tile.rows is not None
        assert tile.cols is not None
        shape = tile.rows, tile.cols
        temp = Buffer(self._fresh(tile.name), "temp", shape, "fp16", tile.loc, self._batched)
        self.temps.append(temp)
        return temp

    def _rows(self, temp: Buffer, loc: Location) -> Index:
        name = self._fresh(f"{temp.name}.rows")
        knob = self.knobs[name] = Symbol(name, "knob")
        tiling = Tiling("rows", temp, knob, ceildiv(temp.shape[0], knob))
        return Index(Symbol("r", "index"), tiling.count, tiling, loc)

    def _fresh(self, name: str) -> str:
        unique, number = name, 2
        while unique in self._taken:
            unique, number = f"{name}{number}", number + 1
        self._taken.add(unique)
        return unique


def _comes_apart(grid: Grid) -> bool:
    """Tell whether a grid computes with tiles, and with nothing that only a tile's window has."""
    if is_fused(grid):
        return False
    stores = [s for s in grid.body if isinstance(s, Store) and s.value.op != "tile"]
    inner = [s for s in grid.body if isinstance(s, Repeat)]
    if not stores or any(isinstance(s, (Store, TileDecl)) for loop in inner for s in loop.body):
        return False
    for store in stores:
        tiles = tiles_of(store.value)
        if not tiles:
            return False
        place = tiles[0].row, tiles[0].col
        for view in (store.view, *loads(store.value)):
            if view.kind not in ALIKE or (view.kind == "tile" and view.index != place):
                return False
            if view.kind == "channel_tile" and view.index[0] != place[1]:
                return False
            if view.kind == "column" and view.index[0] != place[0]:
                return False
    return True


def _tilings(stores: Sequence[Store], tile: Tile) -> tuple[Tiling | None, ...]:
    for store in stores:
        if tile in tiles_of(store.value) and store.view.kind == "tile":
            return store.view.tilings
    return None, None


def _moved(node: Value, temps: dict[Tile, Buffer], rows: Index) -> Value:
    """Return a leaf as a grid over rows reads it; anything else as it is."""
    if node.tile is not None:
        view = View(temps[node.tile], "rows", (rows.symbol,), (rows.tiling,), node.loc)
        return Value("load", (), "full", node.loc, view=view)
    return node if node.view is None else replace(node, view=_rows_of(node.view, rows))


def _rows_of(view: View, rows: Index) -> View:
    kind = ALIKE[view.kind]
    if kind not in ("rows", "column"):
        return View(view.buffer, kind, (), (), view.loc)
    return View(view.buffer, kind, (rows.symbol,), (rows.tiling,), view.loc)
