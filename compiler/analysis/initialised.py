"""What a stage reads from a temporary or a result, an earlier stage has written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compiler.analysis.instances import Env, Integers
from compiler.analysis.regions import Region, count_hits, is_full, region, stored
from compiler.analysis.sites import Site, index_symbols
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Buffer, Repeat, Store, View
from kohakutpu.lang.layout import rows_and_width

Pass = dict[Symbol, int]


def check_initialised(sites: list[Site], env: Env) -> None:
    """Check that whatever is read has been written, in every pass of the loops around stages.

    Raises
    ------
    KernelError
        If some element may be read before it is written.
    """
    writes: dict[Buffer, list[Site]] = {}
    for site in sites:
        if site.written is not None:
            writes.setdefault(site.written, []).append(site)
    for site in sites:
        for view in site.reads:
            if view.buffer.role in ("out", "temp"):
                stores = writes.get(view.buffer, [])
                if not any(_settles(store, site, env) for store in stores):
                    _check_read(site, view, stores, env)


def _settles(store: Site, read: Site, env: Env) -> bool:
    """Return whether ``store`` writes all of its buffer before ``read`` runs for the first time."""
    if store.order >= read.order:
        return False
    skipped = any(loop not in read.outer and not _runs(loop, env) for loop in store.outer)
    assert isinstance(store.statement, Store)
    return not skipped and is_full(store.without_outer(), store.statement.view, env)


def _runs(loop: Repeat, env: Env) -> bool:
    return not index_symbols(loop.index.count) and loop.index.count.evaluate(env) > 0


def _check_read(site: Site, view: View, stores: list[Site], env: Env) -> None:
    rows, width = (extent.evaluate(env) for extent in rows_and_width(view.buffer))
    everything = [stored(store, env) for store in stores]
    for now in _passes(site, env):
        inside = {**env, **now}
        read = region(site.without_outer(), view, inside)
        written = [_before(done, site, now, env) for done in everything]
        cells = count_hits(written, rows, width, also=[read])
        wanted = count_hits([read], rows, width, also=written)
        missing = (wanted.hits > 0) & (cells.hits < 1)
        if missing.any():
            when = ", ".join(f"{symbol} = {value}" for symbol, value in now.items())
            when = f" at {when}" if when else ""
            raise KernelError(
                f"{cells.describe(missing)} of `{view.buffer.name}` would be read here{when}, "
                "but nothing has been written there",
                loc=view.loc,
                fix="write all that is read in the stages before this one",
                notes=[(store.statement.loc, "it is written here") for store in stores],
            )


def _passes(site: Site, env: Env) -> Iterator[Pass]:
    """Yield the indices of the loops around a stage, once for each pass through it."""

    def deeper(loops: tuple[Repeat, ...], now: Pass) -> Iterator[Pass]:
        if not loops:
            yield now
            return
        index = loops[0].index
        for value in range(index.count.evaluate({**env, **now})):
            yield from deeper(loops[1:], {**now, index.symbol: value})

    return deeper(site.outer, {})


def _before(done: Region, read: Site, now: Pass, env: Env) -> Region:
    """Return the part of a region that is written before the pass ``now`` reaches ``read``."""
    store = done.site
    shared = [loop.index.symbol for loop in store.outer if loop in read.outer]
    length = done.instances.length
    earlier = np.zeros(length, bool)
    same = np.ones(length, bool)
    for symbol in shared:
        values: Integers = done.instances.values.get(symbol, np.zeros(length, np.int64))
        earlier |= same & (values < now[symbol])
        same &= values == now[symbol]
    keep = earlier | (same if store.order < read.order else np.zeros(length, bool))
    kept = keep[done.owner]
    return Region(store, done.view, done.instances, done.rectangles[kept], done.owner[kept])
