"""Results are written exactly once, everywhere; nothing is read before it is written."""

from __future__ import annotations

from itertools import groupby
from typing import NoReturn

from compiler.analysis.instances import Env
from compiler.analysis.regions import Cells, Region, count_hits, is_full, owners, stored
from compiler.analysis.sites import Site, axes, index_symbols
from kohakuaccel.errors import KernelError, Note
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Store, Trace, View
from kohakutpu.lang.layout import rows_and_width


def check_written(trace: Trace, sites: list[Site]) -> None:
    """Check, before any shape is known, that results are written and reads come after writes.

    Raises
    ------
    KernelError
        If a result is never written, or a buffer is read before its first write.
    """
    writes = _writes(sites)
    for buffer in trace.buffers:
        if buffer.role == "out" and buffer not in writes:
            raise KernelError(
                f"result `{buffer.name}` is never written",
                loc=buffer.loc,
                fix=f"store into it in a grid: `{buffer.name}[...] <<= ...`",
            )
    for site in sites:
        for view in site.reads:
            if view.buffer.role not in ("out", "temp"):
                continue
            before = [w for w in writes.get(view.buffer, ()) if w.order < site.order]
            if not before:
                later = writes.get(view.buffer, [])
                raise KernelError(
                    f"`{view.buffer.name}` is read before anything is written to it",
                    loc=view.loc,
                    fix=f"write all of `{view.buffer.name}` in an earlier stage",
                    notes=[(view.buffer.loc, f"`{view.buffer.name}` is made here")]
                    + [(w.statement.loc, "it is written only later, here") for w in later[:1]],
                )


def check_coverage(sites: list[Site], env: Env) -> None:
    """Check that every element of every result is written exactly once.

    Temporaries may be overwritten, by a later stage; within one stage no two instances may write
    the same element, and what is read has been written.

    Raises
    ------
    KernelError
        If there is a gap or an overlap.
    """
    writes = _writes(sites)
    for buffer, stores in writes.items():
        if buffer.role == "out":
            _check_once(buffer, stores, env)
        else:
            for _, group in groupby(stores, key=lambda site: id(site.grid)):
                _check_disjoint(buffer, list(group), env)


def _writes(sites: list[Site]) -> dict[Buffer, list[Site]]:
    writes: dict[Buffer, list[Site]] = {}
    for site in sites:
        if site.written is not None:
            writes.setdefault(site.written, []).append(site)
    return writes


def _check_once(buffer: Buffer, stores: list[Site], env: Env) -> None:
    if len(stores) == 1 and is_full(stores[0], _target(stores[0]), env):
        return
    regions, cells = _cells(buffer, stores, env)
    if (cells.hits > 1).any():
        _refuse_overlap(buffer, regions, cells, env)
    if (cells.hits < 1).any():
        _refuse_gap(buffer, stores, cells, env)


def _check_disjoint(buffer: Buffer, stores: list[Site], env: Env) -> None:
    """Check one stage's stores into a temporary, for every pass of the loops around the stage."""
    if len(stores) == 1 and is_full(stores[0].without_outer(), _target(stores[0]), env):
        return
    outer = {repeat.index.symbol for store in stores for repeat in store.outer}
    for values in _passes(stores[0], env):
        inside = {**env, **values}
        local = [store.without_outer() for store in stores]
        regions, cells = _cells(buffer, local, inside)
        if (cells.hits > 1).any():
            _refuse_overlap(buffer, regions, cells, inside)
        if not any(outer & index.symbols() for s in stores for index in _target(s).index):
            return


def _cells(buffer: Buffer, stores: list[Site], env: Env) -> tuple[list[Region], Cells]:
    rows, width = (extent.evaluate(env) for extent in rows_and_width(buffer))
    regions = [stored(site, env) for site in stores]
    return regions, count_hits(regions, rows, width)


def _passes(site: Site, env: Env) -> list[dict[Symbol, int]]:
    """Return the indices of the loops around a stage, once for each pass through it."""
    passes: list[dict[Symbol, int]] = [{}]
    for repeat in site.outer:
        symbol, count = repeat.index.symbol, repeat.index.count
        passes = [
            {**done, symbol: value}
            for done in passes
            for value in range(count.evaluate({**env, **done}))
        ]
    return passes


def _target(site: Site) -> View:
    assert isinstance(site.statement, Store)
    return site.statement.view


def _refuse_overlap(buffer: Buffer, regions: list[Region], cells: Cells, env: Env) -> NoReturn:
    mask = cells.hits > 1
    where = cells.describe(mask)
    found = owners(regions, *cells.corner(mask))
    region, place = found[-1]
    idle = region.instances.idle
    if idle:
        around = region.instances.name(place)
        name = idle[0].symbol
        who = f"{name} = 0 and {name} = 1" + (f" (both with {around})" if around else "")
        fix = f"index `{buffer.name}` by `{name}`, or take `{name}` out of the grid"
        if region.view.index and any(scope is not region.site.grid for scope in region.site.scopes):
            fix += ", or store after the loop"
    elif len(found) > 1 and found[0][0] is not region:
        who = f"this statement and the one at line {found[0][0].site.statement.loc.line}"
        fix = "let one statement write each element"
    else:
        who = " and ".join(r.instances.name(p) for r, p in found[-2:])
        fix = f"use an index of `{buffer.name}` that differs from instance to instance"
    notes: list[Note] = []
    if found[0][0] is not region:
        notes.append((found[0][0].site.statement.loc, "also written here"))
    notes.append((region.site.grid.loc, "instances come from here"))
    raise KernelError(
        f"{where} of `{buffer.name}` {_are(where)} written more than once: by {who}",
        loc=region.site.statement.loc,
        fix=fix,
        notes=notes,
    )


def _refuse_gap(buffer: Buffer, stores: list[Site], cells: Cells, env: Env) -> NoReturn:
    where = cells.describe(cells.hits < 1)
    shape = " x ".join(str(extent.evaluate(env)) for extent in rows_and_width(buffer))
    site = stores[-1]
    detail, loc = "", site.statement.loc
    for axis in axes(_target(site), site):
        for index in site.indices:
            runs, needed = index.count, axis.count.evaluate(env)
            if (
                index.symbol is axis.index
                and not index_symbols(runs)
                and runs.evaluate(env) < needed
            ):
                detail = f": `{index.symbol}` runs over {runs.evaluate(env)} of {needed}"
                loc = index.loc
    raise KernelError(
        f"{where} of `{buffer.name}` ({shape}) {_are(where)} never written{detail}",
        loc=loc,
        fix=f"let the grid cover all of `{buffer.name}`, for example by its own tiling, "
        f"`{buffer.name}.{_tiling_name(site)}(...)`",
        notes=[(s.statement.loc, f"`{buffer.name}` is written here") for s in stores],
    )


def _tiling_name(site: Site) -> str:
    kind = _target(site).kind
    return {"part": "parts", "rows": "rows", "column": "rows"}.get(kind, "tiles")


def _are(where: str) -> str:
    plural = where.startswith(("rows", "columns")) or "," in where
    return "are" if plural else "is"
