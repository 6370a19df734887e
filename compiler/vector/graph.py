"""Value graphs with the numbers filled in: constants folded, common subexpressions shared.

Every rewrite here keeps every bit. ``a - b`` is ``a + (-1 * b)`` and multiplying by -1 is exact, so
a minus sign moves into a constant factor; nothing is reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from compiler.vector.fold import fold
from kohakuaccel.errors import InternalError, KernelError
from kohakuaccel.ir.expr import Symbol
from kohakuaccel.ir.nodes import Value, View
from kohakuaccel.ir.scalar import evaluate
from kohakuaccel.source import Location
from kohakutpu.lang.ir import State

UNARY = ("abs", "neg", "exp2", "log2", "recip", "rsqrt")
BINARY = ("add", "mul", "max", "min", "lt", "le", "eq")
WIDE = ("full", "channel")  # extents that vary along rows
REDUCTIONS = {"row_sum": "sum", "row_max": "max", "row_min": "min"}

VIEW_EXTENTS = {
    "part": "full",
    "rows": "full",
    "tile": "full",
    "whole": "full",
    "channel": "channel",
    "channel_tile": "channel",
    "column": "row",
    "scalar": "scalar",
}


@dataclass(eq=False, slots=True)
class Node:
    """One value, computed once however often it is named.

    Parameters
    ----------
    op : str
        ``"load"``, ``"tile"``, ``"state"``, ``"const"``, one of `UNARY`, `BINARY`, ``"select"``,
        `REDUCTIONS`;
        ``"spread"`` (a scalar as one copy a row) and ``"fetch"`` (a loaded scalar or column in
        registers) come from the selection, ``"store"`` too.
    args : tuple of Node
        Operands; of ``select``: then, else, condition.
    extent : str
        ``"full"``, ``"row"``, ``"channel"`` or ``"scalar"``: what it varies over.
    loc : Location
        The expression it comes from.
    source : object
        The view of a load, the tile of a tile, the state of a state.
    bits : int
        FP32 pattern of a constant.
    invariant : bool
        The same in every instance, so it is computed before the loops.
    depth : int
        Operations on the longest path to a leaf.
    cols : int
        Elements a row, of what varies along rows.
    loose : bool
        It goes with values of fewer columns, their first ones: a mask at the end of a row.
    """

    op: str
    args: tuple[Node, ...]
    extent: str
    loc: Location
    source: Any = None
    bits: int = 0
    invariant: bool = False
    depth: int = 0
    cols: int = 0
    loose: bool = False

    @property
    def leaf(self) -> bool:
        """Whether it lies in L1 before anything is computed."""
        return self.op in ("load", "tile")


def view_key(view: View) -> tuple[Any, ...]:
    """Return what two views of the same elements have in common."""
    return (view.buffer, view.kind, view.index)


class Graph:
    """Turns values into nodes.

    Parameters
    ----------
    env : mapping
        Dimensions and knobs as numbers.
    resident : callable
        Whether a view holds the same elements in every instance.
    width : callable
        How many elements a row of a view, a tile or a state has.
    """

    def __init__(
        self,
        env: Mapping[Symbol, int],
        resident: Callable[[View], bool],
        width: Callable[[Any], int],
    ) -> None:
        self._env = env
        self._resident = resident
        self._width = width
        self._known: dict[tuple[Any, ...], Node] = {}
        self._of_value: dict[int, Node] = {}

    def node(self, value: Value) -> Node:
        """Return the node of ``value``; its graph may be of any depth."""
        pending = [value]
        while pending:
            top = pending[-1]
            missing = [arg for arg in top.args if id(arg) not in self._of_value]
            if id(top) in self._of_value:
                pending.pop()
            elif missing:
                pending += missing
            else:
                self._of_value[id(top)] = self._translate(top)
                pending.pop()
        return self._of_value[id(value)]

    def _translate(self, value: Value) -> Node:
        args = tuple(self._of_value[id(arg)] for arg in value.args)
        match value.op:
            case "const":
                return self.constant(evaluate(value.number, self._env), value.loc)
            case "load":
                return self._load(value)
            case "tile":
                cols = self._width(value.tile)
                node = Node("tile", (), "full", value.loc, value.tile, cols=cols)
                return self._share(("tile", id(value.tile)), node)
            case "state":
                return self.state(value.state.state, value.loc)
            case "sub":
                return self.make("add", (args[0], self._negated(args[1], value.loc)), value.loc)
            case "neg":
                return self._negated(args[0], value.loc)
            case _:
                return self.make(value.op, args, value.loc)

    def _load(self, value: Value) -> Node:
        view = value.view
        if view is None:
            raise InternalError(f"a load without a view, from {value.loc}")
        extent = VIEW_EXTENTS.get(view.kind)
        if extent is None:
            raise KernelError(
                f"`{view.buffer.name}` is read as a view of kind {view.kind}, which is no value",
                loc=value.loc,
                fix="read it as a part, rows, a tile, a channel, a column or a scalar",
            )
        cols = self._width(view) if extent in WIDE else 0
        once = self._resident(view)
        loose = view.kind == "whole"
        node = Node("load", (), extent, value.loc, view, invariant=once, cols=cols, loose=loose)
        return self._share(("load", *view_key(view)), node)

    def state(self, state: State, loc: Location) -> Node:
        """Return what a state holds before anything is assigned to it."""
        cols = self._width(state) if state.extent in WIDE else 0
        node = Node("state", (), state.extent, loc, state, cols=cols)
        return self._share(("state", id(state)), node)

    def constant(self, number: float, loc: Location) -> Node:
        """Return the constant ``number``, rounded to FP32.

        Raises
        ------
        KernelError
            If it is finite and FP32 has no such number.
        """
        with np.errstate(over="ignore"):
            rounded = np.float32(number)
        if np.isinf(rounded) and isfinite(number):
            raise KernelError(
                f"the number {number:g} is beyond FP32, which ends at 3.40282e+38",
                loc=loc,
                fix='scale the computation, or write float("inf") if Inf is meant',
            )
        return self._constant(int(rounded.view(np.uint32)), loc)

    def _constant(self, bits: int, loc: Location) -> Node:
        node = Node("const", (), "scalar", loc, bits=bits, invariant=True)
        return self._share(("const", bits), node)

    def _negated(self, node: Node, loc: Location) -> Node:
        """Return ``-1 * node``: in a constant or in a constant factor where there is one."""
        if node.op == "mul":
            for i, factor in enumerate(node.args):
                if factor.op == "const":
                    args = list(node.args)
                    args[i] = self._negated(factor, loc)
                    return self.make("mul", tuple(args), loc)
        return self.make("neg", (node,), loc)

    def make(self, op: str, args: tuple[Node, ...], loc: Location) -> Node:
        """Return ``op`` of ``args``: a constant if they all are, else the one node of its kind."""
        if all(arg.op == "const" for arg in args) and op not in REDUCTIONS:
            return self._constant(fold(op, tuple(arg.bits for arg in args)), loc)
        if op == "mul":
            for factor, other in (args, args[::-1]):
                if factor.op == "const" and other.op == "neg":
                    return self.make("mul", (self._negated(factor, loc), other.args[0]), loc)
        if op in REDUCTIONS:
            extent = "row"
        elif op in UNARY or op in BINARY or op == "select":
            extent = joined(arg.extent for arg in args)
        else:
            raise InternalError(f"a value graph holds {op!r}, from {loc}")
        invariant = all(arg.invariant for arg in args) and extent != "full"
        depth = 1 + max(arg.depth for arg in args)
        firm = [arg.cols for arg in args if arg.cols and not arg.loose]
        cols = max(firm or [arg.cols for arg in args]) if extent in WIDE else 0
        if any(own != cols for own in firm) and op not in REDUCTIONS:
            # Proofs refuse it with the places; this is met before, while an open size is chosen.
            listed = " and ".join(map(str, sorted(set(firm))))
            raise KernelError(
                f"rows of {listed} elements meet in one value",
                loc=loc,
                fix="combine values of one width; a state is as wide as L.state(..., width) says",
            )
        loose = bool(cols) and not firm
        node = Node(op, args, extent, loc, None, 0, invariant, depth, cols, loose)
        return self._share((op, *map(id, args)), node)

    def _share(self, key: tuple[Any, ...], node: Node) -> Node:
        return self._known.setdefault(key, node)


def joined(extents: Iterable[str]) -> str:
    """Return what something varies over that varies over all of ``extents``."""
    present = set(extents)
    if "full" in present or {"row", "channel"} <= present:
        return "full"
    for extent in ("row", "channel"):
        if extent in present:
            return extent
    return "scalar"
