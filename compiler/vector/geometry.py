"""The block of rows and columns that one instance works on.

A flat part of a buffer is folded into a block of several rows, since an EXEC has limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.vector.context import Operand, TileWindow
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, View
from kohakuaccel.source import Location
from kohakutpu.config import WORD_BYTES

MAX_ROWS = (1 << 12) - 1  # of an EXEC, a VFILL and a VDRAIN
MAX_COLS = (1 << 14) - 1  # of an EXEC
MAX_RUN = ((1 << 16) - 1) // 16 * 16  # elements of a VFILL or VDRAIN that start whole words

SIZES = {"fp16": 2, "fp32": 4}


def words(elements: int, dtype: str) -> int:
    """Return the words that ``elements`` of ``dtype`` take."""
    return -(-elements * SIZES[dtype] // WORD_BYTES)


@dataclass(frozen=True, slots=True)
class Block:
    """What one instance works on.

    Parameters
    ----------
    rows, cols : int
        Rows and columns of an EXEC over all of it.
    row_step, col_step : int
        Rows and columns (of a flat part: stored elements in ``col_step``, ``row_step`` 0) from one
        index value to the next.
    flat : bool
        The rows are pieces of one contiguous run.
    """

    rows: int
    cols: int
    row_step: int
    col_step: int = 0
    flat: bool = False


def measure(
    views: Iterable[View],
    tiles: Iterable[TileWindow],
    operands: Mapping[Buffer, Operand],
    env: Mapping[Symbol, int],
    whole_rows: bool,
    loc: Location,
) -> Block:
    """Return the block that ``views`` and ``tiles`` agree on.

    Parameters
    ----------
    views : iterable of View
        Everything a group of statements loads and stores.
    tiles : iterable of TileWindow
        The accumulator tiles it reads.
    operands, env : mapping
        Shapes of the buffers, dimensions and knobs as numbers.
    whole_rows : bool
        It computes row functions, so a tile has to hold all columns of its rows.
    loc : Location
        The statement to blame.

    Raises
    ------
    KernelError
        If they do not agree, or an instruction cannot describe the block.
    """
    found: dict[Block, str] = {}
    views = list(views)
    parts = [view for view in views if view.kind == "part"]
    if parts:
        found[_parts(parts, operands, env, loc)] = "parts"
    for tile in tiles:
        block = _tile(tile.rows, tile.cols, tile.width, whole_rows, loc)
        found.setdefault(block, "an accumulator tile")
    for view in views:
        operand = operands[view.buffer]
        name = f"`{view.buffer.name}`"
        if view.kind == "rows":
            step = _size(view, 0, env)
            if step:
                block = Block(min(step, operand.rows), operand.width, step)
                found.setdefault(block, f"rows of {name}")
        elif view.kind == "tile":
            gm, gn = _size(view, 0, env), _size(view, 1, env)
            if gm and gn:
                block = _tile(4 * gm, 4 * gn, operand.width, whole_rows, loc)
                found.setdefault(block, f"a tile of {name}")
    if len(found) > 1:
        listed = [f"{what}: {b.rows} x {b.cols}" for b, what in found.items()]
        raise KernelError(
            "one statement mixes blocks of different shapes: " + "; ".join(listed),
            loc=loc,
            fix="cut every buffer of the statement by the same tiling",
        )
    block = next(iter(found), None) or _thin(views, operands, env)
    for view in views:
        if view.kind == "rows" and operands[view.buffer].width != block.cols:
            raise KernelError(
                f"rows of `{view.buffer.name}` have {operands[view.buffer].width} elements, those "
                f"of the statement {block.cols}",
                loc=view.loc,
                fix="index it by the grid over its own rows, and use buffers of one width",
            )
    check_limits(block, loc)
    return block


def _size(view: View, axis: int, env: Mapping[Symbol, int]) -> int:
    tiling = view.tilings[axis] if axis < len(view.tilings) else None
    return tiling.size.evaluate(env) if tiling else 0


def _thin(
    views: list[View], operands: Mapping[Buffer, Operand], env: Mapping[Symbol, int]
) -> Block:
    """Return the block of statements that name neither whole rows nor tiles."""
    rows, step, cols = 1, 1, 1
    for view in views:
        operand = operands[view.buffer]
        if view.kind == "column":
            tiling = view.tilings[0] if view.tilings else None
            step = _size(view, 0, env) * (4 if tiling and tiling.kind == "tiles" else 1)
            rows = min(step, column_rows(operand))
        elif view.kind in ("channel", "channel_tile"):
            cols = 4 * _size(view, 0, env) or operand.width
    return Block(rows, cols, step, cols)


def column_rows(operand: Operand) -> int:
    """Return how many rows a column has: it may be stored as one row."""
    return operand.rows if operand.width == 1 else operand.width


def _tile(rows: int, cols: int, width: int, whole_rows: bool, loc: Location) -> Block:
    if 0 < width <= cols:
        return Block(rows, width, rows, cols)  # whole rows, and no column past them
    if not whole_rows:
        return Block(rows, cols, rows, cols)
    raise KernelError(
        f"a row function needs whole rows, and a tile holds {cols} of {width} columns",
        loc=loc,
        fix=f"use gn = {-(-width // 4)}, or store the tile to an L.temp and apply the row "
        "function over its rows",
    )


def _parts(
    views: list[View], operands: Mapping[Buffer, Operand], env: Mapping[Symbol, int], loc: Location
) -> Block:
    """Return the block of a run of stored elements, the same run of every buffer."""
    used = [operands[view.buffer] for view in views]
    sizes = {size for view in views if (size := _size(view, 0, env))}
    shapes = {(operand.rows, operand.width) for operand in used}
    if len(shapes) > 1 or len(sizes) != 1:
        raise KernelError(
            f"one statement uses parts of buffers of different shapes {sorted(shapes)}",
            loc=loc,
            fix="give the buffers one shape, or cut them by rows",
        )
    n, (rows, width) = sizes.pop(), shapes.pop()
    stored = {operand.row_words * WORD_BYTES // SIZES[operand.dtype] for operand in used}
    if n > MAX_RUN:
        raise KernelError(
            f"a part of {n} elements, at most {MAX_RUN} fit one transfer",
            loc=loc,
            fix=f"use parts({MAX_RUN}) or fewer",
        )
    row = max(stored)
    if rows == 1:
        return _run(n, row)
    if row != width and n % row == 0 and len(stored) == 1:
        # Whole rows: their padding need not be touched.
        return Block(min(n // row, rows), width, n // row)
    if len(stored) > 1:
        raise KernelError(
            f"a part of {n} elements is not the same run of FP16 and of FP32 rows of {width} "
            f"elements, which are padded to {sorted(stored)}",
            loc=loc,
            fix="cut the buffers by rows",
        )
    return _run(n, rows * row)


def _run(step: int, total: int) -> Block:
    n = min(step, -(-total // 16) * 16)
    count = folded(n)
    return Block(count, n // count, 0, step, flat=True)


def folded(n: int) -> int:
    """Return into how few equal rows of whole words a run of ``n`` elements folds."""
    units = n // 16
    count = -(-units // (MAX_COLS // 16))
    while units % count:
        count += 1
    return count


def check_limits(block: Block, loc: Location) -> None:
    """Check that instructions can describe a block.

    Raises
    ------
    KernelError
        If it has too many rows or columns.
    """
    if block.rows > MAX_ROWS:
        raise KernelError(
            f"a block of {block.rows} rows, an instruction takes {MAX_ROWS}",
            loc=loc,
            fix=f"use blocks of at most {MAX_ROWS} rows",
        )
    if block.cols > MAX_COLS:
        raise KernelError(
            f"rows of {block.cols} elements, an instruction takes {MAX_COLS}",
            loc=loc,
            fix="reshape to shorter rows; elementwise work on any width runs over parts(n)",
        )
