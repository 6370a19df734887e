"""``L.print``: values of a kernel, brought back and shown after the call.

A print is a buffer of the shape of what the value covers in all instances together, and a store
into it; whatever runs the kernel writes it like a result.
"""

from __future__ import annotations

from typing import Any, NoReturn

from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const, Expr, Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Repeat, Store, Tiling, View
from kohakuaccel.lang.tracing import Tracer, current, indices_of
from kohakuaccel.source import Location, caller
from kohakutpu.lang.frames import Cut, block_size, frame
from kohakutpu.lang.ir import tiles_of
from kohakutpu.lang.layout import rows_and_width
from kohakutpu.lang.values import as_value
from kohakutpu.lang.windows import cuts_columns, stage_kind

BY_COLUMNS = ("tiles", "rows", "chunks32")


def show(value: Any, label: str | None = None) -> None:
    """Show a value of the kernel after the call, on standard output, all instances at once.

    It is shown as the kernel computes with it: FP32, a tile as its rounding to FP16; in a grid over
    parts as elements of the format of the buffer that is cut. Elements that no instance has are
    shown as ``--``. The results of the kernel do not change.

    Parameters
    ----------
    value : value
        A window, a tile, a state, or anything computed.
    label : str, optional
        What to call it; left out, the text of the argument.

    Raises
    ------
    KernelError
        If used outside a grid, `value` is known before the kernel runs or does not say which
        elements it covers, or passes of a loop would print one place again and again.
    """
    loc = caller()
    tracer = current("L.print", loc)
    if tracer.grid is None:
        raise KernelError(
            "L.print outside any grid has no instance whose value it could show",
            loc=loc,
            fix="move it into `for ... in grid(...)` or `with stage(...)`",
        )
    node = as_value(value, loc).node
    if node.op == "const":
        raise KernelError(
            f"L.print of {node.number!s}: it is known before the kernel runs",
            loc=loc,
            fix="use Python's print",
        )
    kind = stage_kind(tracer, loc)
    if kind == "tiles" and not tiles_of(node):
        raise KernelError(
            "in a grid over tiles L.print shows what is computed with a tile, and this is not",
            loc=loc,
            fix="print it together with the tile, as in L.print(acc + bias[j]), or on the host",
        )
    if kind == "parts":
        view = _part(tracer, loc)
    else:
        rows, cols = _cuts(frame(node), tracer, kind, loc)
        dtype = "fp16" if node.op == "tile" else "fp32"
        view = _block(rows, cols, dtype, tracer, kind, loc)
    _refuse_repeated(view, tracer, loc)
    buffer = view.buffer
    taken = {known.name for known in tracer.trace.buffers}
    name, number = "print", 2
    while name in taken:
        name, number = f"print{number}", number + 1
    buffer.name, buffer.value = name, label or loc.argument or "value"
    tracer.trace.buffers.append(buffer)
    tracer.add(Store(loc, view, node))


def _batched(tracer: Tracer) -> bool:
    return any(buffer.batched for buffer in tracer.trace.buffers)


def _part(tracer: Tracer, loc: Location) -> View:
    assert tracer.grid is not None
    index = next(i for i in tracer.grid.indices if i.tiling is not None)
    assert index.tiling is not None
    cut = index.tiling.buffer
    buffer = Buffer("", "print", cut.shape, cut.dtype, loc, False, cut.any_rank)
    buffer.batched = not cut.any_rank and _batched(tracer)
    return View(buffer, "part", (index.symbol,), (index.tiling,), loc)


def _cuts(found: Any, tracer: Tracer, kind: str, loc: Location) -> tuple[Cut, Cut | None]:
    """Return which rows and columns a value covers, or those of the grid and the loops around."""
    rows: Cut | None = found.rows
    cols: Cut | None = found.cols
    assert tracer.grid is not None
    if rows is None:
        rows = next((_cut(i.symbol, i.tiling, 0) for i in tracer.grid.indices if i.tiling), None)
    if rows is None or rows.index is None:
        raise KernelError(
            "L.print cannot tell which rows this value covers in which instance",
            loc=loc,
            fix="print it inside a grid over the rows of a buffer, x.rows(n) or x.tiles(g)",
        )
    inner = [scope.index for scope in tracer.open if isinstance(scope, Repeat)]
    if cols is None:  # one element a row: a column for each block of columns there is
        loops = [i for i in inner if i.tiling is not None and i.tiling.kind in BY_COLUMNS]
        if kind == "tiles":
            loops += [i for i in tracer.grid.indices[1:] if i.tiling is not None]
        cols = next((_cut(i.symbol, i.tiling, None) for i in loops if i.tiling), None)
    elif cols.index is None:
        cols = Cut(cols.extent, cols.block, Const(0))
    return rows, cols


def _cut(symbol: Symbol, tiling: Tiling, axis: int | None) -> Cut:
    """Return the block that an index counts, of the rows of its buffer or of the axis it cuts."""
    rows, width = rows_and_width(tiling.buffer)
    extent = width if axis is None and tiling.kind == "chunks32" else rows
    return Cut(extent, block_size(tiling, extent), symbol)


def _block(
    rows: Cut, cols: Cut | None, dtype: str, tracer: Tracer, kind: str, loc: Location
) -> View:
    assert tracer.grid is not None
    assert rows.index is not None
    by_columns = kind == "tiles" or cuts_columns(tracer.grid.body)
    whole = cols is None or (cols.index == Const(0) and cols.block == cols.extent)
    width: Expr = Const(1) if cols is None else cols.extent
    buffer = Buffer("", "print", (rows.extent, width), dtype, loc, _batched(tracer))
    if kind != "tiles" and (whole or not by_columns):
        return View(
            buffer,
            "column" if cols is None else "rows",
            (rows.index,),
            (tracer.tiling(rows.index),),
            loc,
        )
    index = (rows.index, Const(0) if cols is None or cols.index is None else cols.index)
    return View(buffer, "tile", index, tuple(tracer.tiling(part) for part in index), loc)


def _refuse_repeated(view: View, tracer: Tracer, loc: Location) -> None:
    """Refuse a print in a loop whose index does not say where the value goes."""
    shown = frozenset[Symbol]().union(*(index.symbols() for index in view.index))
    for scope in tracer.open:
        for index in indices_of(scope):
            if index.symbol in shown:
                continue
            if isinstance(scope, Grid):
                continue  # instances that have the same value there are told apart by its rows
            _refuse_loop(scope, view, loc)


def _refuse_loop(scope: Repeat, view: View, loc: Location) -> NoReturn:
    raise KernelError(
        f"L.print in the loop over `{scope.index.symbol}` would print the same place in every "
        "pass, and show the last one",
        loc=loc,
        fix="print it after the loop, or print what varies with "
        f"`{scope.index.symbol}`, such as a tile or a window",
        notes=[(scope.loc, "the loop")],
    )
