"""A trace as text that a person can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store, Trace, Value

# Sign of an operator and how tightly it binds.
_INFIX = {
    "lt": ("<", 0),
    "le": ("<=", 0),
    "eq": ("==", 0),
    "add": ("+", 1),
    "sub": ("-", 1),
    "mul": ("*", 2),
}
_ATOM = 3


def show(trace: Trace) -> str:
    """Return the listing of a trace."""
    lines = [f"kernel {trace.name}"]
    width = max((len(buffer.name) for buffer in trace.buffers), default=0)
    for buffer in trace.buffers:
        lines.append(
            f"  {buffer.role:5} {buffer.name:{width}}  {shape_text(buffer)} {buffer.dtype}"
        )
    if trace.knobs:
        lines.append(f"  auto  {', '.join(trace.knobs)}")
    lines += _body(trace.body, 1)
    return "\n".join(lines)


def shape_text(buffer: Buffer) -> str:
    """Return the axes of a buffer as they were declared."""
    axes = ["..."] if buffer.batched or buffer.any_rank else []
    return f"[{', '.join(axes + [str(extent) for extent in buffer.shape])}]"


def value_text(value: Value) -> tuple[list[str], str]:
    """Return a value as definitions of what it uses more than once, and an expression."""
    uses: Counter[int] = Counter()
    order: list[Value] = []
    _count(value, uses, order)
    names: dict[int, str] = {}
    definitions: list[str] = []
    texts: dict[int, tuple[str, int]] = {}
    for node in order:
        text, level = _node(node, texts)
        if uses[id(node)] > 1 and node.args:
            names[id(node)] = f"%{len(names) + 1}"
            definitions.append(f"{names[id(node)]} = {text}")
            text, level = names[id(node)], _ATOM
        texts[id(node)] = text, level
    return definitions, texts[id(value)][0]


def _count(value: Value, uses: Counter[int], order: list[Value]) -> None:
    pending: list[tuple[Value, bool]] = [(value, False)]
    while pending:
        node, ready = pending.pop()
        if ready:
            order.append(node)
            continue
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            pending.append((node, True))
            pending.extend((arg, False) for arg in reversed(node.args))


def _node(node: Value, texts: dict[int, tuple[str, int]]) -> tuple[str, int]:
    """Return the text of a node and how tightly its outermost operator binds."""
    if node.view is not None:
        return str(node.view), _ATOM
    if node.tile is not None:
        return str(node.tile.name), _ATOM
    if node.state is not None:
        return str(node.state), _ATOM
    if node.op == "const":
        plain = isinstance(node.number, float)
        return f"{node.number:g}" if plain else str(node.number), _ATOM
    if node.op not in _INFIX:
        return f"{node.op}({', '.join(texts[id(arg)][0] for arg in node.args)})", _ATOM
    sign, level = _INFIX[node.op]
    left, right = (texts[id(arg)] for arg in node.args)
    first = left[0] if left[1] >= level else f"({left[0]})"
    second = right[0] if right[1] > level else f"({right[0]})"
    return f"{first} {sign} {second}", level


def _body(body: list[Statement], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for statement in body:
        if isinstance(statement, Grid):
            word = "stage" if statement.barrier else "grid"
            yield f"{indent}{word} {_indices(statement.indices)}"
            yield from _body(statement.body, depth + 1)
        elif isinstance(statement, Repeat):
            yield f"{indent}sweep {_indices((statement.index,))}"
            yield from _body(statement.body, depth + 1)
        elif isinstance(statement, Store):
            definitions, text = value_text(statement.value)
            yield from (indent + line for line in definitions)
            yield f"{indent}{statement.view} <<= {text}"
        else:
            yield indent + statement.describe()


def _indices(indices: tuple[Index, ...]) -> str:
    text = ", ".join(f"{index.symbol} < {index.count}" for index in indices)
    tilings = [
        f"{index.tiling.buffer.name}.{index.tiling.kind}({index.tiling.size})"
        for index in indices
        if index.tiling is not None
    ]
    return f"{text}    # {', '.join(tilings)}" if tilings else text
