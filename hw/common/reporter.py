"""What a unit tells the control node: faults, arrivals at the barrier, its end, its counters."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.counters import COUNT_BITS, NAMES
from hw.common.interfaces import Fault
from hw.common.semaphores import Arrival
from hw.noc.flit import NODE_BITS, PC_BITS, Cause, Event, Flit, Kind
from kohakutpu.config import Machine, Node


class Reporter(wiring.Component):
    """Makes REPORTs, one at a time, a fault first.

    Parameters
    ----------
    machine : Machine
        Says where the control node is.
    node : Node
        The unit.
    sources : int
        Who may fault: the engines and the front end.

    Members
    -------
    faults : In(Fault), one for each source
        Held once they are valid; of several in one cycle, the first source's is reported.
    overflow : In(1)
        The post `arrival` found its semaphore full: before all others.
    arrival : In(Arrival)
        See there.
    started : In(1)
        The program starts.
    arrived, released : In(1)
        The front end is at a barrier; the barrier is over.
    halted : In(1)
        The program has ended.
    nonzero : In(1)
        A semaphore is not zero.
    pc, stands : In(20)
        Of the front end; of what has waited longest.
    asked : In(1)
        The control node wants counters, or to know what the unit waits for.
    index, count : In
        See `Counters`.
    o : Out(stream of Flit)
        REPORTs.
    """

    def __init__(self, machine: Machine, node: Node, sources: int) -> None:
        self._home, self._node = machine.of_kind("H")[0].id, node.id
        super().__init__(
            {
                "faults": In(Fault).array(sources),
                "overflow": In(1),
                "arrival": In(Arrival),
                "started": In(1),
                "arrived": In(1),
                "released": In(1),
                "halted": In(1),
                "nonzero": In(1),
                "pc": In(PC_BITS),
                "stands": In(PC_BITS),
                "asked": In(1),
                "index": In(range(len(NAMES))),
                "count": In(COUNT_BITS),
                "o": Out(stream.Signature(Flit)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the first fault, and what has been said and asked."""
        m = Module()
        flit = self.o.payload
        report = flit.fields.report
        fault, unit = Signal(Fault), Signal(NODE_BITS)
        with m.If(~fault.valid):
            m.d.sync += unit.eq(self._node)
            with m.If(self.overflow):
                m.d.sync += [
                    fault.valid.eq(1),
                    fault.cause.eq(Cause.SEM_OVERFLOW),
                    fault.pc.eq(self.arrival.pc),
                    unit.eq(self.arrival.node),
                ]
            for source in self.faults:
                with m.Elif(source.valid):
                    m.d.sync += fault.eq(source)
        said_fault, said_arrived, said_halted = (
            Signal(name=f"said_{name}") for name in ("fault", "arrived", "halted")
        )
        ran, asked = Signal(), Signal()
        with m.If(self.started):
            m.d.sync += ran.eq(1)
        with m.If(self.asked):
            m.d.sync += asked.eq(1)
        with m.If(self.released):
            m.d.sync += said_arrived.eq(0)
        counted = Signal(range(len(NAMES)))
        count, is_kept = Signal(COUNT_BITS), Signal()  # of `counted`
        sent = self.o.valid & self.o.ready
        m.d.comb += [
            flit.kind.eq(Kind.REPORT),
            flit.dest.eq(1 << self._home),
            report.unit.eq(self._node),
            report.pc.eq(self.pc),
            flit.word.raw.eq(count),
        ]
        with m.If(~is_kept):
            m.d.sync += count.eq(self.count)
        with m.If(fault.valid & ~said_fault):
            m.d.comb += [
                self.o.valid.eq(1),
                report.event.eq(Event.FAULT),
                report.unit.eq(unit),
                report.pc.eq(fault.pc),
                report.cause.eq(fault.cause),
            ]
            m.d.sync += said_fault.eq(sent)
        with m.Elif(self.arrived & ~said_arrived):
            m.d.comb += [self.o.valid.eq(1), report.event.eq(Event.ARRIVED)]
            m.d.sync += said_arrived.eq(sent)
        with m.Elif(self.halted & ~said_halted):
            m.d.comb += [self.o.valid.eq(1), report.event.eq(Event.HALTED)]
            m.d.sync += said_halted.eq(sent)
        with m.Elif(asked & ran & ~self.halted):
            m.d.comb += [
                self.o.valid.eq(1),
                report.event.eq(Event.FAULT),
                report.pc.eq(self.stands),
                report.cause.eq(Cause.WATCHDOG),
            ]
            m.d.sync += asked.eq(~sent)
        with m.Elif(asked & self.nonzero):
            m.d.comb += [
                self.o.valid.eq(1),
                report.event.eq(Event.FAULT),
                report.cause.eq(Cause.SEM_LEFT),
            ]
            m.d.sync += asked.eq(~sent)
        with m.Elif(asked):
            m.d.comb += [
                self.o.valid.eq(is_kept),
                report.event.eq(Event.COUNTERS),
                report.pc.eq(counted),
            ]
            m.d.sync += is_kept.eq((is_kept & ~sent) | (self.index == counted))
            with m.If(sent):
                m.d.sync += [is_kept.eq(0), counted.eq(counted + 1)]
                with m.If(counted == len(NAMES) - 1):
                    m.d.sync += [counted.eq(0), asked.eq(0)]
        return m
