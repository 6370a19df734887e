"""What an EXEC must not do: leave L1 or register file, or write over what it reads."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import BASE_BITS, Fault, code, record_of, resolved
from hw.common.window import Reach
from hw.noc.flit import LOCAL_BITS, ROW_BITS, Cause
from hw.vector.walk import granules
from kohakutpu.config import Machine

RECORD = record_of("V", 1)
SHAPE = resolved(RECORD)
WINDOWS = ("a", "b", "c", "dst", "red")
DST, RED = 3, 4
PAIRS = ((DST, 0), (DST, 1), (DST, 2), (RED, 0), (RED, 1), (RED, 2), (RED, DST))
END_BITS = ROW_BITS + LOCAL_BITS + 2


class Place(data.Struct):
    """A window as the checks see it; a row of scalars is one row."""

    used: 1
    in_l1: 1
    kind: 3  # as of a source
    base: BASE_BITS
    stride: LOCAL_BITS
    rows: ROW_BITS
    span: LOCAL_BITS


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
        places = self._places(m, task)
        ends = [Signal(END_BITS, name=f"end_{n}") for n in range(len(WINDOWS))]
        number = Signal(range(8))
        cause = Signal(Cause)

        chosen = Signal(Place)
        m.d.comb += [
            chosen.eq(Array(place.as_value() for place in places)[number]),
            reach.base.eq(chosen.base),
            reach.stride.eq(chosen.stride),
            reach.rows.eq(chosen.rows),
            reach.span.eq(chosen.span),
            self.o.payload.task.eq(task),
            self.fault.cause.eq(cause),
            self.fault.pc.eq(task.pc),
        ]

        for hull, place, end in zip(self.o.payload.hulls, places, ends, strict=True):
            m.d.comb += [
                hull.used.eq(place.used),
                hull.in_l1.eq(place.in_l1),
                hull.base.eq(place.base),
                hull.end.eq(end),
            ]

        pair = Signal(range(len(PAIRS) + 1))
        one, other = Signal(Place), Signal(Place)
        one_end, other_end = Signal(END_BITS), Signal(END_BITS)
        values = [place.as_value() for place in places]
        for side, end, index in ((one, one_end, 0), (other, other_end, 1)):
            m.d.comb += side.eq(Array(values[p[index]] for p in PAIRS)[pair])
            m.d.comb += end.eq(Array(ends[p[index]] for p in PAIRS)[pair])
        same = (one.kind == other.kind) & (one.base == other.base) & (one.stride == other.stride)
        apart = (
            ~one.used
            | ~other.used
            | (one.in_l1 != other.in_l1)
            | same
            | (one_end <= other.base)
            | (other_end <= one.base)
        )

        at = [Signal(END_BITS, name=f"at_{n}") for n in range(2)]
        left = [Signal(ROW_BITS, name=f"left_{n}") for n in range(2)]
        one_first = at[0] + one.span <= at[1]
        other_first = at[1] + other.span <= at[0]
        last_pair = pair == len(PAIRS) - 1

        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [number.eq(0), pair.eq(0)]
                with m.If(self.i.valid):
                    m.d.sync += task.eq(self.i.payload)
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.sync += number.eq(number + 1)
                with m.If(number == len(WINDOWS) + Reach.latency):
                    m.next = "RANGES"
            with m.State("RANGES"):
                found = Cause.NONE
                for n in reversed(range(len(WINDOWS))):
                    place = places[n]
                    limit = Mux(place.in_l1, self._machine.vl1_words, self._machine.registers)
                    beyond = place.used & (ends[n] > limit)
                    of_range = Mux(place.in_l1, Cause.L1_RANGE, Cause.REG_RANGE)
                    if n == DST:
                        crossed = place.used & (task.rows != 1) & (place.stride < place.span)
                        found = Mux(crossed, Cause.OVERLAP, found)
                    found = Mux(beyond, of_range, found)
                m.d.sync += cause.eq(found)
                with m.If(Cat(found).any()):
                    m.next = "FAULT"
                with m.Else():
                    m.next = "PAIR"
            with m.State("PAIR"):
                m.d.sync += [
                    at[0].eq(one.base),
                    at[1].eq(other.base),
                    left[0].eq(one.rows),
                    left[1].eq(other.rows),
                ]
                with m.If(~apart):
                    m.next = "WALK"
                with m.Elif(last_pair):
                    m.next = "GIVE"
                with m.Else():
                    m.d.sync += pair.eq(pair + 1)
            with m.State("WALK"):
                m.d.sync += cause.eq(Cause.OVERLAP)
                with m.If(one_first):
                    m.d.sync += [at[0].eq(at[0] + one.stride), left[0].eq(left[0] - 1)]
                with m.If(other_first):
                    m.d.sync += [at[1].eq(at[1] + other.stride), left[1].eq(left[1] - 1)]
                with m.If(~one_first & ~other_first):
                    m.next = "FAULT"
                with m.Elif(Mux(one_first, left[0], left[1]) == 1):
                    m.d.sync += pair.eq(pair + 1)
                    m.next = "PAIR"
                    with m.If(last_pair):
                        m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "TAKE"
            with m.State("FAULT"):
                m.d.comb += self.fault.valid.eq(self.idle)
        for n, end in enumerate(ends):
            with m.If(number == n + Reach.latency):
                m.d.sync += end.eq(reach.end)
        return m

    def _places(self, m: Module, task: data.View) -> list[Signal]:
        lanes = self._machine.lanes
        beats, halves = granules(task.cols, lanes), granules(task.cols, 16)
        singles, scalars = granules(task.cols, 8), granules(task.rows, lanes)
        places = [Signal(Place, name=f"place_{name}") for name in WINDOWS]
        for name, place in zip(WINDOWS[:RED], places[:RED], strict=True):
            operand = task[name]
            window = operand.payload.window
            m.d.comb += [
                place.base.eq(window.base),
                place.stride.eq(window.stride),
                place.rows.eq(task.rows),
            ]
            kinds = {"reg": beats, "l1h": halves, "l1f": singles}
            if name != "dst":
                kinds["row"] = scalars
            for kind, span in kinds.items():
                with m.If(operand.kind == code(RECORD, name, kind)):
                    m.d.comb += [
                        place.used.eq(1),
                        place.in_l1.eq(kind in ("l1h", "l1f")),
                        place.kind.eq(code(RECORD, "a", kind)),
                        place.span.eq(span),
                    ]
                    if kind == "row":
                        m.d.comb += [place.stride.eq(0), place.rows.eq(1)]
        m.d.comb += [
            places[RED].used.eq(task.reduce != code(RECORD, "reduce", "none")),
            places[RED].kind.eq(code(RECORD, "a", "row")),
            places[RED].base.eq(task.red),
            places[RED].rows.eq(1),
            places[RED].span.eq(scalars),
        ]
        return places
