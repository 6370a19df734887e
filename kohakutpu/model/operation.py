"""An engine instruction made ready to run many times, and how its operands resolve.

A front end calls `Operation.resolve` when it hands the instruction to the engine; the engine calls
`Operation.run` with what came out. Nothing looks at encodings or names of enums after this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kohakutpu.config import ADDRESS_BITS, Machine
from kohakutpu.costs import START, Work
from kohakutpu.isa import Address, Extent, Instruction
from kohakutpu.model.faults import Violation

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit

ADDRESS_MASK = (1 << ADDRESS_BITS) - 1
SIGN = 1 << (ADDRESS_BITS - 1)
SPAN = 1 << ADDRESS_BITS

Resolve = Callable[[list[int]], Any]


class Operation:
    """One engine instruction, whatever its pc.

    Attributes
    ----------
    queue : int
        The engine: 0, 1 or 2.
    waits : tuple of (int, int)
        Semaphore and count.
    posts : tuple of (int, int)
        Node and semaphore.
    latency : int
        Cycles between the end of the engine's work and the posts.
    resolve : callable
        From the address registers to the argument of `run`.
    """

    __slots__ = ("latency", "name", "posts", "queue", "resolve", "waits")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        engine = instruction.engine
        assert engine is not None, "a control instruction has no engine"
        self.name: str = instruction.name
        self.queue: int = engine
        self.waits = waits_of(instruction)
        self.posts = posts_of(instruction, machine)
        self.latency = 0
        self.resolve: Resolve = nothing

    def run(self, unit: Unit, args: Any) -> Work:
        """Do all of it at once and return what it costs.

        Raises
        ------
        Violation
            If it breaks a rule; nothing has changed then.
        """
        raise NotImplementedError


class Sync(Operation):
    """``SYNC``: waits and posts in the queue of an engine, and nothing else."""

    __slots__ = ()

    def run(self, unit: Unit, args: Any) -> Work:
        """Cost the cycles to take it from the queue."""
        return Work(START, 0)


def waits_of(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """Return its waits as semaphore and count."""
    return tuple((wait.semaphore, wait.count) for wait in instruction.waits)


def posts_of(instruction: Instruction, machine: Machine) -> tuple[tuple[int, int], ...]:
    """Return its posts as node and semaphore.

    Raises
    ------
    Violation
        ``ILLEGAL`` if a node has no semaphores.
    """
    posts = tuple((post.node, post.semaphore) for post in instruction.posts)
    units = {node.id for node in machine.nodes if node.kind in "CV"}
    for node, semaphore in posts:
        if node not in units:
            raise Violation(
                "ILLEGAL",
                f"a post to node {node}, which is no unit; units are {sorted(units)}",
                node=node,
                semaphore=semaphore,
            )
    return posts


def nothing(a: list[int]) -> None:
    """Resolve an instruction without operands."""


def address_of(address: Address) -> Callable[[list[int]], int]:
    """Return a function that resolves `address`."""
    reg, imm = address.reg, address.imm
    return lambda a: (a[reg] + imm) & ADDRESS_MASK


def extent_of(extent: Extent, window: int) -> Callable[[list[int]], int]:
    """Return a function that resolves `extent`, clamped to ``0 .. window``."""
    limit, reg = extent.limit, extent.reg

    def resolve(a: list[int]) -> int:
        position = a[reg]
        left = limit - position if position < SIGN else limit - position + SPAN
        return 0 if left < 0 else min(left, window)

    return resolve


def receivers(nodes: int, kind: str, machine: Machine, own: int | None) -> tuple[int, ...]:
    """Return the nodes of a bit set, all of which must be units of `kind`; `own` if it is empty.

    Raises
    ------
    Violation
        ``ILLEGAL`` if the set names another node, or is empty without `own`.
    """
    if nodes == 0 and own is not None:
        return (own,)
    named = tuple(node for node in range(nodes.bit_length()) if nodes >> node & 1)
    allowed = {node.id for node in machine.of_kind(kind)}
    wrong = [node for node in named if node not in allowed]
    if wrong or not named:
        raise Violation(
            "ILLEGAL",
            f"the receivers {list(named)} must be nodes of kind {kind}, which are "
            f"{sorted(allowed)}",
            nodes=nodes,
        )
    return named
