"""Views that meet in one value span the same elements; row functions see whole rows."""

from __future__ import annotations

import numpy as np

from compiler.analysis.contraction import differ, known
from compiler.analysis.instances import Env, Integers, enumerate_instances
from compiler.analysis.sites import Axis, Site, axes, width_of
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr
from kohakuaccel.ir.nodes import Store, Value, View
from kohakutpu.config import LANES
from kohakutpu.lang.ir import Tile, tiles_of, walk
from kohakutpu.lang.layout import rows_and_width, stored_elements

ROW_FUNCTIONS = frozenset(("row_sum", "row_max", "row_min"))


def check_shapes(sites: list[Site]) -> None:
    """Check what needs no numbers: extents in symbols, row functions, what a store can take.

    Raises
    ------
    KernelError
        If windows of one statement cannot match, a row function runs where there are no whole
        rows, or a value does not fit what it is stored into.
    """
    for site in sites:
        if not isinstance(site.statement, Store):
            continue
        store = site.statement
        _check_store(store)
        if store.view.kind == "tile" and not tiles_of(store.value) and not site.fused:
            raise KernelError(
                f"`{store.view}` is a window of an accumulator tile, but no tile is in the value",
                loc=store.loc,
                fix="do elementwise work in a grid over x.parts(n) or x.rows(n)",
            )
        for node in walk(store.value):
            if node.op in ROW_FUNCTIONS and store.view.kind == "part":
                raise KernelError(
                    f"{node.op} needs whole rows, and a part may begin and end within one",
                    loc=node.loc,
                    fix="split by x.rows(n) instead of x.parts(n)",
                    notes=[(site.grid.loc, "the grid")],
                )
        target = width_of(store.view)
        for view in site.reads if not site.fused else ():
            width = width_of(view)
            if width is not None and target is not None and differ(width, target):
                _refuse_width(view, store.view, str(width), str(target))


def check_geometry(sites: list[Site], env: Env) -> None:
    """Check with numbers what does not depend on an index: widths, and buffers cut into parts.

    Raises
    ------
    KernelError
        If two differ.
    """
    for site in sites:
        if not isinstance(site.statement, Store) or site.fused:
            continue
        target = site.statement.view
        for view in site.reads:
            if view.kind == "part":
                shapes = [tuple(e.evaluate(env) for e in _geometry(v)) for v in (view, target)]
                if shapes[0] != shapes[1]:
                    _refuse_geometry(view, target, shapes)
            width, wanted = width_of(view), width_of(target)
            if width is not None and wanted is not None:
                numbers = width.evaluate(env), wanted.evaluate(env)
                if numbers[0] != numbers[1]:
                    _refuse_width(view, target, *(str(n) for n in numbers))


def check_extents(sites: list[Site], env: Env) -> None:
    """Check with numbers that all windows of a statement hold the same elements.

    Raises
    ------
    KernelError
        If two differ, or a row function runs on a tile that does not hold whole rows.
    """
    for site in sites:
        if not isinstance(site.statement, Store) or site.fused:
            continue
        store = site.statement
        for view in site.reads:
            _check_against(view, store, site, env)
        for tile in tiles_of(store.value):
            _check_tile(tile, store, site, env)
        for node in walk(store.value):
            if node.op in ROW_FUNCTIONS:
                _check_whole_rows(node, store, env)


def _check_store(store: Store) -> None:
    kind, extent = store.view.kind, store.value.extent
    name = store.view.buffer.name
    if kind == "channel_tile":
        raise KernelError(
            f"`{store.view}` has columns only, but a tile has rows too",
            loc=store.loc,
            fix=f"declare `{name}` with two axes, or reduce in a stage over rows",
        )
    if kind == "column" and extent in ("full", "channel"):
        raise KernelError(
            f"`{store.view}` takes one scalar a row, but the value varies along the row",
            loc=store.loc,
            fix="reduce it with L.row_sum, L.row_max or L.row_min, or store it into a buffer of "
            "full rows",
            notes=[(store.view.buffer.loc, f"`{name}` is declared here")],
        )


def _check_against(view: View, store: Store, site: Site, env: Env) -> None:
    target = store.view
    matching = {axis.what: axis for axis in axes(target, site)}
    for axis in axes(view, site):
        if axis.what in matching:
            _compare(view, axis, target, matching[axis.what], site, env)


def _check_tile(tile: Tile, store: Store, site: Site, env: Env) -> None:
    own = {
        "rows": Axis("rows", known(tile.rows), tile.gm * LANES, known(tile.row), None),
        "columns": Axis("columns", known(tile.cols), tile.gn * LANES, known(tile.col), None),
    }
    for view in [store.view, *site.reads]:
        for axis in axes(view, site):
            if axis.what in own:
                _compare(view, axis, tile, own[axis.what], site, env)


def _compare(
    view: View, axis: Axis, other: View | Tile, wanted: Axis, site: Site, env: Env
) -> None:
    """Check that two axes hold equally many elements in every instance."""
    extents = axis.extent.evaluate(env), wanted.extent.evaluate(env)
    if axis.index == wanted.index and extents[0] == extents[1]:
        return
    instances = enumerate_instances(site, env, (axis.index, wanted.index))
    mine, theirs = (_valid(a, instances.evaluate(a.index, env), env) for a in (axis, wanted))
    wrong = mine != theirs
    if not wrong.any():
        return
    place = int(np.argmax(wrong))
    what = {"parts": "stored elements"}.get(axis.what, axis.what)
    where = f" at {instances.name(place)}" if instances.name(place) else ""
    name = f"tile `{other.name}`" if isinstance(other, Tile) else f"`{other}`"
    declared = view.buffer.name
    raise KernelError(
        f"`{view}` holds {mine[place]} {what}{where}, but {name} holds {theirs[place]}: "
        f"`{declared}` has {extents[0]} {what}, not {extents[1]}",
        loc=view.loc,
        fix=f"give `{declared}` the same extent, or index it alike",
        notes=[(view.buffer.loc, f"`{declared}` is declared here")],
    )


def _valid(axis: Axis, index: Integers, env: Env) -> Integers:
    block = axis.block.evaluate(env)
    return np.clip(axis.extent.evaluate(env) - index * block, 0, block)


def _check_whole_rows(node: Value, store: Store, env: Env) -> None:
    tiles = tiles_of(store.value)
    if not tiles:
        return
    tile = tiles[0]
    width, block = known(tile.cols).evaluate(env), (tile.gn * LANES).evaluate(env)
    if width > block:
        raise KernelError(
            f"{node.op} needs whole rows, but tile `{tile.name}` holds {block} of {width} columns: "
            "a row crosses instances",
            loc=node.loc,
            fix=f"use gn = {-(-width // LANES)} if that fits the accumulator, or store the tile "
            "into an L.temp(...) and reduce in a stage over its rows",
            notes=[(tile.loc, f"`{tile.name}` is made here")],
        )


def _geometry(view: View) -> tuple[Expr, Expr, Expr]:
    return (*rows_and_width(view.buffer), stored_elements(view.buffer))


def _refuse_geometry(view: View, target: View, shapes: list[tuple[int, ...]]) -> None:
    a, b = view.buffer, target.buffer
    if shapes[0][:2] == shapes[1][:2]:
        message = (
            f"`{a.name}` is {a.dtype} and `{b.name}` is {b.dtype}: "
            "their rows are padded differently"
        )
        fix = "split by x.rows(n) instead of x.parts(n)"
    else:
        message = (
            f"`{a.name}` has {shapes[0][0]} x {shapes[0][1]} elements, "
            f"but `{b.name}` has {shapes[1][0]} x {shapes[1][1]}"
        )
        fix = "parts run over whole buffers: use tensors of one shape, or split by x.rows(n)"
    raise KernelError(
        message,
        loc=view.loc,
        fix=fix,
        notes=[(buffer.loc, f"`{buffer.name}` is declared here") for buffer in (a, b)],
    )


def _refuse_width(view: View, target: View, found: str, wanted: str) -> None:
    raise KernelError(
        f"rows of `{view.buffer.name}` have {found} elements, "
        f"but rows of `{target.buffer.name}` have {wanted}",
        loc=view.loc,
        fix="use buffers of the same width in one statement; a (M, 1) buffer is one scalar a row",
        notes=[(v.buffer.loc, f"`{v.buffer.name}` is declared here") for v in (view, target)],
    )
