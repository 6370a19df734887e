"""Put the stages of a kernel together into one program a unit, with barriers between them."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.placed import Placed, Round
from compiler.program import Emit, Item, UnitTree
from kohakutpu import isa
from kohakutpu.config import Machine


def unit_trees(placed: Sequence[Placed | Round], machine: Machine) -> list[UnitTree]:
    """Return the program of every unit that has work, with barriers between stages."""
    return [
        UnitTree(node.id, node.kind, _joined(placed, node.id))
        for node in machine.nodes
        if _works(placed, node.id)
    ]


def _works(placed: Sequence[Placed | Round], node: int) -> bool:
    return any(
        node in part.items if isinstance(part, Placed) else _works(part.body, node)
        for part in placed
    )


def _joined(placed: Sequence[Placed | Round], node: int) -> list[Item]:
    result: list[Item] = []
    waiting = False  # for a barrier, before anything follows
    for part in placed:
        if waiting:
            result.append(Emit(isa.BARRIER, {}))
        if isinstance(part, Placed):
            result += part.items.get(node, [])
            waiting = True
        else:
            loop = part.loops[node]
            loop.body = [*_joined(part.body, node), Emit(isa.BARRIER, {})]
            result.append(loop)
            waiting = False
    return result
