"""Knobs that the kernel and the caller left open: the compiler chooses sizes, and nothing else."""

from __future__ import annotations

from compiler.analysis.bounds import views
from compiler.analysis.sites import Site
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.lang.tracing import indices_of
from kohakuaccel.source import Location


def check_knobs(sites: list[Site]) -> None:
    """Check that an open knob is the size of a tile, part or block wherever it occurs.

    Raises
    ------
    KernelError
        If it counts iterations or selects a window, and so would change the result.
    """
    sizes: set[Symbol] = set()
    uses: list[tuple[Expr, Location]] = []
    for site in sites:
        if site.tile is not None:
            for size in (site.tile.gm, site.tile.gn, site.tile.nk):
                sizes |= size.symbols()
        for scope in site.scopes:
            for index in indices_of(scope):
                uses.append((index.count, scope.loc))
                if index.tiling is not None:
                    sizes |= index.tiling.size.symbols()
        for view in views(site):
            uses += [(index, view.loc) for index in view.index]
            for tiling in view.tilings:
                if tiling is not None:
                    sizes |= tiling.size.symbols()
    for expr, loc in uses:
        for symbol in sorted(expr.symbols(), key=str):
            if symbol.kind == "knob" and symbol not in sizes:
                raise KernelError(
                    f"knob `{symbol}` is left open, but the compiler chooses sizes of tiles, "
                    "parts and blocks only",
                    loc=loc,
                    fix=f"give `{symbol}` a number, as its default or in the call",
                )
