"""Where things lie in a mesh: what is behind each output of a router, and whose memory is whose."""

from enum import Enum

from kohakutpu.config import Machine, Node


class Direction(Enum):
    """A port of a router; ``NORTH`` is the row above in the picture."""

    NORTH = "north"
    EAST = "east"
    SOUTH = "south"
    WEST = "west"
    LOCAL = "local"

    @property
    def opposite(self) -> "Direction":
        """The port at the other end of the link."""
        return _OPPOSITES[self]

    @property
    def step(self) -> tuple[int, int]:
        """Columns and rows to the neighbour."""
        return _STEPS[self]

    @property
    def sources(self) -> frozenset["Direction"]:
        """The inputs whose flits may leave here: from X into Y, never back, never from Y into X."""
        if self is Direction.LOCAL:
            return frozenset(Direction)
        if self in (Direction.EAST, Direction.WEST):
            return frozenset({self.opposite, Direction.LOCAL})
        return frozenset(Direction) - {self}


_STEPS = {
    Direction.NORTH: (0, -1),
    Direction.EAST: (1, 0),
    Direction.SOUTH: (0, 1),
    Direction.WEST: (-1, 0),
    Direction.LOCAL: (0, 0),
}
_OPPOSITES = {
    Direction.NORTH: Direction.SOUTH,
    Direction.EAST: Direction.WEST,
    Direction.SOUTH: Direction.NORTH,
    Direction.WEST: Direction.EAST,
    Direction.LOCAL: Direction.LOCAL,
}


def behind(machine: Machine, x: int, y: int) -> dict[Direction, int]:
    """Return, for each port of the router at `x`, `y`, the set of nodes behind it in XY order.

    A link that the picture does not have has no entry, nor has ``LOCAL`` at a bare router.
    """
    result: dict[Direction, int] = {}
    for direction in Direction:
        dx, dy = direction.step
        if direction is Direction.LOCAL:
            if machine.rows[y][x] != ".":
                result[direction] = 1 << (y * machine.width + x)
        elif 0 <= x + dx < machine.width and 0 <= y + dy < len(machine.rows):
            result[direction] = sum(
                1 << node.id for node in machine.nodes if towards(node, x, y) is direction
            )
    return result


def towards(node: Node, x: int, y: int) -> Direction:
    """Return the port by which a flit for `node` leaves the router at `x`, `y`."""
    if node.x != x:
        return Direction.EAST if node.x > x else Direction.WEST
    if node.y != y:
        return Direction.SOUTH if node.y > y else Direction.NORTH
    return Direction.LOCAL


def memory_of(machine: Machine, node: Node) -> Node:
    """Return the memory port that `node` reads from and writes to: the nearest, then by id."""
    return min(
        machine.of_kind("M"),
        key=lambda port: (abs(port.x - node.x) + abs(port.y - node.y), port.id),
    )
