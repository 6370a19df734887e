"""An engine's queue: waits at its head, hands over, and posts in order when the engine is done."""

from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.common.frontend import SYNCED
from hw.common.interfaces import record_of, resolved
from hw.common.semaphores import Posts, Waits
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
        """Two FIFOs: what waits to start, and what has started and owes posts."""
        m = Module()
        width = Shape.cast(self._item).width
        m.submodules.waiting = waiting = SyncFIFOBuffered(width=width, depth=self._depth)
        m.submodules.started = started = SyncFIFO(
            width=Shape.cast(UNPOSTED).width, depth=STARTED + 1
        )
        head = data.View(self._item, waiting.r_data)
        owed = Signal(range(STARTED + 2))  # finished, and not all posted
        waited = Signal()  # the head has had its semaphores
        waits_for = Signal()
        free = Signal()  # nothing is started
        starts = Signal()
        m.d.comb += [
            waits_for.eq(head.synced.waits[0].valid & ~waited),
            free.eq(~started.r_rdy),
            waiting.w_en.eq(self.i.valid),
            waiting.w_data.eq(self.i.payload),
            self.i.ready.eq(waiting.w_rdy),
            self.waits.eq(head.synced.waits),
            self.take.eq(waiting.r_rdy & waits_for & free),
            self.stalled.eq(self.take),
            self.o.payload.eq(head.instruction),
            # What waits, and SYNC, starts when the engine owes nothing.
            self.o.valid.eq(
                waiting.r_rdy & ~head.synced.is_sync & ~waits_for & started.w_rdy
                & (started.level < STARTED)
            ),
            starts.eq(
                (self.o.valid & self.o.ready)
                | (waiting.r_rdy & head.synced.is_sync & ~waits_for & free)
            ),
            waiting.r_en.eq(starts),
            started.w_en.eq(starts),
            started.w_data.eq(Cat(head.synced.posts, head.synced.pc)),
            started.r_en.eq(self.posting & self.posted),
            self.unposted.eq(started.r_data),
            self.posting.eq(owed != 0),
            self.busy.eq(~free),
            self.empty.eq(~waiting.r_rdy & (waiting.level == 0)),
            self.idle.eq(self.empty & free),
            self.pc.eq(head.synced.pc),
        ]  # fmt: skip
        with m.If(starts):
            m.d.sync += waited.eq(0)
        with m.Elif(self.take & self.granted):
            m.d.sync += waited.eq(1)
        finished = self.done | (starts & head.synced.is_sync)
        m.d.sync += owed.eq(owed + Value.cast(finished) - (self.posting & self.posted))
        return m
