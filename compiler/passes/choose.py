"""Give every knob that the kernel and the caller left open a number.

The size of a tile is the one with the least estimated time: padding costs cycles, small tiles cost
fills, few tiles leave units idle and nothing to overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from compiler.analysis.sites import inside
from compiler.passes.blocks import choose_fused
from compiler.passes.place import try_epilogue
from compiler.passes.specialise import Batch, Specialised, collapse_batch
from compiler.passes.stage import Band, Stage, buffers, cut, statements
from compiler.passes.tiles import candidates, chunked, contractions, divide, timing
from compiler.vector import Allocator, VectorContext, VectorLowering, choose_block
from kohakuaccel.errors import CapacityError, KernelError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Grid, Repeat, Statement, Store
from kohakutpu.config import SEMAPHORES, Machine
from kohakutpu.lang.ir import TileDecl, loads

Env = dict[Symbol, int]

SLACK = 1.01  # ratio of costs that are about the same
COMFORT = 1.25  # ratio that an epilogue with room is worth
EMPTY = 16  # the block of a buffer that holds nothing


def choose_knobs(program: Specialised, machine: Machine) -> Env:
    """Return numbers for all knobs that have none, given the program's dimensions.

    Raises
    ------
    KernelError
        If an instance cannot be computed whatever its size.
    """
    env = dict(program.env)
    opened = [knob for knob in program.trace.knobs.values() if knob not in env]
    for grid, outer in _grids(program.trace.body, ()):
        if not any(knob not in env for knob in opened):
            break
        stage = Stage(0, grid, env, grid.indices)
        batch = collapse_batch(program, buffers(grid.body))
        if stage.is_fused:
            _require_sizes(stage, env, opened)
            choose_fused(stage, batch, program, machine, env, opened, outer)
        elif stage.is_contraction:
            _choose_tiles(stage, batch, program, machine, env, opened, outer)
        _choose_blocks(stage, batch, machine, env, opened)
    return {**env, **{knob: 1 for knob in opened if knob not in env}}


def _require_sizes(stage: Stage, env: Env, opened: Sequence[Symbol]) -> None:
    """Check that the rows and columns of every tile are those of a tiling, if nobody says them.

    Raises
    ------
    KernelError
        If the windows contracted into a tile do not say how large it is.
    """
    inner = list(inside(stage.grid.body))
    indices = [*stage.grid.indices, *(s.index for s in inner if isinstance(s, Repeat))]
    named = {s for i in indices if i.tiling is not None for s in i.tiling.size.symbols()}
    for tile in (s.tile for s in inner if isinstance(s, TileDecl)):
        for size in (tile.gm, tile.gn):
            if any(s in opened and s not in env and s not in named for s in size.symbols()):
                raise KernelError(
                    f"nothing says how large tile `{tile.name}` is: an index of what is contracted "
                    "into it is no plain index of a tiling",
                    loc=tile.loc,
                    fix="give its size, L.tile(gm, gn, nk), in groups of 4 rows and columns",
                )


def _grids(
    body: Sequence[Statement], outer: tuple[Symbol, ...]
) -> Iterator[tuple[Grid, tuple[Symbol, ...]]]:
    """Yield every grid with the indices of the sweeps around it."""
    for statement in body:
        if isinstance(statement, Grid):
            yield statement, outer
        elif isinstance(statement, Repeat):
            yield from _grids(statement.body, (*outer, statement.index.symbol))


def _choose_blocks(
    stage: Stage, batch: Batch, machine: Machine, env: Env, opened: Sequence[Symbol]
) -> None:
    wanted: dict[Symbol, None] = {}
    for statement in statements(stage.grid.body):
        if isinstance(statement, Store):
            for view in (statement.view, *loads(statement.value)):
                for tiling in view.tilings:
                    if tiling is not None and tiling.kind in ("rows", "parts"):
                        wanted.update(dict.fromkeys(tiling.size.symbols()))
    empty = any(0 in (operand.rows, operand.width) for operand in batch.operands.values())
    for symbol in wanted:
        if symbol not in opened or symbol in env:
            continue
        if empty:
            env[symbol] = EMPTY
        else:
            context = VectorContext(
                machine,
                machine.of_kind("V")[0].id,
                env,
                {},
                batch.operands,
                Allocator("L1 words of a vector core", machine.vl1_words),
                Allocator("register beats of a vector core", machine.registers),
                Allocator("semaphores of a vector core", SEMAPHORES),
            )
            env[symbol] = choose_block(stage.grid.body, symbol, context, prod(batch.counts))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Sizes of tiles, their estimated cycles and their sub-tiles."""

    cost: float
    area: int
    env: Env


def _choose_tiles(
    stage: Stage,
    batch: Batch,
    program: Specialised,
    machine: Machine,
    env: Env,
    opened: Sequence[Symbol],
    outer: Sequence[Symbol],
) -> None:
    tiles = contractions(stage, batch.operands, env)
    axes = {
        "gm": [symbol for c in tiles for symbol in c.tile.gm.symbols()],
        "gn": [symbol for c in tiles for symbol in c.tile.gn.symbols()],
        "nk": [symbol for c in tiles for symbol in c.tile.nk.symbols()],
    }
    free = {
        axis: [s for s in dict.fromkeys(symbols) if s in opened and s not in env]
        for axis, symbols in axes.items()
    }
    for symbol in _stray(stage, opened):
        if not any(symbol in symbols for symbols in axes.values()):
            env.setdefault(symbol, 1)  # the size of no tile: refused, once all have numbers
    variables: dict[Symbol, list[int]] = {}
    for axis, extent in (("gm", max(c.rows for c in tiles)), ("gn", max(c.cols for c in tiles))):
        for symbol in free[axis]:
            variables.setdefault(symbol, []).extend(candidates(extent, axis == "gn"))
    if variables:
        found: list[_Candidate] = []
        for values in product(*(sorted(set(v)) for v in variables.values())):
            trial = {**env, **dict(zip(variables, values, strict=True))}
            estimate = timing(divide(stage, batch, trial, machine), tiles, trial, machine)
            if estimate is not None:
                area = sum(c.tile.gm.evaluate(trial) * c.tile.gn.evaluate(trial) for c in tiles)
                found.append(_Candidate(estimate.cycles, area, trial))
        least = min((candidate.cost for candidate in found), default=0.0)
        # Among tiles that cost about the same, the largest: fewest instructions and words.
        close = [candidate for candidate in found if candidate.cost <= least * SLACK]
        others = [candidate for candidate in found if candidate.cost > least * SLACK]
        found = sorted(close, key=lambda c: (-c.area, c.cost)) + sorted(
            others, key=lambda c: c.cost
        )
        if found and any(c.windowed for c in tiles):
            env.update(_with_epilogue(found, stage, program, machine, outer).env)
        else:
            env.update(found[0].env if found else dict.fromkeys(variables, 1))
    for symbol in free["nk"]:
        if symbol not in env:
            fed = [c for c in tiles if symbol in c.tile.nk.symbols()]
            sizes = [(c.tile.gm.evaluate(env), c.tile.gn.evaluate(env)) for c in fed]
            env[symbol] = chunked(divide(stage, batch, env, machine), fed, sizes, machine).nk


def _stray(stage: Stage, opened: Sequence[Symbol]) -> Iterator[Symbol]:
    """Yield the open sizes of tilings that the grid, or loops of an instance, run over."""
    loops = (s.index for s in inside(stage.grid.body) if isinstance(s, Repeat))
    for index in (*stage.grid.indices, *loops):
        if index.tiling is not None:
            yield from (s for s in index.tiling.size.symbols() if s in opened)


def _with_epilogue(
    found: Sequence[_Candidate],
    stage: Stage,
    program: Specialised,
    machine: Machine,
    outer: Sequence[Symbol],
) -> _Candidate:
    """Return the best tile whose epilogue fits well, if that costs little, else fits at all.

    It fits well if everything has two places and temporaries are in registers.
    """
    fitting: _Candidate | None = None
    too_large = 1 << 30
    for candidate in found:
        if candidate.area >= too_large:
            continue
        if fitting is not None and candidate.cost > fitting.cost * COMFORT:
            break
        part = cut([stage.grid], {**candidate.env, **dict.fromkeys(outer, 0)})[0]
        if isinstance(part, Band):
            if not part.stages:
                return candidate
            part = part.stages[0]
        assert isinstance(part, Stage)
        too_large = candidate.area  # for what follows, unless it fits well
        try:
            lowering = try_epilogue(part, program, machine, {})
        except CapacityError:
            continue
        if lowering is None or _is_comfortable(lowering):
            return candidate
        fitting = fitting or candidate
    return fitting or found[-1]


def _is_comfortable(lowering: VectorLowering) -> bool:
    windows = [placement for placement in lowering.placements if placement.memory == "L1"]
    return all(w.role == "resident" or (w.role != "temporary" and w.slots > 1) for w in windows)
