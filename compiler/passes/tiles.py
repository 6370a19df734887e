"""How long a contraction stage takes with tiles of some size, roughly, and with what chunks of K.

Fills, contractions and drains overlap, so the longest of them counts; what nothing overlaps is the
first fill, the last drain and the last tile's epilogue. What several clusters want is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.cluster import Ports, multicasts, ports_of
from compiler.cluster.operands import MODES, blocks_of
from compiler.cluster.residency import COUNT_MAX
from compiler.passes.specialise import Batch
from compiler.passes.stage import Stage, shares, split_axis, statements
from compiler.vector import Operand
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Store, View
from kohakutpu import costs
from kohakutpu.config import KBLOCK, LANES, WORD_BYTES, Machine
from kohakutpu.lang.ir import SIDES, Accumulate, Tile, TileDecl, row_index, tiles_of

Env = Mapping[Symbol, int]

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
WORD_GROUPS = 4  # groups of 4 FP16 columns in a word
GROUP_WORDS = LANES * KBLOCK * 2 // WORD_BYTES  # of a group of rows and a block
STARTING = 20  # cycles a further contraction is worth, for what the golden machine takes as well
FILLING = costs.START + costs.READ + 10  # cycles of a fill beside its words; it checks them first
NEGLIGIBLE = 0.003  # part of a stage's time that is not worth more instructions
INSTANCE = 16  # cycles an instance costs beside its work
PASSES = 4  # of the vector core over a tile: what an epilogue takes, more or less


@dataclass(frozen=True, slots=True)
class Contraction:
    """What of a tile decides its cost."""

    tile: Tile
    rows: int  # groups of 4
    cols: int
    blocks: int
    sweeps: int  # times K goes into it
    windowed: bool  # the vector core computes with it
    views: tuple[View, View]  # of the first contraction into it


def contractions(stage: Stage, operands: Mapping[Buffer, Operand], env: Env) -> list[Contraction]:
    """Return every tile of a stage that something is contracted into."""
    result: list[Contraction] = []
    body = list(statements(stage.grid.body))
    windowed = {
        tile
        for s in body
        if isinstance(s, Store) and s.value.op != "tile"
        for tile in tiles_of(s.value)
    }
    for declaration in body:
        if not isinstance(declaration, TileDecl):
            continue
        tile = declaration.tile
        first = next((s for s in body if isinstance(s, Accumulate) and s.tile is tile), None)
        if first is None:
            continue
        lhs, rhs = (operands[view.buffer] for view in first.views)
        groups = max(1, -(-lhs.rows // LANES)), max(1, -(-rhs.rows // LANES))
        sweeps = tile.sweeps * len(MODES[tile.precision])
        views = first.views[0], first.views[1]  # no value: that makes a stage fused
        blocks = blocks_of(lhs)
        result.append(Contraction(tile, *groups, blocks, sweeps, tile in windowed, views))
    return result


def candidates(extent: int, columns: bool) -> list[int]:
    """Return sizes that cut ``extent`` groups evenly; several tiles across start whole words."""
    result: list[int] = []
    for size in SIZES:
        even = -(-extent // -(-extent // size))
        if columns and even < extent:
            even = -(-even // WORD_GROUPS) * WORD_GROUPS
        result.append(min(even, extent))
    return result


@dataclass(frozen=True, slots=True)
class Division:
    """How the instances of a stage come to clusters.

    ``instances`` are those of the busiest, ``landing`` the cycles that a word takes there; ``axis``
    is what clusters that fetch in common share out, of the axes ``batch`` and then the grid's,
    ``None`` if each fetches for itself.
    """

    instances: int
    ports: Ports
    landing: int
    axis: int | None
    stage: Stage
    batch: Batch

    def words(self, c: Contraction, a: float, b: float) -> float:
        """Return the cycles that ``a`` groups and ``b`` groups of a chunk take to arrive."""
        own = common = 0.0
        for view, groups in zip(c.views, (a, b), strict=True):
            if self._is_common(view):
                common += groups
            else:
                own += groups
        return GROUP_WORDS * max(self.ports.words(own, common), self.landing * (own + common))

    def _is_common(self, view: View) -> bool:
        axes = len(self.batch.counts)
        if self.axis is None:
            return False
        if self.axis < axes:
            return self.batch.operands[view.buffer].batch_strides[self.axis] == 0
        return self.stage.indices[self.axis - axes].symbol not in row_index(view).symbols()


def divide(stage: Stage, batch: Batch, env: Env, machine: Machine) -> Division:
    """Return who has what of a stage."""
    counts = (*batch.counts, *(_count(stage, n, env) for n in range(len(stage.indices))))
    nodes = [cluster.id for cluster, _ in machine.pairs]
    landing = costs.landing(machine)
    if not counts or 0 in counts:
        ports = ports_of(multicasts(nodes[:1], [1], machine), machine)
        return Division(1, ports, landing, None, stage, batch)
    split = split_axis(counts, len(nodes))
    lengths = [length for _, length in shares(counts[split], len(nodes))]
    groups = multicasts(nodes[: len(lengths)], lengths, machine)
    axis = split if any(group.receivers for group in groups) else None
    instances = prod(counts) // counts[split] * max(lengths)
    return Division(instances, ports_of(groups, machine), landing, axis, stage, batch)


def _count(stage: Stage, axis: int, env: Env) -> int:
    count = stage.indices[axis].count
    return count.evaluate(env) if count.symbols() <= env.keys() else 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Estimated cycles of a stage, with the blocks of a chunk that go with them."""

    cycles: float
    nk: int


def timing(
    division: Division, tiles: Sequence[Contraction], env: Env, machine: Machine
) -> Timing | None:
    """Return the estimate for a stage, ``None`` if the tiles do not fit."""
    sizes = [(c.tile.gm.evaluate(env), c.tile.gn.evaluate(env)) for c in tiles]
    sub_tiles = sum(gm * gn for gm, gn in sizes)
    words = sum(
        LANES * gm * -(-LANES * gn * 2 // WORD_BYTES)
        for c, (gm, gn) in zip(tiles, sizes, strict=True)
        if c.windowed
    )
    largest = max(max(pair) for pair in sizes)
    if 2 * sub_tiles > machine.acc_subtiles or 4 * words > machine.vl1_words:
        return None
    if largest > min(COUNT_MAX, machine.l1_entries // 2):
        return None
    return chunked(division, tiles, sizes, machine)


def chunked(
    division: Division,
    tiles: Sequence[Contraction],
    sizes: Sequence[tuple[int, int]],
    machine: Machine,
) -> Timing:
    """Return the estimate for tiles of some sizes, with the left operand streaming or resident."""
    fits = all(
        2 * gm * c.blocks <= machine.l1_entries for c, (gm, _) in zip(tiles, sizes, strict=True)
    )
    ways = (False, True) if fits else (False,)
    trials = [_chunked(division, tiles, sizes, machine, resident) for resident in ways]
    return min(trials, key=lambda trial: trial.cycles)


def _chunked(
    division: Division,
    tiles: Sequence[Contraction],
    sizes: Sequence[tuple[int, int]],
    machine: Machine,
    resident: bool,
) -> Timing:
    """Return the estimate with the longest chunks that cost about as little as any.

    The first chunk of all is filled before anything can be contracted; after that each chunk costs
    a contraction more to start.
    """
    blocks = max(c.blocks for c in tiles)
    longest = max(1, min(COUNT_MAX, machine.l1_entries // (2 * max(map(max, sizes)))))
    both = list(zip(tiles, sizes, strict=True))
    gemm = sum(c.sweeps * costs.gemm(machine, gm, gn, c.blocks).cycles for c, (gm, gn) in both)
    sweeps, drain, last = sum(c.sweeps for c in tiles), 0.0, 0.0
    for c, (gm, gn) in both:
        once = costs.drain(machine, gm, gn, 2, gm * gn, "memory").cycles
        drain += once if c.windowed else once * division.ports.busiest
        if c.windowed:
            last += PASSES * gm * gn * LANES * LANES / machine.lanes
            last += once * division.ports.busiest  # to memory

    def cycles(chunks: int) -> float:
        nk = -(-blocks // chunks)
        fill, first = sweeps * chunks * FILLING * (1 if resident else len(SIDES)), 0.0
        for c, (gm, gn) in both:
            across = max(1, -(-c.cols // gn)) if resident else 1
            fill += c.sweeps * c.blocks * division.words(c, gm / across, gn)
            held = c.blocks if resident else min(nk, c.blocks)
            first = max(first, division.words(c, gm * held, gn * min(nk, c.blocks)))
        swept = gemm + sweeps * chunks * STARTING
        return division.instances * (max(swept, fill, drain) + INSTANCE) + first + drain + last

    fewest = -(-blocks // longest)
    found = {chunks: cycles(chunks) for chunks in range(fewest, max(fewest, blocks) + 1)}
    enough = min(found.values()) + NEGLIGIBLE * division.instances * gemm
    chunks = next(chunks for chunks, least in found.items() if least <= enough)
    return Timing(found[chunks], -(-blocks // chunks))
