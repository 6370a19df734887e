"""Writing: WRITEs that follow each other become bursts, answers of memory become ACKs.

Words join a burst while they come from one instruction of one unit, to consecutive addresses of
one page. A burst closes with the first WRITE that does not join it, with ``ack``, or at its
longest; its words are all here by then, so memory never waits for the mesh.
"""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.memory.axi import PAGE_WORDS
from hw.memory.burst import BURST
from hw.memory.request import Blame, Receipt, Write
from hw.noc.buffer import Queue
from hw.noc.flit import ACKED_WRITES, TAG_BITS, WORD_ADDRESS_BITS, WORD_BITS
from kohakutpu.config import QUARTERS_PER_WORD

PLACES = 64
"""Words that wait for memory."""

LONGEST = 16
"""Words of a burst."""

CLOSED_BURSTS = 4
"""Bursts that wait for memory to take them."""

OPEN = 64
"""Bursts that memory may have unanswered."""

WORD = data.StructLayout({"word": WORD_BITS, "mask": QUARTERS_PER_WORD})
LAST_WORD = data.StructLayout({"word": WORD_BITS, "mask": QUARTERS_PER_WORD, "last": 1})
OWNER = data.StructLayout({"blame": Blame, "ack": 1, "tag": TAG_BITS})
CLOSED = data.StructLayout({"burst": BURST, "owner": OWNER})


class Writer(wiring.Component):
    """The writing half of a memory port.

    Parameters
    ----------
    requesters : int
        How many nodes may wait for ACKs, `ACKED_WRITES` each.
    memory_words : int
        Where memory ends.

    Members
    -------
    i : In(stream of Write)
        Taken at the pace of memory, whatever becomes of the ACKs.
    burst : Out(stream of word and beats)
        Bursts, closed.
    word : Out(stream of word, mask and last)
        Their words.
    done : In(1)
        Memory has answered the oldest burst; always taken.
    failed : In(1)
        With an error.
    ack : Out(stream of Receipt)
        ACKs to send.
    fault : Out(1)
        A WRITE leaves memory, or memory failed, in this cycle.
    blame : Out(Blame)
        Whose.
    stop : In(1)
        Give memory no further burst.
    idle : Out(1)
        Memory owes no answer and is owed no word.
    """

    def __init__(self, requesters: int, memory_words: int) -> None:
        self._receipts, self._memory_words = ACKED_WRITES * requesters, memory_words
        super().__init__(
            {
                "i": In(stream.Signature(Write)),
                "burst": Out(stream.Signature(BURST)),
                "word": Out(stream.Signature(LAST_WORD)),
                "done": In(1),
                "failed": In(1),
                "ack": Out(stream.Signature(Receipt)),
                "fault": Out(1),
                "blame": Out(Blame),
                "stop": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Collect, send, settle: three steps with a queue between each two."""
        m = Module()
        m.submodules.words = words = Queue(WORD, PLACES)
        m.submodules.closed = closed = Queue(CLOSED, CLOSED_BURSTS)
        m.submodules.lengths = lengths = Queue(8, 4)
        m.submodules.owners = owners = Queue(OWNER, OPEN)
        outside, blame = self._collect(m, words, closed)
        self._send(m, words, closed, lengths, owners)
        failed, owner = self._settle(m, owners)
        m.d.comb += [
            self.fault.eq(outside | failed),
            self.blame.eq(Mux(failed, owner.blame.as_value(), blame.as_value())),
            self.idle.eq(~self.burst.valid & lengths.empty & owners.empty),
        ]
        return m

    def _collect(self, m: Module, words: Queue, closed: Queue) -> tuple[Signal, Blame]:
        write = self.i.payload
        burst = Signal(BURST)  # of the open burst
        owner = Signal(OWNER)  # of the open burst
        is_open = Signal()
        complete = Signal()
        ends_page = Signal()
        following = Signal(WORD_ADDRESS_BITS)
        outside = write.address >= self._memory_words
        mine = Cat(write.requester, write.pc)
        joins = ~complete & (write.address == following) & (mine == owner.blame.as_value())
        closes = Signal()
        takes = Signal()
        stores = Signal()
        m.d.comb += [
            closes.eq(is_open & (complete | (self.i.valid & ~outside & ~joins))),
            closed.i.valid.eq(closes),
            closed.i.payload.burst.eq(burst),
            closed.i.payload.owner.eq(owner),
            takes.eq(outside | (words.i.ready & (~closes | closed.i.ready))),
            self.i.ready.eq(takes),
            stores.eq(self.i.valid & takes & ~outside),
            words.i.valid.eq(stores),
            words.i.payload.word.eq(write.word),
            words.i.payload.mask.eq(write.mask),
            ends_page.eq(write.address[: PAGE_WORDS.bit_length() - 1].all()),
        ]
        extends = is_open & joins
        with m.If(closes & closed.i.ready):
            m.d.sync += is_open.eq(0)
        with m.If(stores):
            m.d.sync += [
                is_open.eq(1),
                following.eq(write.address + 1),
                owner.blame.eq(mine),
                owner.ack.eq(write.ack),
                owner.tag.eq(write.tag),
                burst.beats.eq(Mux(extends, burst.beats + 1, 0)),
                complete.eq(write.ack | ends_page | (extends & (burst.beats == LONGEST - 2))),
            ]
            with m.If(~extends):
                m.d.sync += burst.word.eq(write.address)
        return self.i.valid & outside, Blame(mine)

    def _send(
        self, m: Module, words: Queue, closed: Queue, lengths: Queue, owners: Queue
    ) -> None:  # fmt: skip
        head = closed.o.payload
        free = ~self.burst.valid | self.burst.ready
        starts = Signal()
        m.d.comb += [
            starts.eq(closed.o.valid & free & lengths.i.ready & owners.i.ready & ~self.stop),
            closed.o.ready.eq(starts),
            lengths.i.valid.eq(starts),
            lengths.i.payload.eq(head.burst.beats),
            owners.i.valid.eq(starts),
            owners.i.payload.eq(head.owner),
        ]
        with m.If(free):
            m.d.sync += [self.burst.valid.eq(starts), self.burst.payload.eq(head.burst)]
        count = Signal(8)
        word = self.word.payload
        moves = self.word.valid & self.word.ready
        m.d.comb += [
            self.word.valid.eq(lengths.o.valid & words.o.valid),
            word.word.eq(words.o.payload.word),
            word.mask.eq(words.o.payload.mask),
            word.last.eq(count == lengths.o.payload),
            words.o.ready.eq(moves),
            lengths.o.ready.eq(moves & word.last),
        ]
        with m.If(moves):
            m.d.sync += count.eq(Mux(word.last, 0, count + 1))

    def _settle(self, m: Module, owners: Queue) -> tuple[Signal, data.View]:
        m.submodules.receipts = receipts = SyncFIFO(
            width=Receipt.as_shape().size, depth=self._receipts
        )
        owner = owners.o.payload
        m.d.comb += [
            owners.o.ready.eq(self.done),
            receipts.w_en.eq(self.done & ~self.failed & owner.ack),
            receipts.w_data.eq(Cat(owner.blame.requester, owner.tag)),
            self.ack.valid.eq(receipts.r_rdy),
            self.ack.payload.eq(receipts.r_data),
            receipts.r_en.eq(self.ack.ready),
        ]
        with m.If(self.done):
            m.d.sync += Assert(owners.o.valid, "memory answered a write that nobody made")
        with m.If(receipts.w_en):
            m.d.sync += Assert(receipts.w_rdy, "more than ACKED_WRITES of a node wait for an ACK")
        return self.done & self.failed, owner
