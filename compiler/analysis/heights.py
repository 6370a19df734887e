"""How many rows the values of a fused grid have: most have those of its block.

An operand on the right of ``@`` has the columns of its tile as rows, and arithmetic on a tile has
the tile's.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.analysis.sites import block_of, inside
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Grid, Statement
from kohakutpu.config import LANES
from kohakutpu.lang.ir import Accumulate, Send, Side, Tile, TileDecl, tiles_of, values_of

Env = Mapping[Symbol, int]


def height_of_grid(grid: Grid, env: Env) -> int:
    """Return the rows of an instance, which are those of its states."""
    block = block_of(grid, "rows").evaluate(env)
    by_rows = any(i.tiling is not None and i.tiling.kind == "rows" for i in grid.indices)
    for statement in inside(grid.body):
        if isinstance(statement, TileDecl):
            groups = -(-block // LANES) if by_rows else statement.tile.gm.evaluate(env)
            return LANES * groups
    return block


def height_of_operand(tile: Tile, side: Side, env: Env) -> int:
    """Return the rows of a computed operand of a tile."""
    return LANES * (tile.gm if side == "A" else tile.gn).evaluate(env)


def height_of(statement: Statement, env: Env, otherwise: int) -> int:
    """Return the rows of what a statement computes; ``otherwise`` are those of its grid."""
    if isinstance(statement, Send):
        return height_of_operand(statement.tile, statement.side, env)
    if not isinstance(statement, Accumulate):
        for tile in (tile for value in values_of(statement) for tile in tiles_of(value)):
            return height_of_operand(tile, "A", env)
    return otherwise
