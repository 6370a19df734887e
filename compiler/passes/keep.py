"""Computed operands that stay: what no loop inside changes is computed and sent once for all of it.

A value that reads buffers alone, and of the indices around an instance only some, is the same for
all values of the others. If all of K of it fits half of what is left of its memory, it is sent
before the loops over these, and stays while they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from compiler.analysis.heights import height_of_operand
from compiler.cluster.operands import MODES, blocks_of_k
from compiler.passes.axes import Axes
from compiler.program import Advance, Item, Loop
from compiler.vector import Allocator, IndexValue, Landing, VectorLowering
from compiler.vector.context import Keep, Operand
from compiler.vector.emit import VDRAIN, sync
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Repeat, Statement
from kohakutpu.config import LANES
from kohakutpu.lang.ir import SIDES, Accumulate, Computed, Send, Side, TileDecl, loads, walk


def sends(
    body: Sequence[Statement], loops: tuple[Repeat, ...] = ()
) -> Iterator[tuple[Send, tuple[Repeat, ...]]]:
    """Yield what is sent, with the loops of the instance around it."""
    for statement in body:
        if isinstance(statement, Send):
            yield statement, loops
        elif isinstance(statement, Repeat):
            yield from sends(statement.body, (*loops, statement))


def without(body: Sequence[Statement], kept: Mapping[Computed, Keep]) -> list[Statement]:
    """Return a body without what is sent ahead of it, and without loops that did nothing else."""
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Send) and statement.operand in kept:
            continue
        if isinstance(statement, Repeat):
            inner = without(statement.body, kept)
            if inner:
                result.append(Repeat(statement.loc, statement.index, inner))
            continue
        result.append(statement)
    return result


def kept_operands(
    grid: Grid,
    body: Sequence[Statement],
    env: Mapping[Symbol, int],
    values: Sequence[tuple[Symbol | None, IndexValue]],
    outer: frozenset[Symbol],
    operands: Mapping[Buffer, Operand],
    l1: Mapping[Side, Allocator],
) -> dict[Computed, Keep]:
    """Return what of a grid's vector half stays.

    ``values`` are the axes around an instance, batch axes without a symbol first; ``outer`` the
    indices of loops around the stage.
    """
    found = list(sends(body))
    targets = [(send.tile, send.side) for send, _ in found]
    born = {s.tile for s in grid.body if isinstance(s, TileDecl)}
    accumulates = _operands_of(grid.body)
    left = {side: l1[side].left // 2 for side in SIDES}
    result: dict[Computed, Keep] = {}
    for send, loops in found:
        tile, side = send.tile, send.side
        inner = {loop.index.symbol for loop in loops}
        plain = len(loops) <= 1 and inner <= send.operand.chunk.symbols()
        plain = plain and all(loop.index.count.symbols() <= env.keys() for loop in loops)
        if not plain or tile not in born or targets.count((tile, side)) > 1:
            continue
        nodes = walk(send.value)
        views = loads(send.value)
        used = {symbol for view in views for index in view.index for symbol in index.symbols()}
        known = {symbol for symbol, _ in values if symbol is not None} | inner | outer | env.keys()
        if any(node.tile is not None or node.state is not None for node in nodes):
            continue
        if not used <= known:
            continue
        depends = [
            symbol in used
            if symbol is not None
            else any(operands[view.buffer].batch_strides[n] for view in views)
            for n, (symbol, _) in enumerate(values)
        ]
        counts = [value.loop.count if value.loop is not None else 1 for _, value in values]
        blocks = blocks_of_k(accumulates[send.operand], env)
        terms = len({pair[SIDES.index(side)] for pair in MODES[tile.precision]})
        one = height_of_operand(tile, side, env) // LANES * blocks
        best: tuple[int, int] | None = None
        for level in range(len(values), -1, -1):
            inside = range(level, len(values))
            if not any(counts[n] > 1 and not depends[n] for n in inside):
                continue
            held = prod(counts[n] for n in inside if depends[n])
            times = prod(counts[:level]) * held
            slots = 1 if prod(counts[:level]) == 1 else 2
            if one * terms * held * slots <= left[side] and (best is None or times < best[0]):
                best = times, level
        if best is None:
            continue
        level = best[1]
        moving = tuple(n for n in range(level, len(values)) if depends[n] and counts[n] > 1)
        strides: list[int] = []
        step = one
        for n in reversed(moving):
            strides.insert(0, step)
            step *= counts[n]
        chunks = tuple(Loop(f"axis {n} of {tile.name}", counts[n]) for n in moving)
        slots = 1 if prod(counts[:level]) == 1 else 2
        left[side] -= step * terms * slots
        nk = tile.nk.evaluate(env)
        result[send.operand] = Keep(level, moving, chunks, tuple(strides), blocks, nk, step, slots)
    return result


def held_axes(keep: Keep, axes: Axes) -> Axes:
    """Return the axes in which all of an operand that stays is computed, before the loops inside.

    These stand at their start, but for those that choose among the row tiles it holds.
    """
    fresh = dict(zip(keep.moving, keep.loops, strict=True))
    values = [
        value if n < keep.level else IndexValue(value.start, fresh.get(n))
        for n, value in enumerate(axes.values)
    ]
    return replace(axes, values=values)


def run_ahead(
    lowering: VectorLowering, part: VectorLowering, send: Send, landing: Landing, axes: Axes
) -> None:
    """Let ``part``, which sends an operand that stays, run before the loops that do not change it.

    ``axes`` are those around the instances of ``lowering``.
    """
    keep = landing.keep
    assert keep is not None
    items: list[Item] = part.body
    part.body = []
    for loop in reversed(keep.loops):
        loop.body = items
        items = [loop]
    lowering.ahead.setdefault(keep.level, []).extend(
        [
            *sync(VDRAIN, [(landing.empty, 1)]),
            *items,
            *sync(VDRAIN, (), [landing.full]),
            Advance(landing.ring),
        ]
    )
    lowering.add(part)
    side = "left" if send.side == "A" else "right"
    lowering.notes.append(
        f"the {side} operand of {send.tile.name} is computed once for all of "
        f"{', '.join(axes.names[keep.level :])}: {keep.slots * keep.size * len(landing.modes)} "
        f"entries of L1{send.side} hold it"
    )


def _operands_of(body: Sequence[Statement]) -> dict[Computed, Accumulate]:
    result: dict[Computed, Accumulate] = {}
    for statement in body:
        if isinstance(statement, Accumulate):
            result.update((operand, statement) for _, operand in statement.computed)
        elif isinstance(statement, Repeat):
            result.update(_operands_of(statement.body))
    return result
