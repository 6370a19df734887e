"""An engine's queue: waits at its head, hands over, and posts in order when the engine is done."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.frontend import SYNCED
from hw.common.interfaces import record_of, resolved
from hw.common.semaphores import Posts, Waits
from hw.noc.buffer import Queue
from hw.noc.flit import PC_BITS

STARTED = 2
"""Instructions an engine may have taken and not finished."""

UNPOSTED = data.StructLayout({"posts": Posts, "pc": PC_BITS})


class EngineQueue(wiring.Component):
    """The queue of one engine.

    Parameters
    ----------
    kind : str
        Of the unit.
    engine : int
        Which.
    depth : int
        Instructions it holds that the engine has not taken.

    Members
    -------
    i : In(stream of instruction and SYNCED)
        From the front end.
    o : Out(stream of resolved)
        To the engine.
    done : In(1)
        From the engine.
    take, waits, granted : Out(1), Out(Waits), In(1)
        See `Semaphores`.
    posting, unposted : Out(1), Out(UNPOSTED)
        An instruction has finished: what it posts, until `posted`.
    posted : In(1)
        All of it is sent.
    idle : Out(1)
        Nothing is in the queue or in the engine, and all posts are sent.
    empty : Out(1)
        Nothing is in the queue, whatever the engine does.
    busy : Out(1)
        The engine has an instruction, or posts one.
    stalled : Out(1)
        It has none, and one waits for a semaphore.
    pc : Out(20)
        Of the head of the queue.
    """

    def __init__(self, kind: str, engine: int, depth: int) -> None:
        self._depth = depth
        self._item = data.StructLayout(
            {"instruction": resolved(record_of(kind, engine)), "synced": SYNCED}
        )
        super().__init__(
            {
                "i": In(stream.Signature(self._item)),
                "o": Out(stream.Signature(resolved(record_of(kind, engine)))),
                "done": In(1),
                "take": Out(1),
                "waits": Out(Waits),
                "granted": In(1),
                "posting": Out(1),
                "unposted": Out(UNPOSTED),
                "posted": In(1),
                "idle": Out(1),
                "empty": Out(1),
                "busy": Out(1),
                "stalled": Out(1),
                "pc": Out(PC_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two queues: what waits to start, and what has started and owes posts."""
        m = Module()
        m.submodules.waiting = waiting = Queue(self._item, self._depth)
        m.submodules.started = started = Queue(UNPOSTED, STARTED)
        head, there = waiting.o.payload, waiting.o.valid
        running = Signal(range(STARTED + 1))  # started, and not all posted
        owed = Signal(range(STARTED + 1))  # of those, finished
        waited = Signal()  # the head has had its semaphores
        waits_for = Signal()
        free = Signal()  # nothing is started
        starts, ends = Signal(), Signal()
        wiring.connect(m, wiring.flipped(self.i), waiting.i)
        m.d.comb += [
            waits_for.eq(head.synced.waits[0].valid & ~waited),
            free.eq(running == 0),
            self.waits.eq(head.synced.waits),
            self.take.eq(there & waits_for),
            self.stalled.eq(self.take & free),
            self.o.payload.eq(head.instruction),
            # SYNC starts when the engine owes nothing.
            self.o.valid.eq(there & ~head.synced.is_sync & ~waits_for & (running < STARTED)),
            starts.eq(
                (self.o.valid & self.o.ready) | (there & head.synced.is_sync & ~waits_for & free)
            ),
            waiting.o.ready.eq(starts),
            started.i.valid.eq(starts),
            started.i.payload.posts.eq(head.synced.posts),
            started.i.payload.pc.eq(head.synced.pc),
            started.o.ready.eq(ends),
            self.unposted.eq(started.o.payload),
            self.posting.eq((owed != 0) & started.o.valid),
            ends.eq(self.posting & self.posted),
            self.busy.eq(~free),
            self.empty.eq(waiting.empty),
            self.idle.eq(self.empty & free),
            self.pc.eq(head.synced.pc),
        ]
        with m.If(starts):
            m.d.sync += waited.eq(0)
        with m.Elif(self.take & self.granted):
            m.d.sync += waited.eq(1)
        finished = self.done | (starts & head.synced.is_sync)
        m.d.sync += [running.eq(running + starts - ends), owed.eq(owed + finished - ends)]
        return m
