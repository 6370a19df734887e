"""Tiles and regions against the machine's accumulator and L1s."""

from __future__ import annotations

from compiler.analysis.instances import Env
from compiler.analysis.sites import is_fused, sites
from compiler.analysis.twins import twins
from kohakuaccel.errors import CapacityError
from kohakuaccel.ir.nodes import Grid, Trace
from kohakutpu.config import Machine
from kohakutpu.lang.ir import Tile, TileDecl


def check_capacity(trace: Trace, env: Env, machine: Machine) -> None:
    """Check that the tiles of every grid fit the accumulator, and one region of each fits an L1.

    Raises
    ------
    CapacityError
        If they do not; the notes list who uses what, the fix names sizes that fit.
    """
    grids: dict[int, tuple[Grid, list[Tile]]] = {}
    for site in sites(trace):
        if isinstance(site.statement, TileDecl):
            grids.setdefault(id(site.grid), (site.grid, []))[1].append(site.statement.tile)
    for grid, tiles in grids.values():
        shared = twins(grid.body, env) if is_fused(grid) else {}
        _check_accumulator([t for t in tiles if shared.get(t, t) is t], env, machine)
        for tile in tiles:
            _check_regions(tile, env, machine)


def _check_accumulator(tiles: list[Tile], env: Env, machine: Machine) -> None:
    sizes = [_sizes(tile, env) for tile in tiles]
    used = sum(gm * gn for gm, gn, _ in sizes)
    if used <= machine.acc_subtiles:
        return
    tile, (gm, gn, _) = tiles[-1], sizes[-1]
    rest = machine.acc_subtiles - (used - gm * gn)
    fix = "make the other tiles smaller, or split the work into two stages"
    if rest >= 1:
        low = min(gm, rest)
        fix = f"gm = {low}, gn = {rest // low} would fit, as would any gm * gn up to {rest}"
    raise CapacityError(
        f"tile `{tile.name}` of gm * gn = {gm} * {gn} = {gm * gn} sub-tiles does not fit: the "
        f"accumulator of machine `{machine.name}` holds {machine.acc_subtiles}",
        loc=tile.loc,
        fix=fix,
        notes=[
            (t.loc, f"`{t.name}`: {a} * {b} = {a * b} sub-tiles")
            for t, (a, b, _) in zip(tiles, sizes, strict=True)
            if t is not tile
        ],
    )


def _check_regions(tile: Tile, env: Env, machine: Machine) -> None:
    gm, gn, nk = _sizes(tile, env)
    for side, knob, groups in (("A", "gm", gm), ("B", "gn", gn)):
        if groups * nk > machine.l1_entries:
            fits = machine.l1_entries // groups
            fix = f"nk = {fits} would fit" if fits else f"{knob} = {machine.l1_entries} would fit"
            raise CapacityError(
                f"a region of {knob} * nk = {groups} * {nk} = {groups * nk} entries does not fit: "
                f"L1{side} of machine `{machine.name}` holds {machine.l1_entries}",
                loc=tile.loc,
                fix=f"{fix}; half of it leaves room to fill the next while one is swept",
            )


def _sizes(tile: Tile, env: Env) -> tuple[int, int, int]:
    return tile.gm.evaluate(env), tile.gn.evaluate(env), tile.nk.evaluate(env)
