"""Where values of several shapes meet: operands of one operation cover the same elements.

A grid that carries state or contracts computed values holds tiles, rows and states of shapes of
their own. Each operation in it, each store and each contraction takes operands of one shape.
"""

from __future__ import annotations

import numpy as np

from compiler.analysis.contraction import known
from compiler.analysis.heights import height_of, height_of_grid, height_of_operand
from compiler.analysis.instances import Env, Integers, enumerate_instances
from compiler.analysis.sites import Site, index_symbols, inside
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Const
from kohakuaccel.ir.nodes import Store, Value
from kohakuaccel.lang.tracing import indices_of
from kohakuaccel.source import Location
from kohakutpu.config import KBLOCK, LANES
from kohakutpu.lang.frames import REDUCTIONS, Cut, Frame, frame, frames, view_frame
from kohakutpu.lang.ir import (
    Accumulate,
    Assign,
    Side,
    k_extent,
    k_index,
    value_of,
    values_of,
    walk,
)

Part = tuple[str, Cut | None]
"""What to call something, and which part of an axis it covers."""


def check_frames(sites: list[Site], env: Env) -> None:
    """Check with numbers that operands of every operation of a fused grid cover the same elements.

    Raises
    ------
    KernelError
        If two do not, or a row function runs on part of a row that crosses instances.
    """
    for site in sites:
        if not site.fused:
            continue
        if isinstance(site.statement, Accumulate):
            for side, operand in site.statement.computed:
                targets = _targets_of_operand(site.statement, side)
                _check_value(operand.value, targets, site.statement.loc, site, env)
        for value in values_of(site.statement):
            _check_height(value, site, env)
        value = value_of(site.statement)
        if value is not None:
            _check_value(value, _targets(site), site.statement.loc, site, env)
            if isinstance(site.statement, Store) and frame(value).rows is None:
                _check_rows_of_states(site.statement, site, env)


def _check_value(
    value: Value, targets: list[tuple[str, Part]], loc: Location, site: Site, env: Env
) -> None:
    """Check the operations of a value, and that it covers what it goes into, by axis."""
    found = frames(value)
    _check_ambiguous(value, env)
    for node in walk(value):
        for axis in ("rows", "columns"):
            parts = [(_name(arg), _part(found[arg], axis)) for arg in node.args]
            _check_same(parts, axis, node.loc, site, env)
        if node.op in REDUCTIONS:
            _check_whole_row(node, found[node.args[0]], site, env)
    for axis, target in targets:
        _check_same([target, (_name(value), _part(found[value], axis))], axis, loc, site, env)


def _targets(site: Site) -> list[tuple[str, Part]]:
    """Return what the value of a store or an assignment goes into, by axis."""
    statement = site.statement
    if isinstance(statement, Store):
        target = view_frame(statement.view)
        name = f"`{statement.view}`"
        return [("rows", (name, target.rows)), ("columns", (name, target.cols))]
    assert isinstance(statement, Assign)
    width = statement.state.width
    cut = None if width is None else Cut(width, width, Const(0))
    return [("columns", (f"state `{statement.state}`", cut))]


def _targets_of_operand(statement: Accumulate, side: Side) -> list[tuple[str, Part]]:
    """Return what an operand has to cover: rows or columns of the tile, and K as the other has."""
    tile = statement.tile
    if side == "A":
        what, other = "tile", statement.rhs
        rows = Cut(known(tile.rows), tile.gm * LANES, known(tile.row))
    else:
        what, other = "columns of tile", statement.lhs
        rows = Cut(known(tile.cols), tile.gn * LANES, known(tile.col))
    chunk = Cut(k_extent(other), tile.nk * KBLOCK, k_index(other))
    return [("rows", (f"{what} `{tile.name}`", rows)), ("columns", (f"K of `{other}`", chunk))]


def _check_height(value: Value, site: Site, env: Env) -> None:
    """Check that states are used with values that have the rows of the grid, as states do."""
    state = next((node.state for node in walk(value) if node.state is not None), None)
    own = height_of_grid(site.grid, env)
    height = own
    if isinstance(site.statement, Accumulate):
        for side, operand in site.statement.computed:
            if operand.value is value:
                height = height_of_operand(site.statement.tile, side, env)
    else:
        height = height_of(site.statement, env, own)
    if state is None or height == own:
        return
    raise KernelError(
        f"state `{state.state}` has {own} rows, those of the grid's block, but here it meets a "
        f"value of {height} rows",
        loc=site.statement.loc,
        fix="use states with the rows of the grid alone: on the left of `@`, or on the tile",
        notes=[(state.state.loc, f"`{state.state}` is made here")],
    )


def _check_rows_of_states(store: Store, site: Site, env: Env) -> None:
    """Check that states, which have the rows of what they were given, go into as many rows."""
    target = view_frame(store.view).rows
    if target is None or target.index is None:
        return
    within = {index.symbol for index in site.indices}
    stored = {node.state.state for node in walk(store.value) if node.state is not None}
    for given in inside(site.grid.body):
        if not isinstance(given, Assign) or given.state not in stored:
            continue
        own = frames(given.value)[given.value].rows
        if own is None or own.index is None or not index_symbols(own.index) <= within:
            continue
        instances = enumerate_instances(site, env, (target.index, own.index))
        theirs = np.diff(_elements(target, instances.evaluate(target.index, env), env), axis=0)[0]
        mine = np.diff(_elements(own, instances.evaluate(own.index, env), env), axis=0)[0]
        if (mine == theirs).all():
            continue
        at = int(np.argmax(mine != theirs))
        where = f" at {instances.name(at)}" if instances.name(at) else ""
        raise KernelError(
            f"state `{given.state}` has {mine[at]} rows and `{store.view}` {theirs[at]}{where}: "
            "they do not match",
            loc=store.loc,
            fix="store into a buffer of as many rows as the grid counts",
            notes=[(given.loc, f"`{given.state}` gets its rows here")],
        )


def _part(frame: Frame, axis: str) -> Cut | None:
    return frame.rows if axis == "rows" else frame.cols


def _name(node: Value) -> str:
    if node.view is not None:
        return f"`{node.view}`"
    if node.tile is not None:
        return f"tile `{node.tile.name}`"
    if node.state is not None:
        return f"state `{node.state}`"
    return "the value" if not node.loc.source else f"`{node.loc.source}`"


def _check_same(parts: list[Part], axis: str, loc: Location, site: Site, env: Env) -> None:
    present = [(name, cut) for name, cut in parts if cut is not None]
    present.sort(key=lambda part: part[1].index is None)  # what has a place first
    for name, cut in present[1:]:
        _compare(*present[0], name, cut, axis, loc, site, env)


def _compare(
    name: str, cut: Cut, other: str, wanted: Cut, axis: str, loc: Location, site: Site, env: Env
) -> None:
    if cut == wanted:
        return
    if cut.index is None or wanted.index is None:
        sizes = cut.block.evaluate(env), wanted.block.evaluate(env)
        if sizes[0] != sizes[1]:
            raise KernelError(
                f"{name} has {sizes[0]} {axis} and {other} blocks of {sizes[1]}: they do not match",
                loc=loc,
                fix=f"make the table of {max(sizes)} {axis}, or cut windows of it by two indices",
            )
        return
    instances = enumerate_instances(site, env, (cut.index, wanted.index))
    mine = _elements(cut, instances.evaluate(cut.index, env), env)
    theirs = _elements(wanted, instances.evaluate(wanted.index, env), env)
    wrong = (mine != theirs).any(axis=0)
    if not wrong.any():
        return
    at = int(np.argmax(wrong))
    where = f" at {instances.name(at)}" if instances.name(at) else ""
    spans = [
        f"{axis} {int(first)} to {int(last) - 1}" for first, last in (mine[:, at], theirs[:, at])
    ]
    raise KernelError(
        f"{name} covers {spans[0]} and {other} {spans[1]}{where}: they do not match",
        loc=loc,
        fix="cut both by one tiling, of one size and by the same index"
        + ("" if axis == "rows" else "; K chunks beside a computed value hold multiples of 32"),
    )


def _elements(cut: Cut, index: Integers, env: Env) -> Integers:
    """Return the first element and the end of a cut, a column an instance."""
    extent, block = cut.extent.evaluate(env), cut.block.evaluate(env)  # of one with an index
    first = np.clip(index * block, 0, extent)
    return np.stack([first, np.clip(index * block + block, 0, extent)])


def _check_ambiguous(value: Value, env: Env) -> None:
    """Check that a scalar a row beside a tile cannot have been meant as an element a column."""
    nodes = walk(value)
    tiles = [node.tile for node in nodes if node.tile is not None]
    for node in nodes:
        view = node.view
        if view is None or view.kind != "column" or len(view.buffer.shape) != 1:
            continue
        name, extent = view.buffer.name, view.buffer.shape[0]
        for tile in tiles:
            rows, cols, place = known(tile.rows), known(tile.cols), view.index[0]
            if extent != rows and extent == cols:
                raise KernelError(
                    f"`{view}` is one scalar a row here, since the grid counts rows by "
                    f"`{place}`, but `{name}` has {extent} elements and tile `{tile.name}` {rows} "
                    f"rows and {cols} columns",
                    loc=view.loc,
                    fix=f"for one element a column, index it by a loop over blocks of {extent}; "
                    f"for one scalar a row, declare it {rows} long",
                    notes=[(view.buffer.loc, f"`{name}` is declared here")],
                )
            square = rows.evaluate(env) == cols.evaluate(env) and tile.row == tile.col == place
            if square and rows.evaluate(env) > 1:
                raise KernelError(
                    f"`{view}` may be one scalar a row or one element a column: tile "
                    f"`{tile.name}` is on the diagonal, where `{place}` counts both",
                    loc=view.loc,
                    fix=f"declare `{name}` with two axes, ({extent}, 1), for one scalar a row; for "
                    "one element a column reach the diagonal in a loop: "
                    f"`for j in sweep({place} + 1)`",
                    notes=[(tile.loc, f"`{tile.name}` is made here")],
                )


def _check_whole_row(node: Value, frame: Frame, site: Site, env: Env) -> None:
    cut = frame.cols
    if cut is None or cut.index is None:
        return
    extent, block = cut.extent.evaluate(env), cut.block.evaluate(env)
    own = {index.symbol for index in indices_of(site.grid)}
    carries = any(isinstance(s, Assign) for s in inside(site.grid.body))
    if block < extent and index_symbols(cut.index) & own and not carries:
        raise KernelError(
            f"{node.op} needs whole rows, but the value holds {block} of {extent} columns: a row "
            "crosses instances",
            loc=node.loc,
            fix="run over the columns in a loop inside the grid, and carry the result in an "
            "L.state(...)",
        )
