"""Give the blocks of a fused stage that nobody chose a size.

Rows of a block, columns that a loop takes at a time, blocks of K in a chunk: the sizes with the
least estimated time that fit both units. Large blocks fill and start less; enough instances keep
every pair busy; what is past the end of a block costs as much as what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from compiler.analysis.sites import inside
from compiler.analysis.twins import twins
from compiler.cluster.operands import blocks_of_k, swept_blocks
from compiler.cluster.windows import places_of_tiles
from compiler.passes.place import try_epilogue
from compiler.passes.scope import Scope
from compiler.passes.specialise import Batch, Specialised
from compiler.passes.stage import Band, Stage, cut
from kohakuaccel.errors import CapacityError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Repeat, Tiling
from kohakutpu import costs
from kohakutpu.config import KBLOCK, LANES, Machine
from kohakutpu.lang.ir import Accumulate, Assign, TileDecl

Env = dict[Symbol, int]

ROWS = (4, 8, 16, 32, 64, 128)
COLUMNS = (32, 64, 128, 256)
BLOCKS = (1, 2, 4, 8, 16)
SWEEP = 8  # cycles a contraction costs beside its work
PASS = 64  # cycles a pass of a loop costs beside its work: instructions, hand-over
INSTANCE = 300  # cycles an instance costs beside its first pass, which nothing overlaps
SPILL = 1.15  # factor that a state in L1, at half the speed of registers, costs


def choose_fused(
    stage: Stage,
    batch: Batch,
    program: Specialised,
    machine: Machine,
    env: Env,
    opened: Sequence[Symbol],
    outer: Sequence[Symbol],
) -> None:
    """Put the sizes of a fused stage into ``env``.

    Raises
    ------
    CapacityError
        If even the smallest blocks do not fit; it says what does not.
    """
    variables = _variables(stage, batch, env, opened)
    if not variables:
        return
    trials: list[tuple[float, Env]] = []
    for values in product(*variables.values()):
        trial = {**env, **dict(zip(variables, values, strict=True))}
        trials.append((_cost(stage, batch, machine, trial), trial))
    trials.sort(key=lambda entry: entry[0])
    smallest = {**env, **{symbol: sizes[0] for symbol, sizes in variables.items()}}
    for _, trial in trials:
        if _fits_cluster(stage, trial, machine) and _fits(stage, program, machine, trial, outer):
            env.update(trial)
            return
    env.update(smallest)


def _variables(
    stage: Stage, batch: Batch, env: Env, opened: Sequence[Symbol]
) -> dict[Symbol, list[int]]:
    """Return the sizes to try for every open knob: none that is all padding."""
    result: dict[Symbol, list[int]] = {}

    def add(tiling: Tiling | None, own: bool) -> None:
        if tiling is None:
            return
        for symbol in tiling.size.symbols():
            if symbol not in opened or symbol in env or symbol in result:
                continue
            extent = max(1, tiling.buffer.shape[0].evaluate(env)) if tiling.buffer.shape else 1
            if tiling.kind == "chunks32":
                blocks = max(1, -(-tiling.buffer.shape[1].evaluate(env) // KBLOCK))
                result[symbol] = _up_to(BLOCKS, blocks, 1)
            elif tiling.kind == "rows":
                step = LANES if own else KBLOCK
                result[symbol] = _up_to(ROWS if own else COLUMNS, extent, step)
            else:
                groups = -(-extent // LANES)
                result[symbol] = _up_to([n // LANES for n in (ROWS if own else COLUMNS)], groups, 1)

    for index in stage.grid.indices:
        add(index.tiling, own=True)
    for statement in inside(stage.grid.body):
        if isinstance(statement, Repeat):
            add(statement.index.tiling, own=False)
    for statement in inside(stage.grid.body):
        if isinstance(statement, Accumulate):
            for symbol in statement.tile.nk.symbols():
                if symbol in opened and symbol not in env and symbol not in result:
                    result[symbol] = _up_to(BLOCKS, blocks_of_k(statement, env), 1)
    return result


def _up_to(sizes: Sequence[int], extent: int, step: int) -> list[int]:
    """Return the sizes below an extent, and one that covers it."""
    whole = -(-extent // step) * step
    below = [size for size in sizes if size < whole]
    return below + ([whole] if whole <= sizes[-1] else []) or [sizes[0]]


def _cost(stage: Stage, batch: Batch, machine: Machine, env: Env) -> float:
    """Return the estimated cycles of the busiest pair."""
    body = stage.grid.body
    average = {index.symbol: index.count for index in stage.indices}
    counted = {s: count for s, count in average.items() if count.symbols() <= env.keys()}
    known = {**env, **{symbol: count.evaluate(env) // 2 for symbol, count in counted.items()}}
    scope = Scope(known)
    work, passes = 0.0, 1
    for statement in inside(body):
        if isinstance(statement, Accumulate):
            gm, gn = (size.evaluate(known) for size in (statement.tile.gm, statement.tile.gn))
            swept = swept_blocks(body, statement, scope)
            work += costs.gemm(machine, gm, gn, 1).cycles * swept
            work += SWEEP * swept / statement.tile.nk.evaluate(known)
        elif isinstance(statement, Repeat) and any(
            isinstance(s, TileDecl) for s in inside(statement.body)
        ):
            passes = max(passes, statement.index.passes(known))
    instances = prod(batch.counts) * prod(count.evaluate(env) for count in counted.values())
    if _spills(stage, env, machine):
        work *= SPILL
    # The first pass of an instance is nobody's shadow.
    work += PASS * passes + work / passes + INSTANCE
    return -(-instances // len(machine.pairs)) * work


def _spills(stage: Stage, env: Mapping[Symbol, int], machine: Machine) -> bool:
    """Tell whether a state takes more than half of the registers, and so lies in L1."""
    rows = next((s.tile.gm for s in inside(stage.grid.body) if isinstance(s, TileDecl)), None)
    return rows is not None and any(
        2 * LANES * rows.evaluate(env) * -(-s.state.width.evaluate(env) // machine.lanes)
        > machine.registers
        for s in inside(stage.grid.body)
        if isinstance(s, Assign) and s.first and s.state.width is not None
    )


def _fits_cluster(stage: Stage, env: Mapping[Symbol, int], machine: Machine) -> bool:
    """Tell whether tiles fit, two places of those in loops, and two regions of each operand."""
    shared = twins(stage.grid.body, env)
    every = [s.tile for s in inside(stage.grid.body) if isinstance(s, TileDecl)]
    tiles = [tile for tile in every if shared[tile] is tile]
    sizes = {tile: tile.gm.evaluate(env) * tile.gn.evaluate(env) for tile in tiles}
    if sum(sizes.values()) > machine.acc_subtiles:
        return False
    places = places_of_tiles(stage.grid.body, sizes, machine.acc_subtiles)
    loops = [s.body for s in inside(stage.grid.body) if isinstance(s, Repeat)]
    looped = [s.tile for body in loops for s in body if isinstance(s, TileDecl)]
    regions = (
        max(tile.gm.evaluate(env), tile.gn.evaluate(env)) * tile.nk.evaluate(env) for tile in tiles
    )
    twice = all(places[shared[tile]] == 2 for tile in looped)
    return twice and 4 * max(regions, default=0) <= machine.l1_entries


def _fits(
    stage: Stage, program: Specialised, machine: Machine, env: Env, outer: Sequence[Symbol]
) -> bool:
    parts = cut([stage.grid], {**env, **dict.fromkeys(outer, 0)})
    part = parts[0] if parts else None
    if isinstance(part, Band):
        part = part.stages[-1]
    if not isinstance(part, Stage):
        return True
    try:
        try_epilogue(part, program, machine, {})
    except CapacityError:
        return False
    return True
