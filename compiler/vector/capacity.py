"""Whether a plan fits a vector core, and if not, who uses what and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.vector.context import VectorContext
from compiler.vector.geometry import Block, folded
from compiler.vector.homes import ShortageError
from compiler.vector.plan import Plan, plan
from kohakuaccel.errors import CapacityError, InternalError
from kohakuaccel.ir.nodes import Statement, Store
from kohakuaccel.source import Location


def fitting_plan(body: Sequence[Statement], context: VectorContext) -> tuple[Plan, int]:
    """Return the plan of ``body`` and how many places its rings have: two, or one if need be.

    Raises
    ------
    CapacityError
        If it does not fit even with one place each.
    """
    try:
        found = plan(body, context)
    except ShortageError as shortage:
        raise CapacityError(
            f"{shortage.what} take {shortage.needed} {context.registers.what}, "
            f"{context.registers.left} are free",
            loc=shortage.loc,
            fix=_fix(body, context),
        ) from None
    slots = slots_of(found, context)
    if not slots:
        raise CapacityError(
            f"one instance takes {found.arrangement.words(1)} {context.l1.what}, "
            f"{context.l1.left} are free",
            loc=body[0].loc,
            fix=_fix(body, context),
            notes=_users(found, context),
        )
    return found, slots


def slots_of(found: Plan, context: VectorContext) -> int:
    """Return how many places the rings of a plan may have: 2, 1 or, if it does not fit, 0."""
    for slots in (2, 1) if context.double_buffer else (1,):
        if found.arrangement.words(slots) <= context.l1.left:
            return slots
    return 0


def places(body: Sequence[Statement], context: VectorContext) -> int:
    """Return how many places a window would have (2 or 1), or 0 if ``body`` does not fit at all.

    Raises
    ------
    KernelError
        If the statements are wrong whatever the capacity.
    """
    try:
        return slots_of(plan(body, context), context)
    except ShortageError:
        return 0


def _users(found: Plan, context: VectorContext) -> list[tuple[Location | None, str]]:
    arrangement = found.arrangement
    notes: list[tuple[Location | None, str]] = [
        (claim.loc, f"{claim.name}: {claim.size}") for claim in context.l1.claims
    ]
    for node, home in arrangement.homes.items():
        if node.op == "load":
            what = "read, for all instances" if home.region == "resident" else "read"
            notes.append((node.loc, f"`{node.source.buffer.name}` {what}: {home.size}"))
        elif home.region == "resident":
            notes.append((node.loc, f"computed for all instances: {home.size}"))
    for store, home in arrangement.outputs.items():
        written = f"`{store.view.buffer.name}` written" if isinstance(store, Store) else "operand"
        notes.append((store.loc, f"{written}: {home.size}"))
    if arrangement.temporary:
        notes.append((None, f"temporaries that registers do not hold: {arrangement.temporary}"))
    return notes


def _fix(body: Sequence[Statement], context: VectorContext) -> str:
    """Say what would fit: fewer rows, or failing that fewer columns."""

    def fits(shrink: Callable[[Block], Block]) -> bool:
        try:
            return slots_of(plan(body, context, shrink), context) > 0
        except ShortageError:
            return False

    block = plan_block(body, context)
    if block.flat:
        n = _largest(block.rows * block.cols // 16, lambda u: fits(lambda b: _run(b, 16 * u)))
        return f"use parts({16 * n}) or less" if n else "split the expression over statements"
    rows = _largest(block.rows, lambda r: fits(lambda b: replace(b, rows=min(r, b.rows))))
    if rows:
        if block.col_step and rows >= 4:
            return f"use gm = {rows // 4} or less"
        if not block.col_step:
            return f"use rows({rows}) or less"
    cols = _largest(block.cols, lambda c: fits(lambda b: replace(b, rows=1, cols=min(c, b.cols))))
    if not cols:
        return "split the expression over statements, or use a machine with a larger L1"
    return (
        f"a single row of {cols} elements fits, this one has {block.cols}: use shorter rows, fewer "
        "buffers and intermediate values in one grid, or a machine with a larger L1"
    )


def plan_block(body: Sequence[Statement], context: VectorContext) -> Block:
    """Return the largest block among the statements of ``body``."""
    seen: list[Block] = []

    def note(block: Block) -> Block:
        seen.append(block)
        return replace(block, rows=1, cols=min(16, block.cols))

    try:
        plan(body, context, note)
    except ShortageError:
        pass
    if not seen:
        raise InternalError("a vector stage without a store")
    return max(seen, key=lambda block: block.rows * block.cols)


def _run(block: Block, n: int) -> Block:
    n = min(n, block.rows * block.cols)
    rows = folded(n)
    return replace(block, rows=rows, cols=n // rows)


def _largest(limit: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to ``limit`` that ``holds``, where smaller ones do as well."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
