"""Decide which address registers a unit's program needs and how long each lives.

Every address, extent or flag that moves with a loop or a ring is a register plus an immediate. A
:class:`Cell` is such a register before it has a number: it holds ``initial + operand base + ring
place + sum(stride * loop index)``. Uses share a cell when what they need of it agrees in every loop
around them; a cell may therefore have strides in sibling loops that different uses want.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from compiler.program import Advance, Affine, Emit, Item, Left, Loop, Nonzero, Ring, Window
from kohakuaccel.errors import InternalError
from kohakuaccel.source import Location
from kohakutpu.config import ADDRESS_BITS, ADDRESS_REGISTERS
from kohakutpu.isa.operands import LOCAL_BITS, MEMORY

Chain = tuple[Loop, ...]

EXTENT_MAX = (1 << 24) - 1
REGISTERS = ADDRESS_REGISTERS - 1  # a0 is always 0


@dataclass(eq=False, slots=True)
class Cell:
    """An address register before it has a number.

    ``strides`` holds, for every loop around a use, what the register gains in one iteration.
    ``top`` is the outermost loop in which it moves; the register is set right before it. A cell
    without one, and a ring's, is set before the statement ``anchor`` of the outermost body.
    ``each_use`` sets it before every instruction instead, to save registers.
    """

    operand: int | None
    initial: int
    ring: Ring | None
    top: Loop | None
    anchor: Item
    name: str
    loc: Location | None
    strides: dict[Loop, int] = field(default_factory=dict[Loop, int])
    first: int = 0
    last: int = 0
    each_use: bool = False
    register: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """How one operand is written: a cell (``None`` for ``a0``) and an immediate."""

    cell: Cell | None
    imm: int


@dataclass(eq=False, slots=True)
class Positions:
    """Where items stand.

    Attributes
    ----------
    start, end : dict
        The number of an item in program order; a loop ends after its body.
    outermost : dict
        The statement of the outermost body that an item belongs to.
    advances : dict
        For a ring, the loops around each place where it moves on.
    touches : dict
        For a ring, the statements of the outermost body that move or use it.
    """

    start: dict[Item, int] = field(default_factory=dict[Item, int])
    end: dict[Item, int] = field(default_factory=dict[Item, int])
    outermost: dict[Item, Item] = field(default_factory=dict[Item, Item])
    advances: dict[Ring, list[Chain]] = field(default_factory=dict[Ring, "list[Chain]"])
    touches: dict[Ring, list[Item]] = field(default_factory=dict[Ring, "list[Item]"])


def walk(body: list[Item], chain: Chain = ()) -> Iterator[tuple[Item, Chain]]:
    """Yield every item with the loops around it, in program order, a loop before its body."""
    for item in body:
        yield item, chain
        if isinstance(item, Loop):
            yield from walk(item.body, (*chain, item))


def canonical_rings(body: list[Item]) -> dict[Ring, Ring | None]:
    """Map every ring to the one whose register it can share, ``None`` if it never moves.

    Rings share when they have the same number of places of the same size and always move on
    together: then their distances from their bases are always equal.
    """
    moves: dict[Ring, list[tuple[int, int]]] = {}

    def visit(items: list[Item]) -> None:
        run = 0
        for index, item in enumerate(items):
            if isinstance(item, Advance):
                moves.setdefault(item.ring, []).append((id(items), run))
            else:
                run = index + 1
                if isinstance(item, Loop):
                    visit(item.body)

    visit(body)
    leaders: dict[tuple[object, ...], Ring] = {}
    result: dict[Ring, Ring | None] = {}
    for ring, places in moves.items():
        if ring.slots == 1:
            result[ring] = None
        else:
            result[ring] = leaders.setdefault((ring.size, ring.slots, tuple(places)), ring)
    return result


class Assignment:
    """The cells of one program and how every operand is written with them.

    Parameters
    ----------
    body : list
        A simplified tree.

    Attributes
    ----------
    slots : dict
        For ``(emit, operand name)``, the written form: a :class:`Slot`, or a number of the
        operand's own kind when it needs no register.
    cells : list of Cell
        Every register wanted, in order of first use.
    """

    def __init__(self, body: list[Item]) -> None:
        self.cells: list[Cell] = []
        self.slots: dict[tuple[Emit, str], Slot] = {}
        self.rings = canonical_rings(body)
        self.positions = Positions()
        self.users: dict[Cell, list[Emit]] = {}
        self._groups: dict[tuple[object, ...], list[Cell]] = {}
        self._exact: dict[tuple[object, ...], Cell] = {}
        self._number(body)
        flags: list[tuple[Emit, str, Nonzero, Chain]] = []
        for item, chain in walk(body):
            if isinstance(item, Emit):
                for name, value in item.operands.items():
                    if isinstance(value, Nonzero):
                        flags.append((item, name, value, chain))
                    else:
                        self._place(item, name, value, chain)
        for emit, name, value, chain in flags:
            self._place_flag(emit, name, value, chain)
        self._live_ranges()

    def _number(self, body: list[Item]) -> None:
        position = self.positions
        count = 0

        def visit(items: list[Item], chain: Chain) -> None:
            nonlocal count
            for item in items:
                count += 1
                outermost = chain[0] if chain else item
                if isinstance(item, Advance):
                    leader = self.rings.get(item.ring)
                    if leader is not None:
                        position.advances.setdefault(leader, []).append(chain)
                        position.touches.setdefault(leader, []).append(outermost)
                elif item in position.start:
                    raise InternalError(f"{item} stands twice in the tree")
                position.start.setdefault(item, count)
                position.outermost.setdefault(item, outermost)
                if isinstance(item, Loop):
                    visit(item.body, (*chain, item))
                    count += 1
                position.end[item] = count

        visit(body, ())

    def _place(self, emit: Emit, name: str, value: object, chain: Chain) -> None:
        if isinstance(value, Affine):
            memory = emit.record.by_name[name].kind is MEMORY
            self._place_address(emit, name, value, memory, chain)
        elif isinstance(value, Window):
            self._place_address(emit, name, value.base, False, chain)
        elif isinstance(value, Left):
            self._place_extent(emit, name, value, chain)

    def _place_address(
        self, emit: Emit, name: str, value: Affine, memory: bool, chain: Chain
    ) -> None:
        terms = _terms(value, chain, emit)
        ring = self.rings.get(value.ring) if value.ring is not None else None
        constant = value.constant + (value.ring.base if value.ring is not None else 0)
        initial = 0
        if memory:
            constant %= 1 << ADDRESS_BITS
        elif not 0 <= constant < 1 << LOCAL_BITS:
            initial, constant = constant, 0
            if ring is not None:
                raise InternalError(f"ring {ring.name} is used at {initial}, outside of any L1")
        if not terms and ring is None and value.operand is None and not initial:
            self.slots[emit, name] = Slot(None, constant)
            return
        if ring is not None:
            self.positions.touches[ring].append(self.positions.outermost[emit])
        cell = self._cell(emit, name, value.operand, initial, ring, terms, chain)
        self._use(emit, name, Slot(cell, constant))

    def _place_extent(self, emit: Emit, name: str, value: Left, chain: Chain) -> None:
        position = value.position
        if position.operand is not None or position.ring is not None:
            raise InternalError(f"the position of an extent must be affine in loops: {value}")
        terms = _terms(position, chain, emit)
        window = window_size(emit, name)
        spans = [stride * (loop.count - 1) for loop, stride in terms]
        low = position.constant + sum(span for span in spans if span < 0)
        high = position.constant + sum(span for span in spans if span > 0)
        if value.limit - high >= window or value.limit <= low or low == high:
            # The same for every iteration.
            self.slots[emit, name] = Slot(None, max(0, min(window, value.limit - high)))
            return
        limit = value.limit - position.constant
        fitting = max(0, min(EXTENT_MAX, limit))
        cell = self._cell(emit, name, None, fitting - limit, None, terms, chain)
        self._use(emit, name, Slot(cell, fitting))

    def _place_flag(self, emit: Emit, name: str, value: Nonzero, chain: Chain) -> None:
        position = value.position
        if position.operand is not None or position.ring is not None:
            raise InternalError(f"a flag's position must be affine in loops: {value}")
        terms = _terms(position, chain, emit)
        if not terms:
            self.slots[emit, name] = Slot(None, int(position.constant != 0))
            return
        cell = None
        if position.constant == 0 and all(stride > 0 for _, stride in terms):
            cell = self._cell_that_grows(terms, chain)
        if cell is None:
            cell = self._cell(emit, name, None, position.constant, None, terms, chain)
        self._use(emit, name, Slot(cell, 0))

    def _cell_that_grows(self, terms: tuple[tuple[Loop, int], ...], chain: Chain) -> Cell | None:
        """Return a cell that is 0 exactly when every loop of ``terms`` is in its first pass."""
        moving = {loop for loop, _ in terms}
        for cell in self._groups.get((None, 0, None, terms[0][0], None), ()):
            if all(
                (cell.strides.get(loop, 1) > 0) if loop in moving else not cell.strides.get(loop, 0)
                for loop in chain
            ):
                for loop in chain:
                    cell.strides.setdefault(loop, dict(terms).get(loop, 0))
                return cell
        return None

    def _cell(
        self,
        emit: Emit,
        name: str,
        operand: int | None,
        initial: int,
        ring: Ring | None,
        terms: tuple[tuple[Loop, int], ...],
        chain: Chain,
    ) -> Cell:
        """Return a cell that holds the form at ``chain``, an old one wherever possible."""
        anchor = self.positions.outermost[emit]
        exact = (operand, initial, ring, terms, chain, anchor if not terms else None)
        if exact in self._exact:
            return self._exact[exact]
        wanted = {loop: 0 for loop in chain}
        wanted.update(terms)
        top = terms[0][0] if terms and ring is None else None
        # What moves in no loop is set anew for each statement of the outermost body.
        group = (operand, initial, ring, top, anchor if top is None and ring is None else None)
        for cell in self._groups.setdefault(group, []):
            if all(cell.strides.get(loop, stride) == stride for loop, stride in wanted.items()):
                cell.strides.update(wanted)
                self._exact[exact] = cell
                return cell
        cell = Cell(operand, initial, ring, top, anchor, f"{emit.record.name} {name}", emit.loc)
        if ring is not None:
            for around in self.positions.advances[ring]:
                for loop in around:
                    cell.strides[loop] = 0
            if any(cell.strides.get(loop, s) != s for loop, s in wanted.items()):
                raise InternalError(f"ring {ring.name} moves on inside a loop that moves {name}")
        cell.strides.update(wanted)
        self.cells.append(cell)
        self._groups[group].append(cell)
        self._exact[exact] = cell
        return cell

    def _use(self, emit: Emit, name: str, slot: Slot) -> None:
        self.slots[emit, name] = slot
        assert slot.cell is not None
        users = self.users.setdefault(slot.cell, [])
        if not users or users[-1] is not emit:
            users.append(emit)

    def _live_ranges(self) -> None:
        position = self.positions
        for cell in self.cells:
            if cell.ring is not None:
                # A place is state: followed from the first time the ring is touched.
                cell.anchor = min(position.touches[cell.ring], key=position.start.__getitem__)
                ends = [position.end[position.outermost[emit]] for emit in self.users[cell]]
                cell.first, cell.last = position.start[cell.anchor], max(ends)
            else:
                around = cell.top if cell.top is not None else cell.anchor
                cell.first, cell.last = position.start[around], position.end[around]


def _terms(value: Affine, chain: Chain, emit: Emit) -> tuple[tuple[Loop, int], ...]:
    """Return the terms that move, outermost loop first."""
    strides: dict[Loop, int] = {}
    for loop, stride in value.terms:
        strides[loop] = strides.get(loop, 0) + stride
    inside = tuple((loop, strides.pop(loop)) for loop in chain if loop in strides)
    for loop, stride in strides.items():
        if loop.count != 1 and stride:
            raise InternalError(
                f"{emit.record.name} names the loop {loop.name} that is not around it"
            )
    return tuple((loop, stride) for loop, stride in inside if stride)


_WINDOWS = {
    ("FILL", "rows"): ("g", 4),
    ("FILL", "k"): ("nk", 32),
    ("DRAIN", "rows"): ("gm", 4),
    ("DRAIN", "cols"): ("gn", 4),
    ("VFILL", "row_extent"): ("rows", 1),
    ("VFILL", "col_extent"): ("cols", 1),
    ("VDRAIN", "row_extent"): ("rows", 1),
    ("VDRAIN", "col_extent"): ("cols", 1),
}


def window_size(emit: Emit, name: str) -> int:
    """Return the window that clamps an extent of ``emit``."""
    operand, scale = _WINDOWS[emit.record.name, name]
    return int(emit.operands[operand]) * scale
