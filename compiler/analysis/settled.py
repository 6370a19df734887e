"""Dimensions: each that a kernel computes with is an extent of an argument, which settles it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.bounds import views
from compiler.analysis.sites import Site
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Trace
from kohakuaccel.ir.scalar import symbols
from kohakuaccel.lang.tracing import indices_of
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Assign, values_of, walk
from kohakutpu.lang.layout import ANY_ROWS, ANY_WIDTH


def check_settled(trace: Trace, sites: list[Site]) -> None:
    """Check that the arguments settle every dimension in a count, an index or a number.

    Raises
    ------
    KernelError
        If one is the extent of no argument.
    """
    settled = {ANY_ROWS, ANY_WIDTH} | {
        symbol
        for buffer in trace.buffers
        if buffer.role == "in"
        for extent in buffer.shape
        for symbol in extent.symbols()
    }
    for site in sites:
        for found, loc in _uses(site):
            for symbol in sorted(found, key=str):
                if symbol.kind == "dim" and symbol not in settled:
                    raise KernelError(
                        f"`{symbol}` is an extent of no argument, so no call gives it a number",
                        loc=loc,
                        fix=f"declare an argument with an axis {symbol}, or use a number",
                    )


def _uses(site: Site) -> Iterator[tuple[frozenset[Symbol], Location]]:
    for scope in site.scopes:
        for index in indices_of(scope):
            yield index.count.symbols(), scope.loc
    for view in views(site):
        for index in view.index:
            yield index.symbols(), view.loc
        for tiling in view.tilings:
            if tiling is not None:
                yield tiling.size.symbols(), view.loc
    for node in (node for value in values_of(site.statement) for node in walk(value)):
        if node.number is not None:
            yield symbols(node.number), node.loc
    if isinstance(site.statement, Assign) and site.statement.state.width is not None:
        yield site.statement.state.width.symbols(), site.statement.state.loc
