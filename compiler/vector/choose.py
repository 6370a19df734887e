"""The size of a block or part that the kernel left open.

As large as fits with double buffering, up to a size beyond which nothing is gained, and small
enough that every vector core has work and each of them overlaps transfers with computing. Where
L1 feeds FP32 slower than the lanes take it, temporaries should fit the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.vector.capacity import slots_of
from compiler.vector.context import VectorContext
from compiler.vector.geometry import MAX_ROWS, SIZES
from compiler.vector.homes import ShortageError
from compiler.vector.plan import Plan, plan
from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Repeat, Statement, Store, Tiling, View
from kohakutpu.config import WORD_BYTES
from kohakutpu.lang.ir import walk

TARGET = 16368  # elements of an instance: one row of an EXEC, and more gains nothing
SMALL = 2048  # elements of an instance below which starting instructions costs more than L1 does
OVERLAP = 2  # instances a core should have at least, so that one is filled while one computes
FP32_PER_WORD = 8


def choose_block(
    body: Sequence[Statement], symbol: Symbol, context: VectorContext, batch: int = 1
) -> int:
    """Return the number for the knob ``symbol`` of ``x.rows(n)`` or ``x.parts(n)``.

    Parameters
    ----------
    body : sequence of Statement
        The statements of an instance.
    symbol : Symbol
        The knob; all other symbols of sizes are in the context's ``env``.
    context : VectorContext
        A vector core with nothing allocated; loops and indices need not be known yet.
    batch : int
        Batch elements, each of which has its own instances.

    Raises
    ------
    KernelError
        If the statements are wrong for every size.
    """
    views = _views(body)
    tiling, cut = _cut_by(views, symbol)
    operand = context.operands[tiling.buffer if tiling.buffer in context.operands else cut]
    cores = len(context.machine.of_kind("V"))
    if tiling.kind == "rows":
        unit, total, width = 1, operand.rows, operand.width
        if any(view.kind == "column" and context.operands[view.buffer].width > 1 for view in views):
            unit = 4  # a column stored as a row is cut at quarters
        limit = MAX_ROWS
    else:
        row = operand.row_words * WORD_BYTES // SIZES[operand.dtype]
        total, width, unit, limit = operand.rows * row, 1, 16, TARGET
        if operand.rows > 1 and row != operand.width and row <= TARGET:
            unit, limit = row, MAX_ROWS * row  # whole rows, so that nobody reads their padding

    def try_size(n: int) -> Plan | None:
        try:
            found = plan(body, replace(context, env={**context.env, symbol: n}))
        except ShortageError:
            return None
        return found if slots_of(found, context) else None

    def good(n: int) -> bool:
        found = try_size(n)
        if found is None or (context.double_buffer and slots_of(found, context) < 2):
            return False
        slow = context.machine.lanes > FP32_PER_WORD and found.arrangement.temporary > 0
        return not slow or n * width <= SMALL

    wanted = min(total, limit, max(unit, TARGET // width))
    smallest = max(unit, min(wanted, SMALL // width))
    wanted = min(wanted, max(smallest, -(-total * batch // (OVERLAP * cores))))
    best = _largest(unit, wanted, good) or _largest(unit, wanted, lambda n: try_size(n) is not None)
    if not best or best >= total:
        return min(max(best, unit), _whole(total, unit))
    return _even(total, best, unit, cores if batch == 1 else 1)


def _even(total: int, best: int, unit: int, cores: int) -> int:
    """Return a size of at most ``best`` that gives every core the same number of instances."""
    count = -(-total // best)
    if count > 1:
        count = -(-count // cores) * cores
    return min(best, _whole(-(-total // count), unit))


def _whole(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _largest(unit: int, limit: int, holds: Callable[[int], bool]) -> int:
    """Return the largest multiple of ``unit`` up to ``limit`` (or one ``unit``) that ``holds``."""
    low, high = 0, max(1, limit // unit)
    if holds(high * unit):
        return high * unit
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle * unit):
            low = middle
        else:
            high = middle
    return low * unit


def _views(body: Sequence[Statement]) -> list[View]:
    views: list[View] = []
    for statement in body:
        if isinstance(statement, Store):
            views.append(statement.view)
            views += [v.view for v in walk(statement.value) if v.view is not None]
        elif isinstance(statement, Repeat):
            views += _views(statement.body)
    return views


def _cut_by(views: list[View], symbol: Symbol) -> tuple[Tiling, Buffer]:
    """Return the tiling of this size and a buffer it cuts, which need not be the one it names."""
    for view in views:
        for tiling in view.tilings:
            if tiling is not None and tiling.size == symbol:
                return tiling, view.buffer
    raise InternalError(f"no view is cut by the knob {symbol}")
