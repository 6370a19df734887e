"""The shell of a unit: everything between the mesh and the datapath.

Inbound, every flit is taken when it comes, but for DATA and CLEAR that the datapath lands at its
own pace, which depends on nothing that is sent. Outbound, six sources take turns. A fault is
reported once; what the unit does afterwards does not matter, since the control node resets it.
"""

from functools import reduce
from operator import and_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.common.counters import NAMES, Counters
from hw.common.fetch import Fetcher
from hw.common.frontend import FrontEnd
from hw.common.interfaces import MOVERS, Datapath
from hw.common.outbound import Outbound
from hw.common.poster import Poster
from hw.common.queue import EngineQueue
from hw.common.reporter import Reporter
from hw.common.semaphores import Semaphores
from hw.noc.flit import NODE_BITS, TAG_BITS, Buffer, Flit, Kind, Order
from kohakutpu.config import Machine, Node

ENGINES = 3
ACKS = 2 * len(MOVERS)
"""ACKs a unit may owe another one, or itself: for two transfers of each engine."""


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
        Something happened in the cycle before.
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
            front.settled.eq(reduce(and_, (queue.idle for queue in queues), poster.idle)),
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
        m.submodules.counters = counters = Counters()
        m.submodules.reporter = reporter = Reporter(machine, node, ENGINES + 1)
        is_stop = self.i.payload.fields.kick.order == Order.STOP
        stands = front.pc  # the head of the first queue that has one
        for queue in reversed(queues):
            stands = Mux(queue.empty, stands, queue.pc)
        for fault, source in zip(reporter.faults, [*engines, front], strict=True):
            m.d.comb += fault.eq(source.fault)
        m.d.comb += [
            reporter.overflow.eq(semaphores.overflow),
            reporter.arrival.eq(semaphores.post.payload),
            reporter.started.eq(front.start),
            reporter.arrived.eq(front.arrived),
            reporter.released.eq(front.release),
            reporter.halted.eq(front.halted & poster.idle),
            reporter.nonzero.eq(semaphores.nonzero),
            reporter.pc.eq(front.pc),
            reporter.stands.eq(stands),
            reporter.asked.eq(self._is(Kind.KICK) & is_stop),
            reporter.index.eq(counters.index),
            reporter.count.eq(counters.count),
        ]
        self._send(m, fetch, poster, reporter, engines)
        self._count(m, front, fetch, queues, engines, counters)
        return m

    def _is(self, kind: Kind) -> Value:
        """Tell whether a flit of a kind has come."""
        return self.i.valid & (self.i.payload.kind == kind)

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
        is_post, is_ack, is_kick = (self._is(kind) for kind in (Kind.POST, Kind.ACK, Kind.KICK))
        m.d.comb += [
            self.i.ready.eq(
                Mux(
                    kind == Kind.POST,
                    semaphores.post.ready,
                    ~for_buffer | for_fetch | landing.ready,
                )
            ),
            landing.valid.eq(self.i.valid & for_buffer & ~for_fetch),
            landing.payload.eq(flit),
            fetch.landed.valid.eq(self.i.valid & for_fetch),
            fetch.landed.payload.eq(flit),
            # Posts of others first: they must not wait.
            semaphores.post.valid.eq(is_post | poster.own.valid),
            poster.own.ready.eq(~is_post & semaphores.post.ready),
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

    def _send(
        self, m: Module, fetch: Fetcher, poster: Poster, reporter: Reporter, engines: list
    ) -> None:
        """Merge ACKs that are owed, posts, REPORTs, and what fetcher and engines send."""
        landed = self.datapath.landed
        units = sum(node.kind in "CV" for node in self._machine.nodes)
        m.submodules.acks = acks = SyncFIFO(width=NODE_BITS + TAG_BITS, depth=ACKS * units)
        owed = stream.Signature(Flit).create()
        m.d.comb += [
            acks.w_en.eq(landed.valid),
            acks.w_data.eq(Cat(landed.requester, landed.tag)),
            acks.r_en.eq(owed.ready),
            owed.valid.eq(acks.r_rdy),
            owed.payload.kind.eq(Kind.ACK),
            owed.payload.dest.eq(1 << acks.r_data[:NODE_BITS]),
            owed.payload.fields.ack.tag.eq(acks.r_data[NODE_BITS:]),
        ]
        sources = [
            (fetch.read, {Kind.READ}),
            (owed, {Kind.ACK}),
            (poster.o, {Kind.POST}),
            (reporter.o, {Kind.REPORT}),
            (engines[0].o, {Kind.READ, Kind.CLEAR}),
            (engines[2].o, {Kind.WRITE, Kind.DATA}),
        ]
        kinds = [kinds for _, kinds in sources]
        m.submodules.outbound = outbound = Outbound(self._machine, self._node, kinds)
        wiring.connect(m, outbound.o, wiring.flipped(self.o))
        for index, (source, _) in enumerate(sources):
            sink = getattr(outbound, f"i_{index}")
            m.d.comb += [
                sink.valid.eq(source.valid),
                sink.payload.eq(source.payload),
                source.ready.eq(sink.ready),
            ]
        m.d.comb += [
            outbound.credit.eq(self._is(Kind.CREDIT)),
            outbound.for_instruction.eq(self.i.payload.fields.credit.instruction),
        ]

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
        m.d.comb += counters.events.eq(Cat(events[name] for name in NAMES))
        # Some of it is known late in a cycle, and the control node is far away.
        m.d.sync += self.progress.eq(
            moved_in | moved_out | front.retired | Cat(engine.step for engine in engines).any()
        )
