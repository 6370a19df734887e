"""Covers a value graph with patterns: which nodes one EXEC computes together.

``unary(a * b + c)``, a copy to an output window or to a state's home, and a row reduction go in one
pass. A node is left to the pass of its user where it has no other, or where computing it again
costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.vector.graph import REDUCTIONS, UNARY, WIDE, Graph, Node
from compiler.vector.operations import Pattern
from kohakuaccel.ir.nodes import Store, View
from kohakuaccel.source import Location

LEAVES = ("load", "tile", "state", "const")


@dataclass(frozen=True, slots=True)
class Storage:
    """What the selection has to know of how operands are stored.

    Parameters
    ----------
    tall : callable
        Whether a column has one element in each of its rows (it is packed by a reduction).
    fp32 : callable
        Whether a buffer is FP32, so that an output window keeps the value itself.
    spare : int
        How many channel operands may be copied to registers, where an operation would otherwise
        read three L1 windows.
    width : callable
        How many elements a row of a view or a state has.
    """

    tall: Callable[[View], bool]
    fp32: Callable[[View], bool]
    spare: int
    width: Callable[[Any], int]


class Cover:
    """The patterns of one group of statements; a node's is found when it is first asked for.

    Attributes
    ----------
    uses : Counter
        How many nodes compute with a node.
    reducers : dict
        The reductions of a node.
    stores : dict
        For a node, the store whose pass computes it.
    done : set
        What has been computed: no other pass takes it along.
    copied : set
        Assignments whose value must not go straight to the state's home.
    """

    def __init__(self, graph: Graph, storage: Storage) -> None:
        self.uses = Counter[Node]()
        self.reducers: dict[Node, list[Node]] = {}
        self.stores: dict[Node, Node] = {}
        self.done: set[Node] = set()
        self.copied: set[Node] = set()
        self._graph = graph
        self._storage = storage
        self._spare = storage.spare
        self._converted: dict[tuple[str, Node], Node] = {}
        self._patterns: dict[Node, Pattern] = {}

    def survey(self, targets: Sequence[Node]) -> None:
        """Count uses, and find who reduces or stores a node."""
        pending, seen = list(reversed(targets)), set(targets)
        while pending:
            node = pending.pop()
            for arg in node.args:
                self.uses[arg] += 1
                if arg not in seen:
                    seen.add(arg)
                    pending.append(arg)
                if node.op in REDUCTIONS:
                    self.reducers.setdefault(arg, []).append(node)
        for target in targets:
            if target.op == "store" and self._is_direct(target):
                self.stores.setdefault(target.args[0], target)

    def pattern(self, node: Node) -> Pattern:
        """Return what the operation of ``node`` computes, its sources readable where they are."""
        if node not in self._patterns:
            pattern = self._raw_pattern(node)
            if node.op != "fetch":
                pattern = self._readable(pattern, self.extent(node))
            self._patterns[node] = pattern
        return self._patterns[node]

    def needs(self, node: Node) -> list[Node]:
        """Return the nodes that have to be computed before ``node``."""
        operands = self.pattern(node).operands
        return [self.stores.get(s, s) for s in operands if not s.leaf and s.op != "state"]

    def extent(self, node: Node) -> str:
        """Return what the operation of ``node`` runs over."""
        if node.op in REDUCTIONS:
            return "full"
        if node.op == "fetch" and self._is_tall(node.args[0]):
            return "column"
        return node.extent

    # ------------------------------------------------------ what goes in one pass

    def is_first_store(self, node: Node) -> bool:
        """Whether the pass of a store computes what it stores."""
        return self.stores.get(node.args[0]) is node

    def absorbs_arg(self, reduction: Node) -> bool:
        """Whether the pass of a reduction computes what it reduces."""
        arg = reduction.args[0]
        return self._absorbable(arg) and self.reducible(arg)

    def reducible(self, node: Node) -> bool:
        """Whether the pass that computes ``node`` can reduce it.

        With three windows it may have to be cut into pieces, and a reduction cannot.
        """
        if not _computed(node) or node.extent != "full":
            return False
        return self._cover(node).windows <= 2

    def is_scaling(self, node: Node) -> bool:
        """Whether ``node`` is a number times FP16 elements in L1: as good as these themselves."""
        if node.op != "mul" or node.extent != "full":
            return False
        return {"const"} < {arg.op for arg in node.args} <= {"const", "load", "tile"} and not any(
            arg.op == "load" and self._storage.fp32(arg.source) for arg in node.args
        )

    def _absorbable(self, node: Node) -> bool:
        """Whether the only user of ``node``, or each of them, may compute it in the same pass."""
        return _computed(node) and (self.uses[node] == 1 or self.is_scaling(node))

    def _is_direct(self, target: Node) -> bool:
        """Whether the pass that computes a stored value can write the output window."""
        value = target.args[0]
        if not _computed(value) or value.extent != target.extent or value.invariant:
            return False
        store = target.source
        fp32 = isinstance(store, Store) and self._storage.fp32(store.view)
        if fp32 and value.extent in WIDE:
            return True  # others read the output window; scalars have to lie in registers
        reducers = self.reducers.get(value, [])
        others = self.uses[value] - len(reducers)
        return others == 1 and (not reducers or (len(reducers) == 1 and self.reducible(value)))

    def _writes_home(self, target: Node) -> bool:
        """Whether the pass that computes a new state can write its home."""
        value = target.args[0]
        if target in self.copied or value in self.done or value.invariant:
            return False
        return (
            _computed(value)
            and value.op not in ("fetch", "spread")
            and value.extent == target.extent
            and self.uses[value] == 1
        )

    def _fuses(self, node: Node) -> bool:
        """Whether a store, an assignment or a reduction computes its operand in the same pass."""
        if node.op == "assign":
            return self._writes_home(node)
        return self.is_first_store(node) if node.op == "store" else self.absorbs_arg(node)

    # -------------------------------------------------------------- patterns

    def _raw_pattern(self, node: Node) -> Pattern:
        if node.op in ("fetch", "spread"):
            return Pattern("mac", (node.args[0], None, None))
        if node.op in ("store", "assign") or node.op in REDUCTIONS:
            arg = node.args[0]
            return self._cover(arg) if self._fuses(node) else Pattern("mac", (arg, None, None))
        return self._cover(node)

    def _cover(self, node: Node) -> Pattern:
        """Return the largest pattern that computes the elementwise ``node``."""
        core, unary = node, "none"
        if node.op in UNARY:
            child = node.args[0]
            if not self._absorbable(child) or (child.op in UNARY and child.op != "neg"):
                return Pattern("mac", (child, None, None), node.op)
            core, unary = child, node.op
        match core.op:
            case "add":
                return self._cover_add(core, unary)
            case "neg":
                return Pattern("mac", (core.args[0], self._minus_one(core.loc), None), unary)
            case "mul":
                a, b = core.args
                if unary == "none" and "neg" in (a.op, b.op):
                    a, b = (a.args[0], b) if a.op == "neg" else (a, b.args[0])
                    return Pattern("mac", (a, b, None), "neg")
                return Pattern("mac", (a, b, None), unary)
            case "select":
                return Pattern("select", (core.args[0], core.args[1], core.args[2]), unary)
            case _:
                return Pattern(core.op, (core.args[0], core.args[1], None), unary)

    def _cover_add(self, node: Node, unary: str) -> Pattern:
        a, b = node.args
        for factor, other in ((a, b), (b, a)):
            if factor.op == "mul" and self._absorbable(factor):
                # What is the same in every instance is better computed once.
                if factor.extent == node.extent or not (
                    factor.invariant or factor.extent == "channel"
                ):
                    return Pattern("mac", (*factor.args, other), unary)  # pyright: ignore
        for factor, other in ((a, b), (b, a)):
            if factor.op == "neg":
                minus_one = self._minus_one(node.loc)
                return Pattern("mac", (factor.args[0], minus_one, other), unary)
        return Pattern("mac", (a, None, b), unary)

    def _minus_one(self, loc: Location) -> Node:
        return self._graph.constant(-1.0, loc)

    # --------------------------------------------------------------- sources

    def _readable(self, pattern: Pattern, extent: str) -> Pattern:
        """Return ``pattern`` with sources brought to where an operation over ``extent`` reads them.

        Scalars of rows are read from registers, so columns and scalars of L1 are fetched; a scalar
        becomes a copy for every row; a third L1 window becomes a copy in registers.
        """
        sources: list[Node | None] = []
        for source in pattern.sources:
            if source is not None and source.op != "const":
                if source.leaf and source.extent in ("row", "scalar"):
                    source = self.convert("fetch", source, source.extent)
                if source.extent == "scalar" and extent in ("full", "column"):
                    source = self.convert("spread", source, "row")
            sources.append(source)
        return self._spared(replace(pattern, sources=tuple(sources)))

    def _spared(self, pattern: Pattern) -> Pattern:
        sources = list(pattern.sources)
        excess = pattern.windows - 2
        for i, source in enumerate(sources):
            if excess <= 0 or source is None or not (source.leaf and source.extent == "channel"):
                continue
            known = ("fetch", source) in self._converted
            if known or self._spare > 0:
                self._spare -= 0 if known else 1
                sources[i] = self.convert("fetch", source, "channel")
                excess -= 1
        return replace(pattern, sources=tuple(sources))

    def convert(self, op: str, node: Node, extent: str) -> Node:
        """Return a copy of ``node`` elsewhere: ``op`` is ``"fetch"`` or ``"spread"``."""
        cols = node.cols if extent in WIDE else 0
        made = Node(op, (node,), extent, node.loc, None, 0, node.invariant, node.depth + 1, cols)
        return self._converted.setdefault((op, node), made)

    def _is_tall(self, node: Node) -> bool:
        return node.op == "load" and self._storage.tall(node.source)


def _computed(node: Node) -> bool:
    """Tell whether elementwise arithmetic makes a node."""
    return node.op not in REDUCTIONS and node.op not in LEAVES
