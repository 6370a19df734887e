"""EXEC: rows of elements through the vector pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kohakutpu import costs
from kohakutpu.config import WORD_BYTES, Machine
from kohakutpu.costs import Work
from kohakutpu.isa import Destination, Instruction, Source
from kohakutpu.model import arithmetic
from kohakutpu.model.deferred import CANONICAL, COLUMN, COMBINE, NARROW, REDUCE, Deferred
from kohakutpu.model.faults import Violation
from kohakutpu.model.held import HeldStorage
from kohakutpu.model.operation import Operation, address_of
from kohakutpu.model.tables import Tables, Tabulated
from kohakutpu.model.window import Window, disjoint, span
from kohakutpu.numerics import fp16, fp32

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit

PLANS = 64  # windows that an instruction remembers: a loop over a ring of buffers has few


class Hull(NamedTuple):
    """From where up to where a window reaches."""

    in_l1: bool
    start: int
    stop: int

    def meets(self, other: Hull) -> bool:
        """Tell whether they have a place in common."""
        return self.in_l1 == other.in_l1 and self.start < other.stop and other.start < self.stop


class Place(NamedTuple):
    """A window and what it is a window of."""

    kind: str  # reg, l1h, l1f or row
    window: Window  # as the instruction says; for `row`, one row of beats
    access: Window  # the same elements: one row if it is repeated, no stride if it is alone

    @property
    def in_l1(self) -> bool:
        """It lies in L1, not in the register file."""
        return self.kind[0] == "l"


class Plan(NamedTuple):
    """An EXEC whose windows are known and checked."""

    sources: tuple[Place | np.float32 | None, ...]
    clean: bool  # no source can hold a subnormal
    dst: Place | None
    red: Place | None
    shape: tuple[int, int]
    work: Work
    reads: tuple[Hull, ...]
    writes: tuple[Hull, ...]


class Execute(Operation):
    """``EXEC``: ``dst = unary(f(a, b, c))`` and the reduction of its rows."""

    __slots__ = ("cols", "dst", "f", "machine", "plans", "reduce", "rows", "sources", "unary")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.latency = costs.executed(instruction.reduce != "none")
        self.machine = machine
        self.rows: int = instruction.rows
        self.cols: int = instruction.cols
        self.f: str = instruction.f
        self.unary: str = instruction.unary
        self.reduce: str = instruction.reduce
        self.sources: tuple[Source, ...] = (instruction.a, instruction.b, instruction.c)
        self.dst: Destination = instruction.dst
        self.plans: dict[tuple[int, ...], Plan] = {}
        a, b, c, dst = (address_of(o.base) for o in (*self.sources, self.dst))
        red = address_of(instruction.red)
        self.resolve = lambda r: (a(r), b(r), c(r), dst(r), red(r))

    def run(self, unit: Unit, args: tuple[int, ...]) -> Work:
        """See `Operation.run`."""
        plan = self.plans.get(args)
        if plan is None:
            if len(self.plans) >= PLANS:
                self.plans.clear()
            plan = self.plans[args] = self._plan(unit, args)
        unit.follows = any(one.meets(other) for one in plan.reads for other in unit.unread)
        unit.unread = plan.writes
        if unit.tables is None:
            self._plainly(unit, plan)
        else:
            self._later(unit, unit.tables, plan)
        return plan.work

    def _plainly(self, unit: Unit, plan: Plan) -> None:
        """Compute and write the results: the plain way."""
        operands: list[Any] = []
        for source in plan.sources:
            if isinstance(source, Place):
                found = (unit.l1 if source.in_l1 else unit.registers).get(source.access)
                if source.kind == "l1h":
                    found = fp16.to_fp32(found)
                operands.append(found.reshape(self.rows, 1) if source.kind == "row" else found)
            else:
                operands.append(source)
        values = arithmetic.combine(self.f, self.unary, operands)
        # Repeated rows and scalars alone make fewer values.
        values = np.broadcast_to(values, plan.shape)
        if plan.red is not None:
            row = arithmetic.reduced(self.reduce, values)
            unit.registers.put(plan.red.access, row.reshape(1, self.rows))
        if plan.dst is not None:
            if plan.dst.kind == "reg":
                unit.registers.put(plan.dst.access, values)
            elif plan.dst.kind == "l1f":
                unit.l1.put(plan.dst.access, fp32.canonical(values))
            else:
                unit.l1.put(plan.dst.access, fp16.from_fp32(values))

    def _later(self, unit: Unit, tables: Tables, plan: Plan) -> None:
        """Note the same results, as functions of FP16 codes or to be computed later."""
        operands: list[Any] = []
        codes: NDArray[np.uint16] | None = None
        alike = True  # all that varies is a function of the same codes
        for source in plan.sources:
            if not isinstance(source, Place):
                operands.append(source)
                continue
            storage = unit.l1 if source.in_l1 else unit.registers
            assert isinstance(storage, HeldStorage)
            value = storage.source(source.access)
            if source.kind == "row":
                value = Deferred(COLUMN, None, (value,), (self.rows, 1))
            operands.append(value)
            if type(value) is not Tabulated:
                alike = False
            elif codes is None:
                codes = value.codes
            elif codes is not value.codes:
                alike = False
        result: Deferred | Tabulated | None = None
        if codes is not None and alike and codes.shape == plan.shape:
            result = tables.apply(self.f, self.unary, operands)
        if result is None:
            parameter = self.f, self.unary, plan.clean
            result = Deferred(COMBINE, parameter, tuple(operands), plan.shape)
        if plan.red is not None:
            row = Deferred(REDUCE, self.reduce, (result,), (1, self.rows))
            unit.registers.put(plan.red.access, row)
        if plan.dst is not None:
            if plan.dst.kind == "reg":
                unit.registers.put(plan.dst.access, result)
            elif plan.dst.kind == "l1f":
                if type(result) is Deferred:  # a table is in canonical form
                    result = Deferred(CANONICAL, None, (result,), plan.shape)
                unit.l1.put(plan.dst.access, result)
            elif type(result) is Tabulated:
                rounded = Tabulated(tables.rounded(result.table), result.codes)
                unit.l1.put(plan.dst.access, rounded)
            else:
                unit.l1.put(plan.dst.access, Deferred(NARROW, None, (result,), plan.shape))

    def _plan(self, unit: Unit, args: tuple[int, ...]) -> Plan:
        sources: list[Place | np.float32 | None] = []
        for source, base in zip(self.sources, args, strict=False):
            if source.kind == "none":
                sources.append(None)
            elif source.kind == "imm":
                sources.append(np.float32(fp32.flush(np.uint32(source.bits).view(np.float32))))
            else:
                sources.append(self._place(unit, source.kind, base, source.stride))
        dst = red = None
        if self.dst.kind != "none":
            dst = self._place(unit, self.dst.kind, args[3], self.dst.stride)
            width = span(dst.window, self._granule(dst))
            if self.rows > 1 and dst.window.stride < width:
                raise Violation(
                    "OVERLAP",
                    f"rows of dst take {width} and are {dst.window.stride} apart",
                    span=width,
                    stride=dst.window.stride,
                )
        if self.reduce != "none":
            red = self._place(unit, "row", args[4], 0)
        names = ("a", "b", "c")
        for target, what in ((dst, "dst"), (red, "red")):
            if target is not None:
                for name, source in zip(names, sources, strict=True):
                    if isinstance(source, Place):
                        self._require_apart(target, what, source, name, same=True)
        if dst is not None and red is not None:
            self._require_apart(red, "red", dst, "dst", same=False)
        l1 = tuple(p.window.size for p in (*sources, dst) if isinstance(p, Place) and p.in_l1)
        # Results have none, nor do FP16 numbers; what memory or a tile holds as FP32 may.
        clean = all(source.kind != "l1f" for source in self.sources)
        work = costs.execute(self.machine, self.rows, self.cols, l1, self.reduce != "none")
        reads = tuple(self._hull(p) for p in sources if isinstance(p, Place))
        writes = tuple(self._hull(p) for p in (dst, red) if p is not None)
        shape = self.rows, self.cols
        return Plan(tuple(sources), clean, dst, red, shape, work, reads, writes)

    def _hull(self, place: Place) -> Hull:
        window = place.window
        length = (window.rows - 1) * window.stride + span(window, self._granule(place))
        return Hull(place.in_l1, window.base, window.base + length)

    def _place(self, unit: Unit, kind: str, base: int, stride: int) -> Place:
        if kind == "row":
            window = access = Window(base, 0, 1, self.rows, 4)
        else:
            window = Window(base, stride, self.rows, self.cols, 2 if kind == "l1h" else 4)
            access = window
            if stride == 0 or self.rows == 1:
                access = Window(base, 0, 1, self.cols, window.size)
        place = Place(kind, window, access)
        (unit.l1 if place.in_l1 else unit.registers).check(place.window)
        return place

    def _granule(self, place: Place) -> int:
        return WORD_BYTES if place.in_l1 else 4 * self.machine.lanes

    def _require_apart(
        self, target: Place, what: str, other: Place, name: str, *, same: bool
    ) -> None:  # fmt: skip
        if target.in_l1 != other.in_l1 or (same and target == other):
            return
        if not disjoint(target.window, other.window, self._granule(target)):
            one, two = target.window, other.window
            raise Violation(
                "OVERLAP",
                f"{what} ({target.kind} at {one.base}, stride {one.stride}) overlaps {name} "
                f"({other.kind} at {two.base}, stride {two.stride}) and is not the same window",
                base=one.base,
                stride=one.stride,
                other_base=two.base,
                other_stride=two.stride,
                rows=self.rows,
                cols=self.cols,
            )
