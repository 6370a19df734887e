"""What must hold of any trace, whoever made it; a pass that breaks it has a bug."""

from __future__ import annotations

from kohakuaccel.errors import InternalError
from kohakuaccel.ir.expr import Expr, Symbol
from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store, Trace, Value, View

WRITABLE = ("out", "temp", "print")
EXTENTS = frozenset(("full", "row", "channel", "scalar"))
ARITY = {
    **dict.fromkeys(("load", "tile", "state", "const"), 0),
    **dict.fromkeys(("neg", "abs", "exp2", "log2", "recip", "rsqrt"), 1),
    **dict.fromkeys(("row_sum", "row_max", "row_min"), 1),
    **dict.fromkeys(("add", "sub", "mul", "max", "min", "lt", "le", "eq"), 2),
    "select": 3,
}


def verify(trace: Trace) -> None:
    """Check the structure of a trace.

    Raises
    ------
    InternalError
        If a buffer or symbol is used without being declared or in scope, grids are nested, a
        statement writes an argument, or a value is malformed.
    """
    _require(len({b.name for b in trace.buffers}) == len(trace.buffers), trace, "names repeat")
    _body(trace, trace.body, frozenset(trace.knobs.values()), grid=None)


def _body(trace: Trace, body: list[Statement], scope: frozenset[Symbol], grid: Grid | None) -> None:
    for statement in body:
        if isinstance(statement, Grid):
            _require(grid is None, statement, "a grid inside a grid")
            for index in statement.indices:
                _index(index, scope)
            inner = scope | {index.symbol for index in statement.indices}
            _body(trace, statement.body, inner, statement)
        elif isinstance(statement, Repeat):
            _index(statement.index, scope)
            _body(trace, statement.body, scope | {statement.index.symbol}, grid)
        else:
            _require(grid is not None, statement, "a statement outside any grid")
            if isinstance(statement, Store):
                _require(statement.view.buffer.role in WRITABLE, statement, "not writable")
                _view(trace, statement.view, scope)
                _value(trace, statement.value, scope, {})


def _index(index: Index, scope: frozenset[Symbol]) -> None:
    _scoped(index.count, scope, index)
    if index.tiling is not None:
        _require(index.tiling.count == index.count, index, "its count is not its tiling's")


def _view(trace: Trace, view: View, scope: frozenset[Symbol]) -> None:
    _require(any(view.buffer is known for known in trace.buffers), view, "unknown buffer")
    _require(len(view.tilings) == len(view.index), view, "one tiling an index")
    for index in view.index:
        _scoped(index, scope, view)


def _value(trace: Trace, value: Value, scope: frozenset[Symbol], done: dict[int, Value]) -> None:
    pending = [value]
    while pending:
        node = pending.pop()
        if id(node) in done:
            continue
        done[id(node)] = node
        _require(node.op in ARITY and len(node.args) == ARITY[node.op], node, "wrong arity")
        _require(node.extent in EXTENTS, node, "unknown extent")
        _require((node.op == "load") == (node.view is not None), node, "a load has a view")
        _require((node.op == "tile") == (node.tile is not None), node, "a tile value has a tile")
        _require((node.op == "state") == (node.state is not None), node, "a read has a state")
        _require((node.op == "const") == (node.number is not None), node, "a const has a number")
        if node.view is not None:
            _view(trace, node.view, scope)
        pending.extend(node.args)


def _scoped(expr: Expr, scope: frozenset[Symbol], node: object) -> None:
    for symbol in expr.symbols():
        _require(symbol.kind == "dim" or symbol in scope, node, f"{symbol} is not in scope")


def _require(holds: bool, node: object, what: str) -> None:
    if not holds:
        name = node.name if isinstance(node, (Trace, Buffer)) else type(node).__name__
        raise InternalError(f"malformed trace, {name} at {getattr(node, 'loc', '?')}: {what}")
