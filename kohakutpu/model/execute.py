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
from kohakutpu.model.faults import Violation
from kohakutpu.model.held import HeldStorage
from kohakutpu.model.operation import Operation, address_of
from kohakutpu.model.tables import Tables, Tabulated
from kohakutpu.model.window import Window, disjoint, span
from kohakutpu.numerics import fp16, fp32

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit

PLANS = 64  # windows that an instruction remembers: a loop over a ring of buffers has few


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


class Execute(Operation):
    """``EXEC``: ``dst = unary(f(a, b, c))`` and the reduction of its rows."""

    __slots__ = ("cols", "dst", "f", "machine", "plans", "reduce", "rows", "sources", "unary")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.latency = costs.EXEC
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
        tables = unit.tables
        values = self._values(unit, plan) if tables is None else self._held(unit, tables, plan)
        dst, red = plan.dst, plan.red
        if red is not None:
            dense = values.values if type(values) is Tabulated else values
            row = arithmetic.reduced(self.reduce, dense)
            unit.registers.put(red.access, row.reshape(1, self.rows))
        if dst is not None:
            if dst.kind == "reg":
                unit.registers.put(dst.access, values)
            else:
                unit.l1.put(dst.access, _shown(tables, values, dst.kind))
        return plan.work

    def _values(self, unit: Unit, plan: Plan) -> NDArray[np.float32]:
        """Return ``[rows, cols]`` results: the plain way."""
        operands: list[Any] = []
        for source in plan.sources:
            if isinstance(source, Place):
                found = (unit.l1 if source.in_l1 else unit.registers).get(source.access)
                if source.kind == "l1h":
                    found = fp16.to_fp32(found)
                operands.append(found.reshape(self.rows, 1) if source.kind == "row" else found)
            else:
                operands.append(source)
        return self._shaped(arithmetic.combine(self.f, self.unary, operands))

    def _held(
        self, unit: Unit, tables: Tables, plan: Plan
    ) -> NDArray[np.float32] | Tabulated:  # fmt: skip
        """Return the same from windows as they are held, and as a table if that pays."""
        operands: list[Any] = []
        codes: NDArray[np.uint16] | None = None
        one = True  # all that varies is a function of the same codes
        for source in plan.sources:
            if not isinstance(source, Place):
                operands.append(source)
                continue
            if source.kind == "row":
                operands.append(unit.registers.get(source.access).reshape(self.rows, 1))
                one = False
                continue
            storage = unit.l1 if source.in_l1 else unit.registers
            assert isinstance(storage, HeldStorage)
            value = storage.source(source.access)
            operands.append(value)
            if type(value) is not Tabulated:
                one = False
            elif codes is None:
                codes = value.codes
            elif codes is not value.codes:
                one = False
        if codes is not None and one:
            table = tables.apply(self.f, self.unary, operands, codes)
            if table is not None:
                result = Tabulated(table, codes)
                return result if codes.shape == plan.shape else self._shaped(result.values)
        dense = [o.values if type(o) is Tabulated else o for o in operands]
        return self._shaped(arithmetic.combine(self.f, self.unary, dense, clean=plan.clean))

    def _shaped(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what was computed of repeated rows and scalars for each element."""
        if values.shape == (self.rows, self.cols):
            return values
        return np.broadcast_to(values, (self.rows, self.cols))

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
        work = costs.execute(self.machine, self.rows, self.cols, l1)
        return Plan(tuple(sources), clean, dst, red, (self.rows, self.cols), work)

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


def _shown(
    tables: Tables | None, values: NDArray[np.float32] | Tabulated, kind: str
) -> NDArray[Any] | Tabulated:  # fmt: skip
    """Return results as L1 shows them: rounded to FP16, or with NaNs in canonical form."""
    if type(values) is Tabulated:
        assert tables is not None
        if kind == "l1f":
            return values
        return Tabulated(tables.rounded(values.table), values.codes)
    return fp16.from_fp32(values) if kind == "l1h" else fp32.canonical(values)
