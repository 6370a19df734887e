"""No statement of a stage depends on another one's writes: a unit does not wait between them."""

from __future__ import annotations

from compiler.analysis.sites import Site
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Repeat, Statement, Store, View


def check_hazards(sites: list[Site]) -> None:
    """Check every stage for statements that would see each other's writes.

    An instance may read its own window of a buffer that it writes later; everything else has to
    go to a stage of its own.

    Raises
    ------
    KernelError
        If there is such a pair.
    """
    for site in sites:
        if site.written is None:
            continue
        for other in (s for s in sites if s.grid is site.grid):
            for view in other.reads:
                if view.buffer is not site.written:
                    continue
                if other.order > site.order or _share_loop(site, other):
                    _refuse_stale(site, other, view)
                elif not _own(view, site):
                    _refuse_race(site, other, view)


def _share_loop(a: Site, b: Site) -> bool:
    """Return whether a loop inside the grid brings ``b`` after ``a`` again."""
    return any(loop in b.inner for loop in a.inner)


def _own(view: View, site: Site) -> bool:
    statement: Statement = site.statement
    assert isinstance(statement, Store)
    written = statement.view
    return view.kind == written.kind and view.index == written.index


def _refuse_stale(writer: Site, reader: Site, view: View) -> None:
    name = view.buffer.name
    if writer is reader:
        loop = next(scope for scope in reversed(writer.scopes) if isinstance(scope, Repeat))
        raise KernelError(
            f"`{view}` reads what the loop over `{loop.index.symbol}` wrote in an earlier pass of "
            "the same stage: it would read stale bytes",
            loc=view.loc,
            fix="open the loop outside the grid, so that every pass is a stage",
            notes=[(loop.loc, "the loop")],
        )
    raise KernelError(
        f"`{view}` reads what another statement of the same stage writes into `{name}`: a unit "
        "does not wait between them, so it would read stale bytes",
        loc=view.loc,
        fix=f"put the read into a stage of its own after the one that writes `{name}`",
        notes=[(writer.statement.loc, f"`{name}` is written here")],
    )


def _refuse_race(writer: Site, reader: Site, view: View) -> None:
    name = view.buffer.name
    raise KernelError(
        f"`{view}` reads a part of `{name}` that another instance of the same stage writes: which "
        "comes first is not settled",
        loc=view.loc,
        fix=f"write into another buffer, or read `{name}` in a stage of its own before it is "
        "written",
        notes=[(writer.statement.loc, f"`{name}` is written here")],
    )
