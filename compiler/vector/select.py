"""Covers a value graph with EXEC operations: ``unary(a * b + c)`` and a row reduction in one pass.

Operands and results are still nodes; where they lie is decided later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.vector.graph import REDUCTIONS, UNARY, VIEW_EXTENTS, WIDE, Graph, Node, joined
from kohakuaccel.errors import KernelError
from kohakuaccel.ir.nodes import Store, View
from kohakuaccel.source import Location
from kohakutpu.lang.ir import Assign, Send, State, value_of

Sources = tuple[Node | None, Node | None, Node | None]
Output = Store | Send
"""A statement with an output window: it goes to memory, or is a computed operand for a cluster."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """``unary(f(a, b, c))`` of nodes."""

    f: str
    sources: Sources
    unary: str = "none"


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

    @property
    def sources(self) -> list[Node]:
        """Source nodes that are no constants."""
        return [s for s in self.pattern.sources if s is not None and s.op != "const"]


@dataclass(eq=False, slots=True)
class Selection:
    """Operations that run once before the loops, and those of every instance, in order."""

    prologue: list[Operation] = field(default_factory=list[Operation])
    body: list[Operation] = field(default_factory=list[Operation])


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


class Selector:
    """Selects the operations of one group of statements; make one for each group."""

    def __init__(self, graph: Graph, storage: Storage) -> None:
        self._graph = graph
        self._storage = storage
        self._spare = storage.spare
        self._uses = Counter[Node]()
        self._reducers: dict[Node, list[Node]] = {}
        self._stores: dict[Node, Node] = {}
        self._converted: dict[tuple[str, Node], Node] = {}
        self._patterns: dict[Node, Pattern] = {}
        self._done: set[Node] = set()
        self._indirect: set[Node] = set()
        self._selection = Selection()

    def select(self, statements: Sequence[Output | Assign]) -> Selection:
        """Return the operations that compute ``statements``, in an order that works.

        States change last, so that everything sees what they held before; of several assignments
        to one state the last one counts.
        """
        targets: list[Node] = []
        assigns: dict[State, Node] = {}
        for statement in statements:
            target = self._target(statement)
            if isinstance(statement, Assign):
                assigns[statement.state] = target
            else:
                targets.append(target)
        for target in targets:
            _check_extents(target)
        self._survey([*targets, *assigns.values()])
        for target in targets:
            self._demand(target)
        self._assign(list(assigns.values()))
        return self._selection

    def _target(self, statement: Output | Assign) -> Node:
        value = value_of(statement)
        assert value is not None
        node, loc = self._graph.node(value), statement.loc
        if isinstance(statement, Assign):
            state = statement.state
            cols = self._storage.width(state) if state.extent in WIDE else 0
            return Node("assign", (node,), state.extent, loc, state, cols=cols)
        if isinstance(statement, Send):
            return Node("store", (node,), "full", loc, statement, cols=node.cols)
        view = statement.view
        extent = "column" if self._storage.tall(view) else VIEW_EXTENTS[view.kind]
        cols = self._storage.width(view) if extent in WIDE else 0
        return Node("store", (node,), extent, loc, statement, cols=cols)

    # ---------------------------------------------------------------- states

    def _assign(self, targets: list[Node]) -> None:
        """Compute new states, then replace the old ones in an order in which none is read late."""
        for target in targets:
            for need in self._needs(target):
                self._demand(need)
        left = list(targets)
        while left:
            ready = [
                t for t in left if not any(_reads(self._pattern(o), t) for o in left if o != t)
            ]
            if ready:
                self._emit(ready[0])
                left.remove(ready[0])
                continue
            # They exchange what they hold: keep a copy of one.
            value = left[0].args[0]
            if value.op == "state":
                value = self._convert("fetch", value, value.extent)
                self._uses[value] = 1
            left[0] = replace(left[0], args=(value,))
            self._indirect.add(left[0])
            self._demand(value)

    def _writes_home(self, target: Node) -> bool:
        """Whether the pass that computes a new state can write its home."""
        value = target.args[0]
        if target in self._indirect or value in self._done or value.invariant:
            return False
        return (
            self._computed(value)
            and value.op not in ("fetch", "spread")
            and value.extent == target.extent
            and self._uses[value] == 1
        )

    def _survey(self, targets: list[Node]) -> None:
        """Count uses, and find who reduces or stores a node."""
        pending, seen = list(reversed(targets)), set(targets)
        while pending:
            node = pending.pop()
            for arg in node.args:
                self._uses[arg] += 1
                if arg not in seen:
                    seen.add(arg)
                    pending.append(arg)
                if node.op in REDUCTIONS:
                    self._reducers.setdefault(arg, []).append(node)
        for target in targets:
            if target.op == "store" and self._is_direct(target):
                self._stores.setdefault(target.args[0], target)

    # -------------------------------------------------------------- patterns

    def _computed(self, node: Node) -> bool:
        return node.op not in REDUCTIONS and node.op not in ("load", "tile", "state", "const")

    def _absorbable(self, node: Node) -> bool:
        """Whether the only user of ``node``, or each of them, may compute it in the same pass."""
        return self._computed(node) and (self._uses[node] == 1 or self._is_scaling(node))

    def _is_scaling(self, node: Node) -> bool:
        """Whether ``node`` is a number times FP16 elements in L1: as good as these themselves."""
        if node.op != "mul" or node.extent != "full":
            return False
        return {"const"} < {arg.op for arg in node.args} <= {"const", "load", "tile"} and not any(
            arg.op == "load" and self._storage.fp32(arg.source) for arg in node.args
        )

    def _is_direct(self, target: Node) -> bool:
        """Whether the pass that computes a stored value can write the output window."""
        value = target.args[0]
        if not self._computed(value) or value.extent != target.extent or value.invariant:
            return False
        store = target.source
        fp32 = isinstance(store, Store) and self._storage.fp32(store.view)
        if fp32 and value.extent in WIDE:
            return True  # others read the output window; scalars have to lie in registers
        reducers = self._reducers.get(value, [])
        others = self._uses[value] - len(reducers)
        return others == 1 and (not reducers or (len(reducers) == 1 and self._reducible(value)))

    def _reducible(self, node: Node) -> bool:
        """Whether the pass that computes ``node`` can reduce it.

        With three windows it may have to be cut into pieces, and a reduction cannot.
        """
        if not self._computed(node) or node.extent != "full":
            return False
        return _windows(self._cover(node)) <= 2

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

    def _pattern(self, node: Node) -> Pattern:
        """Return what the operation of ``node`` computes, its sources readable where they are."""
        if node not in self._patterns:
            pattern = self._raw_pattern(node)
            if node.op != "fetch":
                pattern = self._readable(pattern, self._extent(node))
            self._patterns[node] = pattern
        return self._patterns[node]

    def _raw_pattern(self, node: Node) -> Pattern:
        if node.op in ("fetch", "spread"):
            return Pattern("mac", (node.args[0], None, None))
        if node.op in ("store", "assign") or node.op in REDUCTIONS:
            arg = node.args[0]
            fused = self._fuses(node)
            return self._cover(arg) if fused else Pattern("mac", (arg, None, None))
        return self._cover(node)

    def _fuses(self, node: Node) -> bool:
        """Whether a store, an assignment or a reduction computes its operand in the same pass."""
        if node.op == "assign":
            return self._writes_home(node)
        return self._is_first_store(node) if node.op == "store" else self._absorbs_arg(node)

    def _is_first_store(self, node: Node) -> bool:
        return self._stores.get(node.args[0]) is node

    def _absorbs_arg(self, reduction: Node) -> bool:
        arg = reduction.args[0]
        return self._absorbable(arg) and self._reducible(arg)

    def _extent(self, node: Node) -> str:
        """Return what the operation of ``node`` runs over."""
        if node.op in REDUCTIONS:
            return "full"
        if node.op == "fetch" and self._is_tall(node.args[0]):
            return "column"
        return node.extent

    def _is_tall(self, node: Node) -> bool:
        return node.op == "load" and self._storage.tall(node.source)

    def _readable(self, pattern: Pattern, extent: str) -> Pattern:
        """Return ``pattern`` with sources brought to where an operation over ``extent`` reads them.

        Scalars of rows are read from registers, so columns and scalars of L1 are fetched; a scalar
        becomes a copy for every row; a third L1 window becomes a copy in registers.
        """
        sources: list[Node | None] = []
        for source in pattern.sources:
            if source is not None and source.op != "const":
                if source.leaf and source.extent in ("row", "scalar"):
                    source = self._convert("fetch", source, source.extent)
                if source.extent == "scalar" and extent in ("full", "column"):
                    source = self._convert("spread", source, "row")
            sources.append(source)
        result = replace(pattern, sources=tuple(sources))
        return self._spared(result)

    def _spared(self, pattern: Pattern) -> Pattern:
        sources = list(pattern.sources)
        excess = _windows(pattern) - 2
        for i, source in enumerate(sources):
            if excess <= 0 or source is None or not (source.leaf and source.extent == "channel"):
                continue
            known = ("fetch", source) in self._converted
            if known or self._spare > 0:
                self._spare -= 0 if known else 1
                sources[i] = self._convert("fetch", source, "channel")
                excess -= 1
        return replace(pattern, sources=tuple(sources))

    def _convert(self, op: str, node: Node, extent: str) -> Node:
        cols = node.cols if extent in WIDE else 0
        made = Node(op, (node,), extent, node.loc, None, 0, node.invariant, node.depth + 1, cols)
        return self._converted.setdefault((op, node), made)

    # ----------------------------------------------------------------- order

    def _demand(self, target: Node) -> None:
        """Emit the operations of ``target`` and all it needs, deepest operand first."""
        pending = [target]
        while pending:
            node = pending[-1]
            if node in self._done:
                pending.pop()
                continue
            missing = [need for need in self._needs(node) if need not in self._done]
            if missing:
                pending += sorted(missing, key=lambda need: need.depth)
            else:
                self._emit(node)
                pending.pop()

    def _needs(self, node: Node) -> list[Node]:
        sources = [s for s in self._pattern(node).sources if s is not None and s.op != "const"]
        return [self._stores.get(s, s) for s in sources if not s.leaf and s.op != "state"]

    def _emit(self, node: Node) -> None:
        pattern, extent = self._pattern(node), self._extent(node)
        cols = node.args[0].cols if node.op in REDUCTIONS else node.cols
        operation = Operation(pattern, extent, cols, node.loc)
        kept: Node | None = node
        if node.op == "assign":
            operation.state, kept = node.source, None
        elif node.op == "store":
            operation.store = node.source
            kept = node.args[0] if self._is_first_store(node) else None
        elif node.op in REDUCTIONS:
            arg = node.args[0]
            kept = arg if self._absorbs_arg(node) and not self._is_scaling(arg) else None
            operation.reduce, operation.reduced = REDUCTIONS[node.op], node
        elif extent == "column":
            kept, operation.reduce, operation.reduced = None, "sum", node
        self._done.add(node)
        if kept is not None:
            self._done.add(kept)
            self._attach(operation, kept)
            wanted = self._uses[kept] - (node.op == "store") - (operation.reduced is not None)
            if node.op in ("fetch", "spread") or wanted:
                operation.result = kept
        once = node.invariant and operation.store is None and operation.state is None
        (self._selection.prologue if once else self._selection.body).append(operation)

    def _attach(self, operation: Operation, kept: Node) -> None:
        """Reduce what ``operation`` computes in the same pass, where somebody wants that."""
        if operation.reduced is not None or not self._reducible(kept):
            return
        for reduction in self._reducers.get(kept, []):
            if reduction not in self._done:
                operation.reduce, operation.reduced = REDUCTIONS[reduction.op], reduction
                self._done.add(reduction)
                return


def _reads(pattern: Pattern, target: Node) -> bool:
    """Tell whether an operation reads the state that ``target`` replaces."""
    return any(s is not None and s.source is target.source for s in pattern.sources)


def _check_extents(target: Node) -> None:
    value = target.args[0]
    if isinstance(target.source, Send):
        return
    rows = {"column": "row"}.get(target.extent, target.extent)
    if joined((value.extent, rows)) != rows:
        raise KernelError(
            f"`{target.source.view.buffer.name}` takes one value a {rows}, and what is stored "
            "varies over more than that",
            loc=target.loc,
            fix="reduce it with row_sum, row_max or row_min, or store it to a wider buffer",
        )


def _windows(pattern: Pattern) -> int:
    """Return how many sources may turn out to be L1 windows."""
    return sum(s is not None and s.extent in ("full", "channel") for s in pattern.sources)
