"""Tiles: each is filled and stored where its rows and columns belong."""

from __future__ import annotations

from typing import NoReturn

from compiler.analysis.contraction import (
    accumulates,
    contraction_of,
    differ,
    known,
    loop_loc,
    since_birth,
)
from compiler.analysis.sites import Site, index_symbols
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Store, View
from kohakutpu.lang.ir import (
    Accumulate,
    Computed,
    Tile,
    TileDecl,
    k_extent,
    k_index,
    loads,
    row_index,
    tiles_of,
    values_of,
)


def check_tiles(sites: list[Site]) -> None:
    """Check what needs no numbers: every tile is filled and stored, its operands fit together.

    Raises
    ------
    KernelError
        If a tile is never contracted into or never stored, the operands of a contraction do not
        share K, or a store swaps rows and columns.
    """
    filled = accumulates(sites)
    read: set[int] = set()
    for site in sites:
        tiles = [tile for value in values_of(site.statement) for tile in tiles_of(value)]
        read |= {id(tile) for tile in tiles}
        if tiles and not site.fused:
            _check_same_tile(tiles, site)
            _check_places(site, tiles[0])
    for site in sites:
        if isinstance(site.statement, TileDecl):
            tile = site.statement.tile
            if id(tile) not in filled:
                fix = f"sweep over K: `{tile.name} += a[i, k] @ b[j, k]`"
                _refuse_unused(tile, "nothing is contracted into it", fix)
            if id(tile) not in read:
                fix = f"store it after the sweep, as in `c[i, j] <<= {tile.name}`"
                _refuse_unused(tile, "it is never stored", fix)
    for group in filled.values():
        for site in group:
            _check_operands(site, group[0])


def _refuse_unused(tile: Tile, what: str, fix: str) -> NoReturn:
    raise KernelError(
        f"tile `{tile.name}` does nothing: {what}", loc=tile.loc, fix=f"{fix}, or remove the tile"
    )


def _check_same_tile(tiles: list[Tile], site: Site) -> None:
    first = tiles[0]
    for tile in tiles[1:]:
        for name in ("gm", "gn", "row", "col"):
            a, b = getattr(first, name), getattr(tile, name)
            if a != b:
                raise KernelError(
                    f"tiles `{first.name}` and `{tile.name}` meet in one value, but they differ "
                    f"in {name}: {a} and {b}",
                    loc=site.statement.loc,
                    fix="make both with the same gm and gn, from the same row and column tiles",
                    notes=[(t.loc, f"`{t.name}` is made here") for t in (first, tile)],
                )


def _check_places(site: Site, tile: Tile) -> None:
    """Check that rows of views follow the left operand's rows and columns the right one's."""
    assert isinstance(site.statement, Store)
    rows, columns = index_symbols(known(tile.row)), index_symbols(known(tile.col))
    only_rows, only_columns = rows - columns, columns - rows
    for view in [site.statement.view, *loads(site.statement.value)]:
        if view.kind == "tile":
            wrong = index_symbols(view.index[0]) & only_columns
            wrong |= index_symbols(view.index[1]) & only_rows
        elif view.kind == "channel_tile":
            wrong = index_symbols(view.index[0]) & only_rows
        elif view.kind == "column":
            wrong = index_symbols(view.index[0]) & (
                only_rows if _is_of_columns(view, tile) else only_columns
            )
        else:
            continue
        if wrong:
            one = tile.col if _is_of_columns(view, tile) else tile.row
            sides = {"channel_tile": (tile.col,), "column": (one,)}
            right = [str(side) for side in sides.get(view.kind, (tile.row, tile.col))]
            raise KernelError(
                f"`{view}` is indexed the wrong way round: rows of tile `{tile.name}` are "
                f"`{tile.row}` and its columns are `{tile.col}`",
                loc=view.loc,
                fix=f"write {view.buffer.name}[{', '.join(right)}]",
                notes=[(tile.loc, f"`{tile.name}` is made here")],
            )
        _check_symbols(view, tile)


def _is_of_columns(view: View, tile: Tile) -> bool:
    """Tell whether a buffer of one axis is as long as a tile's matrix is wide, and not as high."""
    extent = view.buffer.shape[0]
    return len(view.buffer.shape) == 1 and extent == tile.cols and extent != tile.rows


def _check_symbols(view: View, tile: Tile) -> None:
    rows = view.buffer.shape[0], tile.rows, "rows", view.index[0], tile.row
    columns = view.buffer.shape[-1], tile.cols, "columns", view.index[-1], tile.col
    pairs = {"tile": [columns, rows], "column": [rows]}.get(view.kind, [columns])
    for extent, expected, what, index, place in pairs:
        if expected is not None and index == place and differ(extent, expected):
            raise KernelError(
                f"`{view.buffer.name}` has {extent} {what}, but tile `{tile.name}` is cut from "
                f"{expected}",
                loc=view.loc,
                fix=f"declare `{view.buffer.name}` with {expected} {what}",
                notes=[(view.buffer.loc, f"`{view.buffer.name}` is declared here")],
            )


def _check_operands(site: Site, first: Site) -> None:
    statement = contraction_of(site)
    lhs, rhs, tile = statement.lhs, statement.rhs, statement.tile
    for side, operand in statement.computed:
        _check_turned(statement, operand, rhs if side == "A" else lhs)
    if isinstance(lhs, View) and isinstance(rhs, View):
        _check_chunks(site, lhs, rhs)
    for side, place, what in ((lhs, tile.row, "rows"), (rhs, tile.col, "columns")):
        # What values hold is compared once there are numbers.
        if isinstance(side, View) and row_index(side) != place:
            raise KernelError(
                f"`{side}` puts other {what} into tile `{tile.name}`: it holds {what} `{place}`",
                loc=side.loc,
                fix="use a tile of its own for every pair of row tiles",
                notes=[(first.statement.loc, "first contraction into the tile")],
            )
    _check_outside_loop(site)


def _check_turned(statement: Accumulate, value: Computed, other: View | Computed) -> None:
    """Check that a value has K along its columns: nothing turns it on its way to a cluster."""
    wanted = k_index(other)
    if value.chunk == wanted or value.row != wanted or not index_symbols(wanted):
        return
    name = "left" if value is statement.lhs else "right"
    raise KernelError(
        f"the {name} side of `{statement.lhs} @ {statement.rhs}` has K along its rows, block "
        f"`{value.row}` of {value.rows}, and {value.extent} columns: `@` contracts columns, and "
        "what a vector core sends is not transposed on its way",
        loc=statement.loc,
        fix="store the value into an L.temp(...) in a stage of its own and contract windows of "
        f"that, `t[{value.row}]`, which a fill from memory transposes; a factor of one element a "
        "row of it may go to the other side",
    )


def _check_chunks(site: Site, lhs: View, rhs: View) -> None:
    """Check that both operands are the same chunk of the same K."""
    statement, chunk = site.statement, k_index(lhs)
    if chunk != k_index(rhs):
        place = "" if rhs.kind == "transposed" else f"{rhs.index[0]}, "
        raise KernelError(
            f"`{lhs} @ {rhs}` multiplies K chunk `{chunk}` of `{lhs.buffer.name}` with "
            f"chunk `{k_index(rhs)}` of `{rhs.buffer.name}`",
            loc=statement.loc,
            fix=f"use one index for both, as in {lhs} @ {rhs.buffer.name}[{place}{chunk}]",
        )
    if differ(k_extent(lhs), k_extent(rhs)):
        raise KernelError(
            f"`{lhs.buffer.name}` has {k_extent(lhs)} along K, but `{rhs.buffer.name}` has "
            f"{k_extent(rhs)}",
            loc=statement.loc,
            fix="contract the last axes of both, declared with the same dimension",
            notes=[(v.buffer.loc, f"`{v.buffer.name}` is declared here") for v in (lhs, rhs)],
        )
    counted = lhs.tilings[1]
    if counted is None or counted.kind != "chunks32":
        return
    if differ(counted.buffer.shape[1], k_extent(lhs)):
        raise KernelError(
            f"`{chunk}` counts the chunks of `{counted.buffer.name}`, which has "
            f"{counted.buffer.shape[1]} along K; the operands have {k_extent(lhs)}",
            loc=loop_loc(site, chunk),
            fix=f"sweep over {lhs.buffer.name}.chunks32({counted.size})",
            notes=[(statement.loc, "the contraction")],
        )


def _check_outside_loop(site: Site) -> None:
    """Check that loops inside the grid reach K, not the rows or columns of the operands."""
    statement = contraction_of(site)
    birth = statement.tile.loc
    for side in (statement.lhs, statement.rhs):
        for symbol in index_symbols(row_index(side)):
            for loop in since_birth(site):
                if loop.index.symbol is symbol:
                    raise KernelError(
                        f"`{side}` changes its rows inside the sweep over `{symbol}` of tile "
                        f"`{statement.tile.name}`",
                        loc=side.loc,
                        fix="make the tile inside that loop, and sweep K in a loop of its own",
                        notes=[(birth, "the tile is made here")],
                    )
