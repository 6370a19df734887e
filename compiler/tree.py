"""Unit programs before encoding, checked and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from compiler.program import Advance, Affine, Emit, Item, Left, Loop, Nonzero, UnitTree, Window
from kohakuaccel.errors import InternalError
from kohakutpu.config import SEMAPHORES

SLOTS = 2


def verify_trees(trees: Sequence[UnitTree]) -> None:
    """Check what every pass after placement relies on.

    Affine forms name loops around them; waits and posts fit an instruction; all together, every
    semaphore is posted exactly as often as it is waited for.

    Raises
    ------
    InternalError
        If a pass broke it.
    """
    balance: Counter[tuple[int, int]] = Counter()
    for tree in trees:
        _verify(tree.body, {}, 1, tree.node, balance)
    for (node, semaphore), surplus in balance.items():
        if surplus:
            what = "posted" if surplus > 0 else "waited for"
            raise InternalError(
                f"semaphore {semaphore} of node {node} is {what} {abs(surplus)} times too often"
            )


def _verify(
    body: Sequence[Item],
    around: dict[Loop, None],
    times: int,
    node: int,
    balance: Counter[tuple[int, int]],
) -> None:
    for item in body:
        if isinstance(item, Loop):
            _verify(item.body, {**around, item: None}, times * item.count, node, balance)
        elif isinstance(item, Emit):
            if len(item.waits) > SLOTS or len(item.posts) > SLOTS:
                raise InternalError(f"{item.record.name} has more than {SLOTS} waits or posts")
            for semaphore, count in item.waits:
                balance[node, semaphore] -= count * times
            for post in item.posts:
                balance[post] += times
            if any(not 0 <= s < SEMAPHORES for s, _ in item.waits):
                raise InternalError(f"{item.record.name} waits for a semaphore that does not exist")
            for name, value in item.operands.items():
                for loop in _loops(value):
                    if loop.count != 1 and loop not in around:
                        raise InternalError(
                            f"{item.record.name} {name} names loop {loop.name}, not around it"
                        )


def _loops(value: Any) -> Iterator[Loop]:
    if isinstance(value, (Left, Nonzero)):
        value = value.position
    elif isinstance(value, Window):
        value = value.base
    if isinstance(value, Affine):
        yield from (loop for loop, stride in value.terms if stride)


def show_trees(trees: Sequence[UnitTree]) -> str:
    """Return unit programs as text."""
    lines: list[str] = []
    for tree in trees:
        lines.append(f"unit {tree.node} ({tree.kind})")
        _show(tree.body, "  ", lines)
    return "\n".join(lines)


def _show(body: Sequence[Item], margin: str, lines: list[str]) -> None:
    for item in body:
        if isinstance(item, Loop):
            lines.append(f"{margin}for {item.name} in {item.count}:")
            _show(item.body, margin + "  ", lines)
        elif isinstance(item, Advance):
            lines.append(f"{margin}advance {item.ring.name}")
        else:
            operands = " ".join(f"{n}={_text(v)}" for n, v in item.operands.items())
            waits = "".join(f" wait s{s}>={count}" for s, count in item.waits)
            posts = "".join(f" post n{node}:s{s}" for node, s in item.posts)
            lines.append(f"{margin}{item.record.name.lower()} {operands}{waits}{posts}")


def _text(value: Any) -> str:
    if isinstance(value, Left):
        return f"{value.limit}-({_text(value.position)})"
    if isinstance(value, Nonzero):
        return f"({_text(value.position)})!=0"
    if isinstance(value, Window):
        place = {"none": "", "imm": str(value.value)}.get(value.kind, _text(value.base))
        return f"{value.kind}[{place}]/{value.stride}"
    if isinstance(value, Affine):
        parts = [f"operand{value.operand}"] if value.operand is not None else []
        parts += [value.ring.name.replace(" ", "_")] if value.ring is not None else []
        parts += [f"{stride}*{loop.name.replace(' ', '_')}" for loop, stride in value.terms]
        parts += [str(value.constant)] if value.constant or not parts else []
        return "+".join(parts)
    return str(value)
