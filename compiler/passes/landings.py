"""Where the halves of a pair hand each other what they compute: the windows and their semaphores.

A tile lands in the L1 of the vector core, a computed operand in an operand memory of the cluster.
Who writes a window waits for a credit of the one that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.analysis.heights import height_of_operand
from compiler.cluster.operands import MODES
from compiler.passes.context import Shared, StageContext
from compiler.passes.stage import statements
from compiler.program import Ring
from compiler.vector import Allocator, Landing, Placement, TileWindow, VectorLowering
from compiler.vector.context import Keep
from compiler.vector.emit import VDRAIN, sync
from kohakutpu.config import LANES, WORD_BYTES
from kohakutpu.lang.ir import SIDES, Computed, Send, Side, Tile, tiles_of, values_of


def tile_credits(context: StageContext, credits: Allocator) -> dict[Tile, int]:
    """Return the credit of every tile that the vector core computes with, twins having one."""
    values = [value for s in statements(context.vector_body) for value in values_of(s)]
    result: dict[Tile, int] = {}
    numbers: dict[Tile, int] = {}
    for tile in dict.fromkeys(tile for value in values for tile in tiles_of(value)):
        first = context.twins[tile]
        if first not in numbers:
            numbers[first] = credits.allocate(f"tile {tile.name} credit")
        result[tile] = numbers[first]
    return result


def place_tiles(
    context: StageContext,
    shared: Shared,
    cluster: int,
    credits: Mapping[Tile, int],
    full: Allocator,
    l1: Allocator,
    slots: int,
) -> list[Placement]:
    """Give every tile a ring of ``slots`` windows in the vector core's L1.

    Raises
    ------
    CapacityError
        If they do not fit, or semaphores do not suffice.
    """
    env, windows = context.stage.env, shared.windows
    windows.clear()  # of a try that did not fit
    placements: list[Placement] = []
    for tile, credit in credits.items():
        rows, cols = LANES * tile.gm.evaluate(env), LANES * tile.gn.evaluate(env)
        stride = -(-cols * 2 // WORD_BYTES)
        assert tile.cols is not None
        width, first = tile.cols.evaluate(env), windows.get(context.twins[tile])
        if first is not None:
            windows[tile] = replace(first, tile=tile, width=width)
            continue
        size = rows * stride
        base = l1.allocate(f"tile {tile.name}", size * slots, tile.loc)
        ring = Ring(f"tile {tile.name}", base, size, slots)
        landed = full.allocate(f"tile {tile.name} full")
        windows[tile] = TileWindow(tile, rows, cols, ring, stride, landed, (cluster, credit), width)
        placements.append(Placement(tile.name, "tile", "L1", base, size, slots, tile.loc))
    return placements


def place_operands(
    context: StageContext,
    cluster: int,
    full: Allocator,
    empty: Allocator,
    l1: Mapping[Side, Allocator],
    kept: Mapping[Computed, Keep],
) -> Shared:
    """Give every computed operand a ring of regions in the memory of its side.

    Raises
    ------
    CapacityError
        If they do not fit, or semaphores do not suffice.
    """
    env, shared = context.stage.env, Shared()
    made: dict[tuple[Tile, Side], Landing] = {}
    for send in statements(context.vector_body):
        if not isinstance(send, Send):
            continue
        tile, side, entries = send.tile, send.side, l1[send.side]
        known = made.get((context.twins[tile], side))
        if known is not None and context.twins[tile] is not tile:
            shared.landings[send.operand] = known
            continue
        groups = height_of_operand(tile, side, env) // LANES
        blocks = tile.nk.evaluate(env)
        modes = tuple(dict.fromkeys(pair[SIDES.index(side)] for pair in MODES[tile.precision]))
        size, place = groups * blocks, groups * blocks * len(modes)
        slots = context.places.tiles if 4 * place <= entries.limit else 1
        keep = kept.get(send.operand)
        if keep is not None:
            size, place, slots = keep.size, keep.size * len(modes), keep.slots
            blocks = keep.blocks
        name = f"the operand of {tile.name}" + (" on the right" if side == "B" else "")
        fix = "use fewer rows or fewer columns in a block"
        base = entries.allocate(name, slots * place, send.loc, fix)
        ring = Ring(f"operand {side} of {tile.name}", base, place, slots)
        arrived = cluster, full.allocate(f"{name} full")
        free = empty.allocate(f"{name} empty")
        landing = Landing(cluster, side, ring, blocks, size, modes, arrived, free, keep)
        shared.landings[send.operand] = made[tile, side] = landing
        role = "operand" if keep is None else "computed once"
        shared.placements.append(
            Placement(tile.name, role, f"L1{side}", base, place, slots, send.loc)
        )
    return shared


def credit(landing: Landing, node: int, lowering: VectorLowering) -> None:
    """Let a vector core start with credits for the places of a landing, and end with them."""
    slots, empty = landing.ring.slots, landing.empty
    lowering.prologue += sync(VDRAIN, (), [(node, empty)] * slots)
    lowering.epilogue += sync(VDRAIN, [(empty, slots)])
