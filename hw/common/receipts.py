"""Which transfers of an engine are on their way, and when the oldest has arrived."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import Ack
from kohakutpu.config import MAX_NODES

COUNT = range(MAX_NODES + 1)


class Receipts(wiring.Component):
    """Count the ACKs that transfers under the two tags of an engine still wait for.

    Members
    -------
    open : In(1)
        A transfer starts under `low`, and waits for `count` ACKs; not while that tag is in use.
    low : In(1)
        Its tag.
    count : In(range(17))
        How many.
    ack : In(Ack)
        What arrives.
    busy : Out(2)
        Tags in use.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "open": In(1),
                "low": In(1),
                "count": In(COUNT),
                "ack": In(Ack),
                "busy": Out(2),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Set, count down."""
        m = Module()
        for tag in range(2):
            owed = Signal(COUNT, name=f"owed_{tag}")
            arrives = self.ack.valid & (self.ack.tag == tag)
            with m.If(self.open & (self.low == tag)):
                m.d.sync += owed.eq(self.count)
            with m.Elif(arrives):
                m.d.sync += owed.eq(owed - 1)
            m.d.comb += self.busy[tag].eq(owed != 0)
        return m


class InOrder(wiring.Component):
    """Say ``done`` for instructions in their order, at most two of them on their way.

    Members
    -------
    start : In(1)
        An instruction's transfer starts under tag `low`.
    low : Out(1)
        The tag of the next instruction.
    free : Out(1)
        That tag is free.
    idle : Out(1)
        Nothing is on its way.
    busy : In(2)
        Tags that wait for ACKs, from the cycle after `start`.
    done : Out(1)
        The oldest instruction has arrived.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "low": Out(1),
                "free": Out(1),
                "idle": Out(1),
                "busy": In(2),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two places, taken in turn."""
        m = Module()
        taken, oldest = Signal(2), Signal()
        busy = Array([self.busy[0], self.busy[1]])
        taken_by = Array([taken[0], taken[1]])
        m.d.comb += [
            self.done.eq(taken_by[oldest] & ~busy[oldest]),
            self.free.eq(~taken_by[self.low]),
            self.idle.eq(taken == 0),
        ]
        sets = Mux(self.start, Mux(self.low, 2, 1), 0)
        clears = Mux(self.done, Mux(oldest, 2, 1), 0)
        m.d.sync += [
            taken.eq((taken & ~clears) | sets),
            self.low.eq(self.low ^ self.start),
            oldest.eq(oldest ^ self.done),
        ]
        return m
