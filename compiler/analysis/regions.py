"""Which elements of a buffer its stores write, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.instances import Env, Instances, Integers, enumerate_instances
from compiler.analysis.sites import Site, axes, index_symbols
from kohakuaccel.ir.nodes import Store, View
from kohakutpu.lang.layout import elements_per_word, rows_and_width


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Rectangles of one view, a row ``r0, r1, c0, c1`` (ends excluded) an instance."""

    site: Site
    view: View
    instances: Instances
    rectangles: Integers
    owner: Integers  # which instance each rectangle belongs to


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """How often each cell of a grid over the buffer is hit; cell (i, j) ends at the next break."""

    rows: Integers
    columns: Integers
    hits: Integers

    def describe(self, mask: NDArray[np.bool_]) -> str:
        """Return the first run of rows, of columns, or the first block where ``mask`` holds."""
        whole_rows, whole_columns = np.all(mask, axis=1), np.all(mask, axis=0)
        if whole_rows.any():
            return _run("row", self.rows, whole_rows)
        if whole_columns.any():
            return _run("column", self.columns, whole_columns)
        row, column = (int(place[0]) for place in np.nonzero(mask))
        only_row, only_column = np.zeros(len(mask), bool), np.zeros(mask.shape[1], bool)
        only_row[row] = only_column[column] = True
        rows, columns = _run("row", self.rows, only_row), _run("column", self.columns, only_column)
        return f"{rows}, {columns}"

    def corner(self, mask: NDArray[np.bool_]) -> tuple[int, int]:
        """Return the row and column of the first element where ``mask`` holds."""
        row, column = (int(place[0]) for place in np.nonzero(mask))
        return int(self.rows[row]), int(self.columns[column])


def is_full(site: Site, view: View, env: Env) -> bool:
    """Return whether plain indices with full counts make each instance write its own block.

    This settles the usual case without enumeration; ``False`` only means that it does not apply.
    """
    counts = {index.symbol: index.count for index in site.indices}
    used: set[object] = set()
    for axis in axes(view, site):
        count = counts.get(axis.index)  # pyright: ignore[reportArgumentType]
        if count is None or axis.index in used:
            return False
        if index_symbols(count):
            return False
        if count.evaluate(env) != axis.count.evaluate(env):
            return False
        used.add(axis.index)
    rest = [count for symbol, count in counts.items() if symbol not in used]
    return all(not index_symbols(count) and count.evaluate(env) == 1 for count in rest)


def region(site: Site, view: View, env: Env) -> Region:
    """Return the elements that each instance of ``site`` touches through ``view``, clipped."""
    instances = enumerate_instances(site, env, view.index)
    rows, width = (extent.evaluate(env) for extent in rows_and_width(view.buffer))
    starts = [instances.evaluate(axis.index * axis.block, env) for axis in axes(view, site)]
    sizes = [axis.block.evaluate(env) for axis in axes(view, site)]
    owner = np.arange(instances.length, dtype=np.int64)
    if not view.index:
        rectangles = np.tile([[0, rows, 0, width]], (instances.length, 1))
    elif view.kind == "part":
        word = elements_per_word(view.buffer.dtype)
        stride = -(-width // word) * word
        rectangles, owner = _runs(starts[0], sizes[0], stride, owner)
    elif view.kind == "channel_tile" or (view.kind == "column" and len(view.buffer.shape) == 1):
        rectangles = _rectangles(np.zeros_like(starts[0]), 1, starts[0], sizes[0])
    elif view.kind in ("rows", "column", "transposed"):
        rectangles = _rectangles(starts[0], sizes[0], np.zeros_like(starts[0]), width)
    else:
        rectangles = _rectangles(starts[0], sizes[0], starts[1], sizes[1])
    rectangles = np.clip(rectangles, 0, [rows, rows, width, width])
    keep = (rectangles[:, 0] < rectangles[:, 1]) & (rectangles[:, 2] < rectangles[:, 3])
    return Region(site, view, instances, rectangles[keep], owner[keep])


def stored(site: Site, env: Env) -> Region:
    """Return the elements that the store at ``site`` writes."""
    assert isinstance(site.statement, Store)
    return region(site, site.statement.view, env)


def count_hits(regions: list[Region], rows: int, width: int, also: Sequence[Region] = ()) -> Cells:
    """Return how often the rectangles hit each part of a buffer of ``rows`` by ``width``.

    ``also`` adds breaks and no hits, so that two counts can be compared cell by cell.
    """
    boxes = _boxes(regions)
    every = np.concatenate([boxes, _boxes(also)])
    weights = np.concatenate([np.zeros(0, np.int64)] + [_weights(r) for r in regions])
    row_breaks = np.unique(np.concatenate([every[:, 0], every[:, 1], [0, rows]]))
    column_breaks = np.unique(np.concatenate([every[:, 2], every[:, 3], [0, width]]))
    difference = np.zeros((len(row_breaks), len(column_breaks)), np.int64)
    r0, r1 = (np.searchsorted(row_breaks, boxes[:, n]) for n in (0, 1))
    c0, c1 = (np.searchsorted(column_breaks, boxes[:, n]) for n in (2, 3))
    for r, c, sign in ((r0, c0, 1), (r1, c1, 1), (r0, c1, -1), (r1, c0, -1)):
        np.add.at(difference, (r, c), sign * weights)
    hits = difference.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    return Cells(row_breaks, column_breaks, hits)


def owners(regions: list[Region], row: int, column: int) -> list[tuple[Region, int]]:
    """Return the instances whose rectangles hold an element."""
    found: list[tuple[Region, int]] = []
    for item in regions:
        box = item.rectangles
        in_rows = (box[:, 0] <= row) & (row < box[:, 1])
        in_columns = (box[:, 2] <= column) & (column < box[:, 3])
        found += [(item, int(place)) for place in item.owner[in_rows & in_columns]]
    return found


def _boxes(regions: Sequence[Region]) -> Integers:
    return np.concatenate([np.zeros((0, 4), np.int64)] + [r.rectangles for r in regions])


def _weights(item: Region) -> Integers:
    times = 2 if item.instances.idle else 1  # once for the first value of an idle index, and again
    return np.full(len(item.rectangles), times, np.int64)


def _rectangles(row: Integers, height: int, column: Integers, width: int) -> Integers:
    return np.stack([row, row + height, column, column + width], axis=1)


def _runs(start: Integers, size: int, stride: int, owner: Integers) -> tuple[Integers, Integers]:
    """Return runs of stored elements as up to three rectangles each: head, whole rows, tail."""
    if stride == 0:
        return np.zeros((0, 4), np.int64), owner[:0]
    end = start + size
    first, last = -(-start // stride), end // stride
    zero = np.zeros_like(start)
    head_end = np.minimum(end, first * stride) - (first - 1) * stride
    head = np.stack([first - 1, first, start - (first - 1) * stride, head_end], axis=1)
    whole = np.stack([first, last, zero, zero + stride], axis=1)
    tail = np.stack([last, last + 1, zero, end - last * stride], axis=1)
    tail[last < first, 3] = 0  # start and end in one row: the head is all of it
    return np.concatenate([head, whole, tail]), np.concatenate([owner, owner, owner])


def _run(what: str, breaks: Integers, mask: NDArray[np.bool_]) -> str:
    first = int(np.argmax(mask))
    after = np.nonzero(~mask[first:])[0]
    last = first + int(after[0]) if len(after) else len(mask)
    low, high = int(breaks[first]), int(breaks[last]) - 1
    return f"{what} {low}" if low == high else f"{what}s {low} to {high}"
