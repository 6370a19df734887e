"""What a trace for this machine holds beside the framework's nodes: tiles and contractions."""

from __future__ import annotations

from dataclasses import dataclass

from kohakuaccel.ir.expr import Expr
from kohakuaccel.ir.nodes import Statement, Value, View
from kohakuaccel.source import Location


@dataclass(eq=False, slots=True)
class Tile:
    """An accumulator tile: ``gm x gn`` sub-tiles of 4x4, fed ``nk`` blocks of 32 at a time.

    ``precision`` is ``"default"`` or ``"high"`` (three sweeps over K: lead*lead, lead*residual,
    residual*lead). ``sweeps`` is how many times the kernel says that all of K goes into the tile.
    ``rows`` and ``cols`` are the extents of the whole matrix that it is a tile of, ``row`` and
    ``col`` which tile: all four come from the first contraction into it.
    """

    name: str
    gm: Expr
    gn: Expr
    nk: Expr
    precision: str
    sweeps: int
    loc: Location
    rows: Expr | None = None
    cols: Expr | None = None
    row: Expr | None = None
    col: Expr | None = None


@dataclass(eq=False, slots=True)
class TileDecl(Statement):
    """The birth of ``tile``: it is empty (all zeros) in every instance, every time."""

    tile: Tile

    def describe(self) -> str:
        """Return the declaration with its sizes."""
        tile = self.tile
        text = f"tile {tile.name}: gm={tile.gm}, gn={tile.gn}, nk={tile.nk}"
        text += f", precision={tile.precision}" if tile.precision != "default" else ""
        return text + (f", sweeps={tile.sweeps}" if tile.sweeps != 1 else "")


@dataclass(eq=False, slots=True)
class Accumulate(Statement):
    """``tile += lhs @ rhs``: rows of ``lhs`` are the tile's rows, rows of ``rhs`` its columns.

    Both views are of kind ``"operand"``, indexed by row tile and K chunk.
    """

    tile: Tile
    lhs: View
    rhs: View

    def describe(self) -> str:
        """Return the contraction."""
        return f"{self.tile.name} += {self.lhs} @ {self.rhs}"


def loads(value: Value) -> list[View]:
    """Return every view that ``value`` reads, in order of first use."""
    return [node.view for node in walk(value) if node.view is not None]


def tiles_of(value: Value) -> list[Tile]:
    """Return every accumulator tile that ``value`` reads, in order of first use."""
    return list(dict.fromkeys(node.tile for node in walk(value) if node.tile is not None))


def walk(value: Value) -> list[Value]:
    """Return every node of a value once, operands before what uses them."""
    done: dict[int, Value] = {}
    pending = [(value, False)]
    while pending:
        node, ready = pending.pop()
        if id(node) in done:
            continue
        if ready:
            done[id(node)] = node
            continue
        pending.append((node, True))
        pending.extend((arg, False) for arg in reversed(node.args))
    return list(done.values())
