"""The shell of a unit: everything between the mesh and the datapath.

Inbound, every flit is taken when it comes, but for DATA and CLEAR that the datapath lands at its
own pace, which depends on nothing that is sent. Outbound, six sources take turns. A fault is
reported once; what the unit does afterwards does not matter, since the control node resets it.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.common.counters import NAMES, REPORTS, Counters
from hw.common.fetch import Fetcher
from hw.common.frontend import FrontEnd
from hw.common.interfaces import MOVERS, Datapath, Fault
from hw.common.poster import Poster
from hw.common.queue import EngineQueue
from hw.common.semaphores import Semaphores
from hw.noc.arbiter import RoundRobin
from hw.noc.flit import (
    NODE_BITS,
    READ_CREDITS,
    TAG_BITS,
    Buffer,
    Cause,
    Event,
    Flit,
    Kind,
    Order,
)
from hw.noc.routes import memory_of
from kohakutpu.config import MAX_NODES, Machine, Node

ENGINES = 3
ACKS = MAX_NODES * 2 * len(MOVERS)
"""ACKs a unit may owe: two transfers of each engine of each node."""


class Shell(wiring.Component):
    """The shell of one unit.

    Parameters
    ----------
    machine : Machine
        The configuration.
    node : Node
        The unit.

    Members
    -------
    i, o : In(stream of Flit), Out(stream of Flit)
        From and to the mesh.
    datapath : In(Datapath)
        The unit's datapath.
    progress : Out(1)
        Something happened in this cycle.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self._node = machine, node
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "o": Out(stream.Signature(Flit)),
                "datapath": In(Datapath(node.kind)),
                "progress": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Join the parts."""
        m = Module()
        machine, node = self._machine, self._node
        m.submodules.front = front = FrontEnd(machine, node)
        m.submodules.fetch = fetch = Fetcher(machine.instruction_buffer, node.id)
        m.submodules.semaphores = semaphores = Semaphores(1 + ENGINES)
        m.submodules.poster = poster = Poster(node.id, 1 + ENGINES)
        m.submodules.acks = acks = SyncFIFO(width=NODE_BITS + TAG_BITS, depth=ACKS)
        engines = [getattr(self.datapath, f"engine_{index}") for index in range(ENGINES)]
        queues = [EngineQueue(node.kind, e, machine.queue_depth) for e in range(ENGINES)]
        for index, queue in enumerate(queues):
            m.submodules[f"queue_{index}"] = queue
        wiring.connect(m, fetch.o, front.i)
        m.d.comb += [
            fetch.push.eq(front.push),
            fetch.again.eq(front.again),
            fetch.pop.eq(front.pop),
        ]
        for index, source in enumerate([front, *queues]):
            m.d.comb += [
                semaphores.take[index].eq(source.take),
                semaphores.waits[index].eq(source.waits),
                source.granted.eq(semaphores.granted[index]),
                poster.posting[index].eq(source.posting),
                source.posted.eq(poster.posted[index]),
            ]
        m.d.comb += [
            poster.unposted[0].posts.eq(front.posts),
            poster.unposted[0].pc.eq(front.pc),
            front.settled.eq(reduce(lambda a, b: a & b, (queue.idle for queue in queues))),
            front.nonzero.eq(semaphores.nonzero),
        ]
        for index, (queue, engine) in enumerate(zip(queues, engines, strict=True)):
            m.d.comb += [
                poster.unposted[1 + index].eq(queue.unposted),
                queue.i.valid.eq(front.hand[index]),
                queue.i.payload.instruction.eq(getattr(front, f"o_{index}")),
                queue.i.payload.synced.eq(front.synced),
                front.taken[index].eq(front.hand[index] & queue.i.ready),
                engine.i.valid.eq(queue.o.valid),
                engine.i.payload.eq(queue.o.payload),
                queue.o.ready.eq(engine.i.ready),
                queue.done.eq(engine.done),
            ]
        self._land(m, front, fetch, semaphores, poster, engines)
        m.d.comb += [
            acks.w_en.eq(self.datapath.landed.valid),
            acks.w_data.eq(Cat(self.datapath.landed.requester, self.datapath.landed.tag)),
        ]
        m.submodules.counters = counters = Counters()
        reports = self._report(m, front, semaphores, queues, engines, counters)
        self._send(m, fetch, poster, acks, reports, engines)
        self._count(m, front, fetch, queues, engines, counters)
        return m

    def _land(
        self,
        m: Module,
        front: FrontEnd,
        fetch: Fetcher,
        semaphores: Semaphores,
        poster: Poster,
        engines: list,
    ) -> None:
        """Take what comes from the mesh."""
        flit, landing = self.i.payload, self.datapath.landing
        kind, fields = flit.kind, flit.fields
        for_buffer = (kind == Kind.DATA) | (kind == Kind.CLEAR)
        for_fetch = for_buffer & (fields.data.landing.buffer == Buffer.INSTRUCTION)
        is_post = self.i.valid & (kind == Kind.POST)
        is_ack = self.i.valid & (kind == Kind.ACK)
        is_kick = self.i.valid & (kind == Kind.KICK)
        m.d.comb += [
            self.i.ready.eq(~for_buffer | for_fetch | landing.ready),
            landing.valid.eq(self.i.valid & for_buffer & ~for_fetch),
            landing.payload.eq(flit),
            fetch.landed.valid.eq(self.i.valid & for_fetch),
            fetch.landed.payload.eq(flit),
            # Posts of others first: they must not wait.
            semaphores.post.valid.eq(is_post | poster.own.valid),
            poster.own.ready.eq(~is_post),
            fetch.kick.eq(flit.word.kick),
            fetch.start.eq(is_kick & (fields.kick.order == Order.START)),
            front.start.eq(fetch.start),
            front.release.eq(is_kick & (fields.kick.order == Order.RELEASE)),
        ]
        arrival = semaphores.post.payload
        with m.If(is_post):
            m.d.comb += [
                arrival.semaphore.eq(fields.post.semaphore),
                arrival.node.eq(flit.source),
                arrival.pc.eq(fields.post.pc),
            ]
        with m.Else():
            m.d.comb += arrival.eq(poster.own.payload)
        for index in MOVERS:
            ack = engines[index].ack
            m.d.comb += [
                ack.valid.eq(is_ack & (fields.ack.tag >> 1 == index)),
                ack.source.eq(flit.source),
                ack.tag.eq(fields.ack.tag[0]),
            ]

    def _report(
        self,
        m: Module,
        front: FrontEnd,
        semaphores: Semaphores,
        queues: list[EngineQueue],
        engines: list,
        counters: Counters,
    ) -> stream.Interface:
        """Say what the control node must know; return the stream of REPORTs."""
        reports = stream.Signature(Flit).create()
        flit = reports.payload
        report = flit.fields.report
        fault, unit = Signal(Fault), Signal(NODE_BITS)  # the first one, kept
        with m.If(~fault.valid):
            m.d.sync += unit.eq(self._node.id)
            with m.If(semaphores.overflow):
                m.d.sync += [
                    fault.valid.eq(1),
                    fault.cause.eq(Cause.SEM_OVERFLOW),
                    fault.pc.eq(semaphores.post.payload.pc),
                    unit.eq(semaphores.post.payload.node),
                ]
            for source in [*engines, front]:
                with m.Elif(source.fault.valid):
                    m.d.sync += fault.eq(source.fault)
        asked = Signal()  # by STOP
        with m.If(
            self.i.valid
            & (self.i.payload.kind == Kind.KICK)
            & (self.i.payload.fields.kick.order == Order.STOP)
        ):
            m.d.sync += asked.eq(1)
        # Where it stands, for the watchdog: the head of the first queue that has one.
        stands = front.pc
        for queue in reversed(queues):
            stands = Mux(queue.empty, stands, queue.pc)
        started, said_fault, said_halted, said_arrived = (
            Signal(name=name) for name in ("started", "said_fault", "said_halted", "said_arrived")
        )
        with m.If(front.start):
            m.d.sync += started.eq(1)
        with m.If(front.release):
            m.d.sync += said_arrived.eq(0)
        counted = Signal(range(REPORTS + 1))
        sent = reports.valid & reports.ready
        m.d.comb += [
            flit.kind.eq(Kind.REPORT),
            flit.dest.eq(1 << self._machine.of_kind("H")[0].id),
            report.unit.eq(self._node.id),
            report.pc.eq(front.pc),
        ]
        with m.If(fault.valid & ~said_fault):
            m.d.comb += [
                reports.valid.eq(1),
                report.event.eq(Event.FAULT),
                report.unit.eq(unit),
                report.pc.eq(fault.pc),
                report.cause.eq(fault.cause),
            ]
            m.d.sync += said_fault.eq(sent)
        with m.Elif(front.arrived & ~said_arrived):
            m.d.comb += [reports.valid.eq(1), report.event.eq(Event.ARRIVED)]
            m.d.sync += said_arrived.eq(sent)
        with m.Elif(front.halted & ~said_halted):
            m.d.comb += [reports.valid.eq(1), report.event.eq(Event.HALTED)]
            m.d.sync += said_halted.eq(sent)
        with m.Elif(asked & started & ~front.halted):
            m.d.comb += [
                reports.valid.eq(1),
                report.event.eq(Event.FAULT),
                report.pc.eq(stands),
                report.cause.eq(Cause.WATCHDOG),
            ]
            m.d.sync += asked.eq(~sent)
        with m.Elif(asked & semaphores.nonzero):
            m.d.comb += [
                reports.valid.eq(1),
                report.event.eq(Event.FAULT),
                report.cause.eq(Cause.SEM_LEFT),
            ]
            m.d.sync += asked.eq(~sent)
        with m.Elif(asked):
            m.d.comb += [
                reports.valid.eq(1),
                report.event.eq(Event.COUNTERS),
                report.pc.eq(counted),
                flit.word.raw.eq(Array(counters.words)[counted]),
            ]
            with m.If(sent):
                m.d.sync += counted.eq(counted + 1)
                with m.If(counted == REPORTS - 1):
                    m.d.sync += [counted.eq(0), asked.eq(0)]
        return reports

    def _send(
        self,
        m: Module,
        fetch: Fetcher,
        poster: Poster,
        acks: SyncFIFO,
        reports: stream.Interface,
        engines: list,
    ) -> None:
        """Merge what goes to the mesh, READs as credits allow."""
        owed = stream.Signature(Flit).create()
        m.d.comb += [
            owed.valid.eq(acks.r_rdy),
            acks.r_en.eq(owed.ready),
            owed.payload.kind.eq(Kind.ACK),
            owed.payload.dest.eq(1 << acks.r_data[:NODE_BITS]),
            owed.payload.fields.ack.tag.eq(acks.r_data[NODE_BITS:]),
        ]
        movers = [engines[index].o for index in MOVERS]
        sources = [owed, poster.o, reports, fetch.read, *movers]
        m.submodules.arbiter = arbiter = RoundRobin(len(sources))
        home = 1 << memory_of(self._machine, self._node).id
        credits = [Signal(range(READ_CREDITS + 1), init=READ_CREDITS, name=f"credits_{name}")
                   for name in ("bulk", "instruction")]  # fmt: skip
        flits = []
        for index, source in enumerate(sources):
            flit = source.payload
            allowed: Value | int = 1
            if source is fetch.read:
                allowed = credits[1] != 0
            elif source in movers:
                allowed = (flit.kind != Kind.READ) | (credits[0] != 0)
            m.d.comb += [
                arbiter.requests[index].eq(source.valid & allowed),
                source.ready.eq(arbiter.grant[index] & self.o.ready),
            ]
            flits.append(Mux(arbiter.grant[index], flit.as_value(), 0))
        chosen = Flit(reduce(or_, flits))
        to_memory = (chosen.kind == Kind.READ) | (chosen.kind == Kind.WRITE)
        m.d.comb += [
            self.o.valid.eq(arbiter.requests.any()),
            self.o.payload.eq(chosen),
            self.o.payload.source.eq(self._node.id),
            arbiter.taken.eq(self.o.valid & self.o.ready),
        ]
        with m.If(to_memory):
            m.d.comb += self.o.payload.dest.eq(home)
        is_read = arbiter.taken & (chosen.kind == Kind.READ)
        for_fetch = arbiter.grant[sources.index(fetch.read)]
        is_credit = self.i.valid & (self.i.payload.kind == Kind.CREDIT)
        for_instruction = self.i.payload.fields.credit.instruction
        for credit, spent, back in (
            (credits[0], ~for_fetch, ~for_instruction),
            (credits[1], for_fetch, for_instruction),
        ):
            m.d.sync += credit.eq(credit + (is_credit & back) - (is_read & spent))

    def _count(
        self,
        m: Module,
        front: FrontEnd,
        fetch: Fetcher,
        queues: list[EngineQueue],
        engines: list,
        counters: Counters,
    ) -> None:
        """Count, and tell the watchdog that something goes on."""
        moved_in = self.i.valid & self.i.ready
        moved_out = self.o.valid & self.o.ready
        from_memory = Signal()
        ports = sum(1 << port.id for port in self._machine.of_kind("M"))
        flit_in, kind_out = self.i.payload, self.o.payload.kind
        m.d.comb += from_memory.eq(
            moved_in
            & (flit_in.kind == Kind.DATA)
            & (flit_in.fields.data.landing.buffer != Buffer.INSTRUCTION)
            & (flit_in.fields.data.requester == self._node.id)
            & (Value.cast(ports) >> flit_in.source)[0]
        )
        events = {
            "instructions": front.retired,
            "fetched": fetch.fetched,
            "read": from_memory,
            "written": moved_out & (kind_out == Kind.WRITE),
            "sent": moved_out & (kind_out == Kind.DATA),
        }
        for index, (queue, engine) in enumerate(zip(queues, engines, strict=True)):
            events[f"steps_{index}"] = engine.step
            events[f"busy_{index}"] = queue.busy
            events[f"stalled_{index}"] = queue.stalled
        m.d.comb += [
            counters.events.eq(Cat(events[name] for name in NAMES)),
            self.progress.eq(
                moved_in | moved_out | front.retired | Cat(engine.step for engine in engines).any()
            ),
        ]
