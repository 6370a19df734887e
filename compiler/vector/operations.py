"""One EXEC before placement: what it computes, over what, and where that is wanted.

Operands and results are still nodes; where they lie is decided later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.vector.graph import WIDE, Node
from kohakuaccel.ir.nodes import Store
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Send, State

Sources = tuple[Node | None, Node | None, Node | None]
Output = Store | Send
"""A statement with an output window: it goes to memory, or is a computed operand for a cluster."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """``unary(f(a, b, c))`` of nodes."""

    f: str
    sources: Sources
    unary: str = "none"

    @property
    def operands(self) -> list[Node]:
        """Sources that are no constants."""
        return [s for s in self.sources if s is not None and s.op != "const"]

    @property
    def windows(self) -> int:
        """How many sources may turn out to be L1 windows."""
        return sum(source.extent in WIDE for source in self.operands)


@dataclass(eq=False, slots=True)
class Operation:
    """One EXEC before placement.

    Parameters
    ----------
    pattern : Pattern
        What is computed.
    extent : str
        What it runs over, as in a node, or ``"column"``: one element in every row.
    cols : int
        Elements a row, where it runs along rows.
    loc : Location
        Where it comes from.
    result : Node, optional
        What the destination is kept as.
    store : Store or Send, optional
        The statement whose output window is the destination.
    state : State, optional
        What is assigned: the destination is its home.
    reduce : str
        ``"none" "sum" "max" "min"``.
    reduced : Node, optional
        What the reduction is.
    """

    pattern: Pattern
    extent: str
    cols: int
    loc: Location
    result: Node | None = None
    store: Output | None = None
    state: State | None = None
    reduce: str = "none"
    reduced: Node | None = None


@dataclass(eq=False, slots=True)
class Selection:
    """Operations that run once before the loops, and those of every instance, in order."""

    prologue: list[Operation] = field(default_factory=list[Operation])
    body: list[Operation] = field(default_factory=list[Operation])
