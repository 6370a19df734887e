"""Turn a unit's tree into a list of instructions with loops and address registers.

A register moves on by ``ADDA`` at the end of a loop's body. After an inner loop it owes the way
back; that debt is paid in one ``ADDA`` together with the step of the loop around it, or with the
step of its ring. Until then the immediates of its users make up for it as far as they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.passes.registers import EXTENT_MAX, REGISTERS, Assignment, Cell, walk
from compiler.program import (
    Advance,
    Affine,
    Emit,
    Item,
    Left,
    Loop,
    Nonzero,
    Ring,
    UnitTree,
    Window,
)
from kohakuaccel.errors import CapacityError
from kohakuaccel.source import Location
from kohakutpu import isa
from kohakutpu.config import ADDRESS_BITS, LOOP_DEPTH
from kohakutpu.isa.operands import FLAG, LOCAL_BITS, MEMORY, SOURCE


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction of a program; ``operand`` is what a relocation adds to a ``SETA``."""

    instruction: isa.Instruction
    operand: int | None = None
    loc: Location | None = None
    statement: str = ""


def roll(tree: UnitTree) -> list[Line]:
    """Return the program of a simplified tree, ``HALT`` at its end.

    Raises
    ------
    CapacityError
        If it needs more address registers or deeper loops than the front end has.
    """
    assignment = Assignment(tree.body)
    allocate(assignment, tree)
    program = Program(assignment)
    program.emit_body(tree.body, depth=0)
    program.lines.append(Line(isa.HALT()))
    return program.lines


def allocate(assignment: Assignment, tree: UnitTree) -> None:
    """Give every cell a register; cells whose lives do not meet may have the same one.

    Raises
    ------
    CapacityError
        If too many are alive at once even when constants are set anew before each use.
    """
    if _try_allocate(assignment.cells):
        return
    for cell in assignment.cells:
        cell.each_use = cell.top is None and cell.ring is None
    lasting = [cell for cell in assignment.cells if not cell.each_use]
    at_once: dict[Emit, int] = {}
    for cell in assignment.cells:
        for emit in assignment.users[cell] if cell.each_use else ():
            at_once[emit] = at_once.get(emit, 0) + 1
    limit = REGISTERS - max(at_once.values(), default=0)
    if not _try_allocate(lasting, limit):
        _refuse(lasting, limit, tree)


def _try_allocate(cells: list[Cell], limit: int = REGISTERS) -> bool:
    ends = [0] * (limit + 1)  # of the last life of each register
    for cell in sorted(cells, key=lambda cell: cell.first):
        free = [r for r in range(1, limit + 1) if ends[r] < cell.first]
        if not free:
            return False
        cell.register = free[0]
        ends[free[0]] = cell.last
    return True


def _refuse(cells: list[Cell], limit: int, tree: UnitTree) -> None:
    crowded = max(
        ([c for c in cells if c.first <= at.first <= c.last] for at in cells),
        key=len,
    )
    raise CapacityError(
        f"the program of unit {tree.node} ({tree.kind}) needs {len(crowded)} address registers "
        f"at once, there are {limit}",
        loc=crowded[0].loc,
        fix="split the stage, so that fewer buffers and windows move in one loop",
        notes=[(cell.loc, _describe(cell)) for cell in crowded],
    )


def _describe(cell: Cell) -> str:
    moves = ", ".join(
        f"{loop.name}: {stride:+d}" for loop, stride in cell.strides.items() if stride
    )
    ring = f", ring {cell.ring.name}" if cell.ring is not None else ""
    base = f", operand {cell.operand}" if cell.operand is not None else ""
    return f"{cell.name}{base}{ring} ({moves or 'constant'})"


class Program:
    """The instructions so far, and what each register owes."""

    def __init__(self, assignment: Assignment) -> None:
        self.lines: list[Line] = []
        self._slots = assignment.slots
        self._rings = assignment.rings
        self._owed: dict[Cell, int] = {}
        self._moved: dict[Cell, int] = {}  # part of what is owed that wraps round the ring
        self._virgin = set(range(1, REGISTERS + 1))
        self._set_before: dict[Item, list[Cell]] = {}
        self._of_ring: dict[Ring, list[Cell]] = {}
        self._last_used_in: dict[Item, list[Cell]] = {}
        self._of_emit: dict[Emit, list[Cell]] = {}
        self._touched: dict[Loop, list[Cell]] = {}
        for cell in assignment.cells:
            self._owed[cell] = self._moved[cell] = 0
            if not cell.each_use:
                before = cell.top if cell.top is not None else cell.anchor
                self._set_before.setdefault(before, []).append(cell)
            if cell.ring is not None:
                self._of_ring.setdefault(cell.ring, []).append(cell)
                last = assignment.positions.outermost[assignment.users[cell][-1]]
                self._last_used_in.setdefault(last, []).append(cell)
            for emit in assignment.users[cell]:
                self._of_emit.setdefault(emit, []).append(cell)

    def emit_body(self, body: list[Item], depth: int) -> None:
        """Append the instructions of ``body``."""
        for item in body:
            for cell in self._set_before.pop(item, ()):
                self._set(cell, depth)
            if isinstance(item, Advance):
                self._advance(item)
            elif isinstance(item, Loop):
                self._loop(item, depth)
            else:
                self._emit(item, depth)
            for cell in self._last_used_in.get(item, ()) if depth == 0 else ():
                assert cell.ring is not None
                self._of_ring[cell.ring].remove(cell)  # nobody asks for its place again

    def _set(self, cell: Cell, depth: int) -> None:
        register = cell.register
        zero = cell.operand is None and cell.initial == 0
        if not (zero and depth == 0 and register in self._virgin):
            instruction = isa.SETA(rd=register, imm=_signed(cell.initial))
            self.lines.append(Line(instruction, cell.operand, cell.loc))
        self._virgin.discard(register)

    def _advance(self, item: Advance) -> None:
        leader = self._rings.get(item.ring)
        if leader is None or leader is not item.ring:
            return  # its leader moves on as well, or it has one place
        for cell in self._of_ring.get(leader, ()):
            self._moved[cell] = (self._moved[cell] + leader.size) % (leader.size * leader.slots)

    def _pay(self, cell: Cell) -> None:
        owed, moved = self._owed[cell], self._moved[cell]
        if not owed and not moved:
            return
        modulo = cell.ring.size * cell.ring.slots if cell.ring is not None and moved else 0
        register = cell.register
        adda = isa.ADDA(rd=register, rs=register, imm=_signed(owed + moved), modulo=modulo)
        self.lines.append(Line(adda))
        self._owed[cell] = self._moved[cell] = 0

    def _loop(self, loop: Loop, depth: int) -> None:
        if depth == LOOP_DEPTH:
            raise CapacityError(
                f"loops nest deeper than {LOOP_DEPTH} at loop {loop.name}",
                loc=_first_location(loop),
                fix="merge batch axes or sweeps, or split the kernel",
            )
        touched = self._touched_in(loop)
        for cell in touched:
            self._pay(cell)
        self.lines.append(Line(isa.LOOP(count=isa.Address(0, loop.count))))
        self.emit_body(loop.body, depth + 1)
        for cell in touched:
            self._owed[cell] += cell.strides.get(loop, 0)
            self._pay(cell)
        self.lines.append(Line(isa.END()))
        for cell in touched:
            if cell.top is not loop:
                self._owed[cell] -= loop.count * cell.strides.get(loop, 0)

    def _touched_in(self, loop: Loop) -> list[Cell]:
        """Return the cells that live around or in ``loop`` and are used or moved inside it."""
        found: dict[Cell, None] = {}
        inside: set[Item | None] = set()
        for item, _ in walk([loop]):
            inside.add(item)
            if isinstance(item, Emit):
                found.update(dict.fromkeys(self._of_emit.get(item, ())))
            elif isinstance(item, Advance):
                found.update(dict.fromkeys(self._of_ring.get(item.ring, ())))
        return [
            cell
            for cell in found
            if not cell.each_use
            and (cell.top is None or cell.top is loop or cell.top not in inside)
        ]

    def _emit(self, emit: Emit, depth: int) -> None:
        last = REGISTERS
        for cell in self._of_emit.get(emit, ()):
            if cell.each_use:
                cell.register, last = last, last - 1
                self._set(cell, depth=1)
            elif not self._bearable(emit, cell):
                self._pay(cell)
        operands = {name: self._operand(emit, name) for name in emit.operands}
        instruction = emit.record(
            **operands,
            waits=tuple(isa.Wait(semaphore, count) for semaphore, count in emit.waits),
            posts=tuple(isa.Post(node, semaphore) for node, semaphore in emit.posts),
        )
        self.lines.append(Line(instruction, None, emit.loc, emit.statement))

    def _bearable(self, emit: Emit, cell: Cell) -> bool:
        """Tell whether the immediates of ``emit`` can make up for what ``cell`` owes."""
        owed = self._owed[cell]
        if self._moved[cell]:
            return False
        for name in emit.operands if owed else ():
            slot = self._slots.get((emit, name))
            if slot is None or slot.cell is not cell:
                continue
            value = emit.operands[name]
            if isinstance(value, Left):
                good = 0 <= slot.imm - owed <= EXTENT_MAX
            elif isinstance(value, Nonzero):
                good = False
            else:
                memory = emit.record.by_name[name].kind is MEMORY
                good = memory or 0 <= slot.imm + owed < 1 << LOCAL_BITS
            if not good:
                return False
        return True

    def _operand(self, emit: Emit, name: str) -> Any:
        value = emit.operands[name]
        slot = self._slots.get((emit, name))
        if slot is None:
            if isinstance(value, bool) and emit.record.by_name[name].kind is FLAG:
                return isa.Flag(value, 0)
            return value
        register, owed = 0, 0
        if slot.cell is not None:
            register, owed = slot.cell.register, self._owed.get(slot.cell, 0)
        if isinstance(value, Affine):
            return isa.Address(register, (slot.imm + owed) % (1 << ADDRESS_BITS))
        if isinstance(value, Left):
            return isa.Extent(slot.imm - owed, register)
        if isinstance(value, Nonzero):
            return isa.Flag(bool(slot.imm), register)
        assert isinstance(value, Window)
        return _window(value, emit.record.by_name[name].kind is SOURCE, register, slot.imm + owed)


def _window(value: Window, source: bool, register: int, imm: int) -> isa.Source | isa.Destination:
    kinds = isa.Source if source else isa.Destination
    if value.kind == "none":
        return kinds.none()
    if value.kind == "imm":
        return isa.Source.imm(value.value)
    base = isa.Address(register, imm)
    if value.kind == "row":
        return isa.Source.row(base)
    return kinds(value.kind, base=base, stride=value.stride)


def _signed(value: int) -> int:
    """Return ``value`` modulo the size of a register, in the range an immediate takes."""
    value %= 1 << ADDRESS_BITS
    return value - (1 << ADDRESS_BITS) if value >> (ADDRESS_BITS - 1) else value


def _first_location(loop: Loop) -> Location | None:
    return next((i.loc for i, _ in walk([loop]) if isinstance(i, Emit) and i.loc), None)
