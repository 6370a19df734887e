"""Which elements a value covers: what part of which rows, what part of which columns."""

from __future__ import annotations

from dataclasses import dataclass

from kohakuaccel.ir.expr import Binary, Const, Expr, ceildiv
from kohakuaccel.ir.nodes import Tiling, Value, View
from kohakutpu.config import KBLOCK, LANES
from kohakutpu.lang.ir import walk
from kohakutpu.lang.layout import rows_and_width

ELEMENTS = {"tiles": LANES, "chunks32": KBLOCK, "rows": 1, "parts": 1}
REDUCTIONS = frozenset(("row_sum", "row_max", "row_min"))


@dataclass(frozen=True, slots=True)
class Cut:
    """Block ``index`` of ``block`` elements of an axis of ``extent``.

    Without an index it goes with any block of its size, such as a mask.
    """

    extent: Expr
    block: Expr
    index: Expr | None

    @property
    def groups(self) -> Expr:
        """The block in groups of 4, rounded up."""
        return _per(self.block, LANES)

    @property
    def blocks(self) -> Expr:
        """The block in K blocks of 32, rounded up."""
        return _per(self.block, KBLOCK)


def _per(size: Expr, unit: int) -> Expr:
    if isinstance(size, Binary) and size.op == "*":
        right = size.right
        if isinstance(right, Const) and not right.value % unit:
            return size.left * (right.value // unit)
    return ceildiv(size, unit)


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows and columns; ``None`` where a value does not vary or takes those of its neighbours."""

    rows: Cut | None = None
    cols: Cut | None = None

    def joined(self, other: Frame) -> Frame:
        """Return what both know together; what has a place counts more than what has none."""
        return Frame(_better(self.rows, other.rows), _better(self.cols, other.cols))


def _better(one: Cut | None, other: Cut | None) -> Cut | None:
    if one is None or (one.index is None and other is not None):
        return other
    return one


def block_size(tiling: Tiling | None, extent: Expr) -> Expr:
    """Return the elements a block of a tiling has; without one it is all of the axis."""
    return extent if tiling is None else tiling.size * ELEMENTS[tiling.kind]


def view_frame(view: View) -> Frame:
    """Return which elements a view of a buffer is."""
    rows, width = rows_and_width(view.buffer)
    whole = Cut(width, width, Const(0))
    if view.kind == "rows":
        return Frame(Cut(rows, block_size(view.tilings[0], rows), view.index[0]), whole)
    if view.kind == "tile":
        sizes = [block_size(t, e) for t, e in zip(view.tilings, (rows, width), strict=True)]
        return Frame(Cut(rows, sizes[0], view.index[0]), Cut(width, sizes[1], view.index[1]))
    if view.kind == "whole":
        return Frame(Cut(rows, rows, None), Cut(width, width, None))
    if view.kind == "channel":
        return Frame(None, whole)
    if view.kind == "channel_tile":
        return Frame(None, Cut(width, block_size(view.tilings[0], width), view.index[0]))
    if view.kind == "column":
        count = width if len(view.buffer.shape) == 1 else rows
        return Frame(Cut(count, block_size(view.tilings[0], count), view.index[0]), None)
    return Frame()


def node_frame(node: Value) -> Frame | None:
    """Return the frame of a leaf, ``None`` of anything computed."""
    if node.view is not None:
        return view_frame(node.view)
    if node.tile is not None:
        tile = node.tile
        return Frame(
            Cut(tile.rows, tile.gm * LANES, tile.row), Cut(tile.cols, tile.gn * LANES, tile.col)
        )
    if node.state is not None:
        width = node.state.state.width
        return Frame(None, None if width is None else Cut(width, width, Const(0)))
    return Frame() if node.op == "const" else None


def frames(value: Value) -> dict[Value, Frame]:
    """Return the frame of every node of a value, taken from the first operand that has one."""
    found: dict[Value, Frame] = {}
    for node in walk(value):
        own = node_frame(node)
        if own is None:
            own = Frame()
            for arg in node.args:
                own = own.joined(found[arg])
            if node.op in REDUCTIONS:
                own = Frame(own.rows, None)
        found[node] = own
    return found


def frame(value: Value) -> Frame:
    """Return which elements a value covers."""
    return frames(value)[value]
