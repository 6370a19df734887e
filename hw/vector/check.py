"""What an EXEC must not do: leave L1 or register file, or write over what it reads."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.pipeline import delayed
from hw.common.interfaces import BASE_BITS, Fault, code, record_of, resolved
from hw.common.window import Reach
from hw.noc.flit import LOCAL_BITS, ROW_BITS, Cause
from hw.vector.walk import granules
from kohakutpu.config import Machine

RECORD = record_of("V", 1)
SHAPE = resolved(RECORD)
WINDOWS = ("a", "b", "c", "dst", "red")
IN_L1 = ("l1h", "l1f")
STORED = ("reg", "row", *IN_L1)
DST, RED = 3, 4
PAIRS = ((DST, 0), (DST, 1), (DST, 2), (RED, 0), (RED, 1), (RED, 2), (RED, DST))
LATENCY = 1 + Reach.latency
"""Cycles from the number of a window to its end."""

STEP_BITS = BASE_BITS + 1  # what a step beyond a window's last row may reach


class Place(data.Struct):
    """A window as the checks see it; a row of scalars is one row."""

    used: 1
    in_l1: 1
    kind: 3  # as of a source
    base: BASE_BITS
    stride: LOCAL_BITS
    rows: ROW_BITS
    span: LOCAL_BITS


class Operand(data.Struct):
    """A source, or another window as if it were one."""

    kind: 3
    base: BASE_BITS
    stride: LOCAL_BITS


class Hull(data.Struct):
    """From where up to where a window reaches."""

    used: 1
    in_l1: 1
    base: BASE_BITS
    end: BASE_BITS


CHECKED = data.StructLayout({"task": SHAPE, "hulls": data.ArrayLayout(Hull, len(WINDOWS))})
"""An EXEC that may run, and what it touches: `WINDOWS`, in that order."""


class ExecCheck(wiring.Component):
    """Pass an instruction on once all its windows are as they must be.

    Range by range in the order of the operands, then pair by pair. Two windows whose hulls meet
    are walked side by side, row by row: whoever ends before the other begins moves on.

    Parameters
    ----------
    machine : Machine
        Sizes.

    Members
    -------
    i : In(stream of resolved EXEC)
        Instructions.
    o : Out(stream of `CHECKED`)
        Those that may run.
    idle : In(1)
        All instructions before have finished.
    fault : Out(Fault)
        The instruction must not run.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "i": In(stream.Signature(SHAPE)),
                "o": Out(stream.Signature(CHECKED)),
                "idle": In(1),
                "fault": Out(Fault),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Take, measure five windows, compare seven pairs."""
        m = Module()
        task = Signal(SHAPE, reset_less=True)
        m.submodules.reach = reach = Reach(BASE_BITS, LOCAL_BITS)
        operands = self._operands(m, task)
        ends = [Signal(BASE_BITS, name=f"end_{n}", reset_less=True) for n in range(len(WINDOWS))]
        number = Signal(range(len(WINDOWS) + LATENCY + 1))
        cause = Signal(Cause)
        for hull, operand, end in zip(self.o.payload.hulls, operands, ends, strict=True):
            m.d.comb += [
                hull.used.eq(_is_any(operand.kind, *STORED)),
                hull.in_l1.eq(_is_any(operand.kind, *IN_L1)),
                hull.base.eq(operand.base),
                hull.end.eq(end),
            ]

        pair = Signal(range(len(PAIRS) + 1))
        one_is_red, number_of_other = Signal(), Signal(range(8))
        with m.Switch(pair):
            for value, (first, second) in enumerate(PAIRS):
                with m.Case(value):
                    m.d.comb += [
                        one_is_red.eq(first == RED),
                        number_of_other.eq(second),
                    ]
        measures = Signal()
        chosen = Mux(measures, number, number_of_other)
        raw_one = Mux(one_is_red, operands[RED].as_value(), operands[DST].as_value())
        raw_other = Array(operand.as_value() for operand in operands)[chosen]
        # Choosing takes a cycle, comparing another one.
        one, other = (Signal(Place, name=name, reset_less=True) for name in ("one", "other"))
        one_end, other_end = (
            Signal(BASE_BITS, name=name, reset_less=True) for name in ("one_end", "other_end")
        )
        m.d.sync += [
            one.eq(self._place(m, task, raw_one, "chosen_one")),
            other.eq(self._place(m, task, raw_other, "chosen_other")),
            one_end.eq(Mux(one_is_red, ends[RED], ends[DST])),
            other_end.eq(Array(ends[: DST + 1])[number_of_other]),
        ]
        m.d.comb += [
            reach.base.eq(other.base),
            reach.stride.eq(other.stride),
            reach.rows.eq(other.rows),
            reach.span.eq(other.span),
            self.o.payload.task.eq(task),
            self.fault.cause.eq(cause),
            self.fault.pc.eq(task.pc),
        ]
        same = (one.kind == other.kind) & (one.base == other.base) & (one.stride == other.stride)
        apart = (
            ~one.used
            | ~other.used
            | (one.in_l1 != other.in_l1)
            | same
            | (one_end <= other.base)
            | (other_end <= one.base)
        )

        crossed = (task.rows != 1) & (other.stride < other.span)
        at = [Signal(STEP_BITS, name=f"at_{n}", reset_less=True) for n in range(2)]
        left = [Signal(ROW_BITS, name=f"left_{n}", reset_less=True) for n in range(2)]
        past = [Signal(STEP_BITS + 1, name=f"past_{n}", reset_less=True) for n in range(2)]
        one_first, other_first = past[0] <= at[1], past[1] <= at[0]
        last_pair = pair == len(PAIRS) - 1

        # Of the window that was given to `reach` when its end comes.
        measured = delayed(m, Cat(other.used, other.in_l1, crossed), Reach.latency)
        used, in_l1, crosses = measured
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [number.eq(0), pair.eq(0), cause.eq(Cause.NONE)]
                with m.If(self.i.valid):
                    m.d.sync += task.eq(self.i.payload)
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.comb += measures.eq(1)
                m.d.sync += number.eq(number + 1)
                limit = Mux(in_l1, self._machine.vl1_words, self._machine.registers)
                is_dst = number == DST + LATENCY
                with m.If(cause == Cause.NONE):
                    with m.If(used & (reach.end > limit) & (number >= LATENCY)):
                        m.d.sync += cause.eq(Mux(in_l1, Cause.L1_RANGE, Cause.REG_RANGE))
                    with m.Elif(used & is_dst & crosses):
                        m.d.sync += cause.eq(Cause.OVERLAP)
                with m.If(number == len(WINDOWS) + LATENCY):
                    m.next = "RANGES"
            with m.State("RANGES"):
                with m.If(cause != Cause.NONE):
                    m.next = "FAULT"
                with m.Else():
                    m.next = "PAIR"
            with m.State("PAIR"):
                m.d.sync += [
                    at[0].eq(one.base),
                    at[1].eq(other.base),
                    past[0].eq(one.base + one.span),
                    past[1].eq(other.base + other.span),
                    left[0].eq(one.rows),
                    left[1].eq(other.rows),
                ]
                with m.If(~apart):
                    m.next = "WALK"
                with m.Elif(last_pair):
                    m.next = "GIVE"
                with m.Else():
                    m.d.sync += pair.eq(pair + 1)
                    m.next = "CHOOSE"
            with m.State("CHOOSE"):
                m.next = "PAIR"
            with m.State("WALK"):
                m.d.sync += cause.eq(Cause.OVERLAP)
                with m.If(one_first):
                    m.d.sync += [
                        at[0].eq(at[0] + one.stride),
                        past[0].eq(past[0] + one.stride),
                        left[0].eq(left[0] - 1),
                    ]
                with m.If(other_first):
                    m.d.sync += [
                        at[1].eq(at[1] + other.stride),
                        past[1].eq(past[1] + other.stride),
                        left[1].eq(left[1] - 1),
                    ]
                with m.If(~one_first & ~other_first):
                    m.next = "FAULT"
                with m.Elif(Mux(one_first, left[0], left[1]) == 1):
                    m.d.sync += pair.eq(pair + 1)
                    m.next = "CHOOSE"
                    with m.If(last_pair):
                        m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "TAKE"
            with m.State("FAULT"):
                m.d.comb += self.fault.valid.eq(self.idle)
        for n, end in enumerate(ends):
            with m.If(number == n + LATENCY):
                m.d.sync += end.eq(reach.end)
        return m

    def _operands(self, m: Module, task: data.View) -> list[data.View]:
        """Return `WINDOWS` as operands, all with the kinds of a source."""
        operands = [Signal(Operand, name=f"operand_{name}") for name in WINDOWS]
        for name, operand in zip(WINDOWS[:RED], operands[:RED], strict=True):
            window = task[name].payload.window
            m.d.comb += [operand.base.eq(window.base), operand.stride.eq(window.stride)]
            if name == "dst":
                for kind in ("reg", *IN_L1):
                    with m.If(task.dst.kind == code(RECORD, "dst", kind)):
                        m.d.comb += operand.kind.eq(code(RECORD, "a", kind))
            else:
                m.d.comb += operand.kind.eq(task[name].kind)
        m.d.comb += operands[RED].base.eq(task.red)
        with m.If(task.reduce != code(RECORD, "reduce", "none")):
            m.d.comb += operands[RED].kind.eq(code(RECORD, "a", "row"))
        return operands

    def _place(self, m: Module, task: data.View, bits: Value, name: str) -> data.View:
        """Return where an operand lies."""
        lanes = self._machine.lanes
        operand, place = Signal(Operand, name=name), Signal(Place, name=f"place_{name}")
        kind = operand.kind
        is_row = kind == code(RECORD, "a", "row")
        m.d.comb += [
            operand.eq(bits),
            place.used.eq(_is_any(kind, *STORED)),
            place.in_l1.eq(_is_any(kind, *IN_L1)),
            place.kind.eq(kind),
            place.base.eq(operand.base),
            place.stride.eq(Mux(is_row, 0, operand.stride)),
            place.rows.eq(Mux(is_row, 1, task.rows)),
        ]
        with m.If(is_row):
            m.d.comb += place.span.eq(granules(task.rows, lanes))
        with m.Elif(kind == code(RECORD, "a", "reg")):
            m.d.comb += place.span.eq(granules(task.cols, lanes))
        with m.Elif(kind == code(RECORD, "a", "l1h")):
            m.d.comb += place.span.eq(granules(task.cols, 16))
        with m.Else():
            m.d.comb += place.span.eq(granules(task.cols, 8))
        return place


def _is_any(kind: Value, *names: str) -> Value:
    return Cat(kind == code(RECORD, "a", name) for name in names).any()
