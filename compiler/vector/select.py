"""Selects the EXEC operations of a group of statements, and puts them in an order that works.

What one operation computes is for :mod:`compiler.vector.cover` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.vector.cover import Cover, Storage
from compiler.vector.graph import REDUCTIONS, VIEW_EXTENTS, WIDE, Graph, Node, joined
from compiler.vector.operations import Operation, Output, Pattern, Selection
from kohakuaccel.errors import KernelError
from kohakutpu.lang.ir import Assign, Send, State, value_of


class Selector:
    """Selects the operations of one group of statements; make one for each group."""

    def __init__(self, graph: Graph, storage: Storage) -> None:
        self._graph = graph
        self._storage = storage
        self._cover = Cover(graph, storage)
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
        self._cover.survey([*targets, *assigns.values()])
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

    def _demand(self, target: Node) -> None:
        """Emit the operations of ``target`` and all it needs, deepest operand first."""
        done = self._cover.done
        pending = [target]
        while pending:
            node = pending[-1]
            if node in done:
                pending.pop()
                continue
            missing = [need for need in self._cover.needs(node) if need not in done]
            if missing:
                pending += sorted(missing, key=lambda need: need.depth)
            else:
                self._emit(node)
                pending.pop()

    def _assign(self, targets: list[Node]) -> None:
        """Compute new states, then replace the old ones in an order in which none is read late."""
        cover = self._cover
        for target in targets:
            for need in cover.needs(target):
                self._demand(need)
        left = list(targets)
        while left:
            ready = [
                t for t in left if not any(_reads(cover.pattern(o), t) for o in left if o != t)
            ]
            if ready:
                self._emit(ready[0])
                left.remove(ready[0])
                continue
            # They exchange what they hold: keep a copy of one.
            value = left[0].args[0]
            if value.op == "state":
                value = cover.convert("fetch", value, value.extent)
                cover.uses[value] = 1
            left[0] = replace(left[0], args=(value,))
            cover.copied.add(left[0])
            self._demand(value)

    def _emit(self, node: Node) -> None:
        cover = self._cover
        pattern, extent = cover.pattern(node), cover.extent(node)
        cols = node.args[0].cols if node.op in REDUCTIONS else node.cols
        operation = Operation(pattern, extent, cols, node.loc)
        kept: Node | None = node
        if node.op == "assign":
            operation.state, kept = node.source, None
        elif node.op == "store":
            operation.store = node.source
            kept = node.args[0] if cover.is_first_store(node) else None
        elif node.op in REDUCTIONS:
            arg = node.args[0]
            kept = arg if cover.absorbs_arg(node) and not cover.is_scaling(arg) else None
            operation.reduce, operation.reduced = REDUCTIONS[node.op], node
        elif extent == "column":
            kept, operation.reduce, operation.reduced = None, "sum", node
        cover.done.add(node)
        if kept is not None:
            cover.done.add(kept)
            self._attach(operation, kept)
            wanted = cover.uses[kept] - (node.op == "store") - (operation.reduced is not None)
            if node.op in ("fetch", "spread") or wanted:
                operation.result = kept
        once = node.invariant and operation.store is None and operation.state is None
        (self._selection.prologue if once else self._selection.body).append(operation)

    def _attach(self, operation: Operation, kept: Node) -> None:
        """Reduce what ``operation`` computes in the same pass, where somebody wants that."""
        cover = self._cover
        if operation.reduced is not None or not cover.reducible(kept):
            return
        for reduction in cover.reducers.get(kept, []):
            if reduction not in cover.done:
                operation.reduce, operation.reduced = REDUCTIONS[reduction.op], reduction
                cover.done.add(reduction)
                return


def _reads(pattern: Pattern, target: Node) -> bool:
    """Tell whether an operation reads the state that ``target`` replaces."""
    return any(source.source is target.source for source in pattern.operands)


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
