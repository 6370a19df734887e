"""A trace as text that a person can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kohakuaccel.ir.nodes import Buffer, Grid, Index, Repeat, Statement, Store, Trace, Value

_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "=="}


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
    texts: dict[int, str] = {}
    for node in order:
        text = _node(node, texts)
        if uses[id(node)] > 1 and node.args:
            names[id(node)] = f"%{len(names) + 1}"
            definitions.append(f"{names[id(node)]} = {_outer(text)}")
            text = names[id(node)]
        texts[id(node)] = text
    return definitions, _outer(texts[id(value)])


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


def _node(node: Value, texts: dict[int, str]) -> str:
    if node.view is not None:
        return str(node.view)
    if node.tile is not None:
        return str(node.tile.name)
    if node.op == "const":
        return f"{node.number:g}" if isinstance(node.number, float) else str(node.number)
    args = [texts[id(arg)] for arg in node.args]
    if node.op in _INFIX:
        return f"({args[0]} {_INFIX[node.op]} {args[1]})"
    return f"{node.op}({', '.join(_outer(arg) for arg in args)})"


def _outer(text: str) -> str:
    """Return ``text`` without parentheses that enclose all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


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
