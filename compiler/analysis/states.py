"""Values are computed where they are used: what they read must still be there, and the same."""

from __future__ import annotations

from compiler.analysis.sites import Site
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Grid, Repeat, Statement
from kohakutpu.lang.ir import Assign, Read, State, TileDecl, values_of, walk


def check_states(sites: list[Site]) -> None:
    """Check that a value is used in the loops of its tiles, and before its states change.

    Raises
    ------
    KernelError
        If a value that reads a state is used where the state may hold something else, or one that
        reads a tile is used after the loop that the tile was made in.
    """
    born = {s.statement.tile: s for s in sites if isinstance(s.statement, TileDecl)}
    for site in sites:
        for node in (node for value in values_of(site.statement) for node in walk(value)):
            if node.tile is not None:
                _check_loops(born[node.tile], site)
            if node.state is not None:
                changed = _changed(node.state, site)
                if changed is not None:
                    _refuse(node.state.state, changed, site)


def _check_loops(born: Site, site: Site) -> None:
    over = [scope for scope in born.scopes if scope not in site.scopes]
    if not over:
        return
    tile = born.tile
    assert tile is not None
    raise KernelError(
        f"tile `{tile.name}` is read after the loop that it was made in",
        loc=site.statement.loc,
        fix="use it inside the loop, or carry what is needed out of the loop in an L.state(...)",
        notes=[(over[-1].loc, "the loop"), (tile.loc, f"`{tile.name}` is made here")],
    )


def _changed(read: Read, site: Site) -> Assign | None:
    """Return an assignment that may happen between a read and the statement that uses it."""
    bodies = [s.body for s in site.scopes]
    levels = [level for level, body in enumerate(bodies) if body is read.body]
    if not levels:
        # The loop of the read is over.
        return next((a for a in _assigns(read.body) if a.state is read.state), None) or Assign(
            read.state.loc, read.state, read.state.initial
        )
    level = levels[0]
    inner = site.scopes[level + 1] if level + 1 < len(site.scopes) else site.statement
    place = next(n for n, s in enumerate(read.body) if s is inner)
    between = read.body[read.place : place]
    if isinstance(inner, (Grid, Repeat)):
        between = [*between, inner]
    whole = any(isinstance(s, Repeat) for s in between)
    for statement in between:
        for assign in _assigns([statement]):
            direct = assign is statement and not assign.narrow and not whole
            if assign.state is read.state and not direct:
                return assign
    return None


def _assigns(body: list[Statement]) -> list[Assign]:
    found: list[Assign] = []
    for statement in body:
        if isinstance(statement, Assign):
            found.append(statement)
        elif isinstance(statement, Repeat):
            found += _assigns(statement.body)
    return found


def _refuse(state: State, assign: Assign, site: Site) -> None:
    raise KernelError(
        f"this uses what state `{state}` held earlier, but it may have changed since",
        loc=site.statement.loc,
        fix=f"read `{state}` where it is used, or keep the older value in a state of its own",
        notes=[(assign.loc, f"`{state}` changes here")],
    )
