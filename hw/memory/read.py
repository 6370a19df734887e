"""Reading: queues of READs, walks, bursts in flight, and the answers in their order.

Reads of instructions have their own queue and go first, between two rows of another READ: a front
end never waits behind whole operands. All the rest is served in the order of arrival.
"""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.memory.answer import Answer
from hw.memory.burst import BURST, ReadBurst
from hw.memory.request import Beat, Blame, Request, Row, Span
from hw.memory.walk import RowWalker, SpanWalker
from hw.noc.buffer import ElasticBuffer, Queue, Register
from hw.noc.flit import NODE_BITS, READ_CREDITS, Buffer, Flit

PLACES = 128
"""Words that may be on their way from memory: a full rate up to that latency in cycles."""

LONGEST = 32
"""Words of a burst."""

ROWS = 64
"""Rows that may be on their way."""

WALKED = 4
"""Requests of one class between the two walks."""

CREDIT = data.StructLayout({"requester": NODE_BITS, "instruction": 1})
ORDER = data.StructLayout({"instruction": 1, "fault": 1})


class RequestQueue(wiring.Component):
    """Requests of one class, and the two walks over each.

    Parameters
    ----------
    depth : int
        Requests that must be taken whatever happens behind.
    memory_words : int
        Where memory ends.

    Members
    -------
    i : In(stream of Request)
        What arrives.
    span : Out(stream of Span)
        What to ask memory for.
    row : Out(stream of Row)
        The same rows, where they land.
    drop : In(1)
        With a transfer of `row`: it was the last of its request.
    credit : Out(stream of node)
        Whose request left the queue.
    """

    def __init__(self, depth: int, memory_words: int) -> None:
        self._depth, self._memory_words = depth, memory_words
        super().__init__(
            {
                "i": In(stream.Signature(Request)),
                "span": Out(stream.Signature(Span)),
                "row": Out(stream.Signature(Row)),
                "drop": In(1),
                "credit": Out(stream.Signature(NODE_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Hand each request to both walks at once."""
        m = Module()
        m.submodules.queue = queue = Queue(Request, self._depth)
        m.submodules.walked = walked = Queue(Request, WALKED)
        m.submodules.spans = spans = SpanWalker(self._memory_words)
        m.submodules.rows = rows = RowWalker()
        # Memory's readiness ends here.
        m.submodules.next_span = next_span = ElasticBuffer(Span)
        m.submodules.credits = credits = ElasticBuffer(NODE_BITS)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        wiring.connect(m, spans.o, next_span.i)
        wiring.connect(m, next_span.o, wiring.flipped(self.span))
        wiring.connect(m, walked.o, rows.i)
        wiring.connect(m, rows.o, wiring.flipped(self.row))
        wiring.connect(m, credits.o, wiring.flipped(self.credit))
        # Counted: that READs are taken must not depend on what the mesh takes in this cycle.
        walking = Signal(range(WALKED + 1))
        request = queue.o.payload
        starts, moves = Signal(), Signal()
        m.d.comb += [
            starts.eq(queue.o.valid & (walking < WALKED) & credits.i.ready),
            moves.eq(starts & spans.i.ready),
            queue.o.ready.eq(moves),
            spans.i.valid.eq(starts),
            spans.i.payload.eq(request),
            walked.i.valid.eq(moves),
            walked.i.payload.eq(request),
            credits.i.valid.eq(moves),
            credits.i.payload.eq(request.requester),
            rows.drop.eq(self.drop),
        ]
        m.d.sync += walking.eq(walking + moves - (walked.o.valid & walked.o.ready))
        with m.If(self.i.valid):
            read = self.i.payload.read
            m.d.sync += [
                Assert(queue.i.ready, "a node sent more READs than it has credits"),
                Assert(read.rows.any() & read.elements.any(), "a READ of nothing"),
            ]
        return m


class Reader(wiring.Component):
    """The reading half of a memory port.

    Parameters
    ----------
    node : int
        The port's node.
    requesters : int
        How many nodes may send READs, `READ_CREDITS` of each class.
    memory_words : int
        Where memory ends.

    Members
    -------
    i : In(stream of Request)
        Always taken while requesters keep to their credits.
    burst : Out(stream of word and beats)
        What memory is asked for.
    beat : In(stream of Beat)
        What it answers, in that order; always taken.
    o : Out(stream of Flit)
        DATA.
    credit : Out(stream of requester and class)
        A request has left its queue.
    fault : Out(1)
        Memory failed, or a request leaves it, in this cycle.
    blame : Out(Blame)
        Whose.
    stop : In(1)
        Ask memory for nothing more.
    """

    def __init__(self, node: int, requesters: int, memory_words: int) -> None:
        self._depth, self._memory_words = READ_CREDITS * requesters, memory_words
        self._node = node
        super().__init__(
            {
                "i": In(stream.Signature(Request)),
                "burst": Out(stream.Signature(BURST)),
                "beat": In(stream.Signature(Beat)),
                "o": Out(stream.Signature(Flit)),
                "credit": Out(stream.Signature(CREDIT)),
                "fault": Out(1),
                "blame": Out(Blame),
                "stop": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two classes walk; one of them at a time asks memory and is answered."""
        m = Module()
        m.submodules.bulk = bulk = RequestQueue(self._depth, self._memory_words)
        m.submodules.instructions = instructions = RequestQueue(self._depth, self._memory_words)
        # Of each row that memory was asked for: its class, or that it leaves memory.
        m.submodules.order = order = SyncFIFO(width=2, depth=ROWS)
        is_instruction = self.i.payload.read.landing.buffer == Buffer.INSTRUCTION
        m.d.comb += [
            bulk.i.payload.eq(self.i.payload),
            bulk.i.valid.eq(self.i.valid & ~is_instruction),
            instructions.i.payload.eq(self.i.payload),
            instructions.i.valid.eq(self.i.valid & is_instruction),
            self.i.ready.eq(Mux(is_instruction, instructions.i.ready, bulk.i.ready)),
        ]
        self._ask(m, bulk, instructions, order)
        self._answer(m, bulk, instructions, order)
        first = instructions.credit.valid
        m.d.comb += [
            self.credit.valid.eq(first | bulk.credit.valid),
            self.credit.payload.instruction.eq(first),
            self.credit.payload.requester.eq(
                Mux(first, instructions.credit.payload, bulk.credit.payload)
            ),
            instructions.credit.ready.eq(self.credit.ready),
            bulk.credit.ready.eq(self.credit.ready & ~first),
        ]
        return m

    def _ask(
        self, m: Module, bulk: RequestQueue, instructions: RequestQueue, order: SyncFIFO
    ) -> None:
        m.submodules.split = split = ReadBurst(PLACES, LONGEST)
        wiring.connect(m, split.o, wiring.flipped(self.burst))
        first = instructions.span.valid
        span = Span(Mux(first, instructions.span.payload.as_value(), bulk.span.payload.as_value()))
        asks = (first | bulk.span.valid) & order.w_rdy & (split.i.ready | span.fault)
        m.d.comb += [
            split.stop.eq(self.stop),
            split.i.valid.eq((first | bulk.span.valid) & order.w_rdy & ~span.fault),
            split.i.payload.word.eq(span.word),
            split.i.payload.words.eq(span.words),
            order.w_en.eq(asks),
            order.w_data.eq(Cat(first, span.fault)),
            instructions.span.ready.eq(asks),
            bulk.span.ready.eq(asks & ~first),
        ]

    def _answer(
        self, m: Module, bulk: RequestQueue, instructions: RequestQueue, order: SyncFIFO
    ) -> None:
        m.submodules.answer = answer = Answer(self._node)
        m.submodules.beats = beats = Queue(Beat, PLACES)
        m.submodules.next_row = next_row = Register(Row)
        wiring.connect(m, answer.o, wiring.flipped(self.o))
        wiring.connect(m, next_row.o, answer.row)
        wiring.connect(m, wiring.flipped(self.beat), beats.i)
        wiring.connect(m, beats.o, answer.beat)
        m.d.comb += m.submodules.split.freed.eq(beats.o.valid & beats.o.ready)
        with m.If(self.beat.valid):
            m.d.sync += Assert(beats.i.ready, "memory answered more than it was asked for")
        kind = data.View(ORDER, order.r_data)
        there = Mux(kind.instruction, instructions.row.valid, bulk.row.valid) & order.r_rdy
        row = Row(
            Mux(
                kind.instruction,
                instructions.row.payload.as_value(),
                bulk.row.payload.as_value(),
            )
        )
        takes = there & next_row.i.ready
        m.d.comb += [
            next_row.i.valid.eq(there & ~kind.fault),
            next_row.i.payload.eq(row),
            order.r_en.eq(takes),
            instructions.row.ready.eq(takes & kind.instruction),
            bulk.row.ready.eq(takes & ~kind.instruction),
            instructions.drop.eq(kind.fault),
            bulk.drop.eq(kind.fault),
            self.fault.eq(answer.fault | (takes & kind.fault)),
            self.blame.requester.eq(Mux(answer.fault, answer.blame.requester, row.requester)),
            self.blame.pc.eq(Mux(answer.fault, answer.blame.pc, row.pc)),
        ]
