"""The instruction buffer: a program streams through it, loop bodies that fit stay in it.

The buffer is a ring of words. ``oldest <= kept <= pc <= arrived <= asked`` are instruction indices:
words from `oldest` to `arrived` are there, those up to `asked` are on their way, and nothing from
`kept` on is given up. Without loops that is the next instruction. In loops it is the body of the
outermost loop that may still fit: when the next word finds no place, that loop does not fit, and
the next inner one is kept instead.

A body of as many words as the buffer has (``END`` included) is read once and replayed; a body that
was given up is read again from its first word.
"""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.noc.flit import PC_BITS, WORD_BITS, Buffer, Flit, Form, KickWord, Kind
from kohakutpu.config import LOOP_DEPTH, QUARTERS_PER_WORD

CHUNK = 8
"""Words a READ asks for, where there is place for them."""

HALVES = WORD_BITS // 16  # elements of 2 bytes in a word

Fetched = data.StructLayout({"word": WORD_BITS, "pc": PC_BITS, "past_end": 1})


class Fetcher(wiring.Component):
    """Program words in the order of execution.

    Parameters
    ----------
    words : int
        Of the buffer.
    node : int
        The unit.

    Members
    -------
    start : In(1)
        Begin with the program of `kick`; only while nothing is on its way.
    kick : In(KickWord)
        Where it is.
    o : Out(stream of Fetched)
        The next word; `past_end` instead of one where the program has ended. `push`, `again` and
        `pop` go with its transfer, one at most: the word begins a loop whose body comes next; the
        body is done and runs again; it is done and does not.
    push, again, pop : In(1)
        See there.
    read : Out(stream of Flit)
        READs; the shell fills in `dest` and `source`, and keeps their credits.
    landed : In(stream of Flit)
        DATA for the instruction buffer; always ready.
    fetched : Out(1)
        A word has arrived, in this cycle.
    """

    def __init__(self, words: int, node: int) -> None:
        self._words, self._node = words, node
        super().__init__(
            {
                "start": In(1),
                "kick": In(KickWord),
                "o": Out(stream.Signature(Fetched)),
                "push": In(1),
                "again": In(1),
                "pop": In(1),
                "read": Out(stream.Signature(Flit)),
                "landed": In(stream.Signature(Flit)),
                "fetched": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Make a ring, a stack of loop starts, and one READ at a time."""
        m = Module()
        words = self._words
        # A word is offered when it was there before it was read, so never one of the same cycle.
        m.submodules.memory = memory = Memory(
            shape=WORD_BITS, depth=words, init=[], attrs={"no_rw_check": 1}
        )
        write, read = memory.write_port(), memory.read_port()
        oldest, pc, arrived, asked = (
            Signal(PC_BITS, name=name) for name in ("oldest", "pc", "arrived", "asked")
        )
        slot, asked_slot = Signal(range(words)), Signal(range(words))  # of `pc` and of `asked`
        program = Signal(KickWord)
        m.d.comb += [
            write.en.eq(self.landed.valid),
            write.addr.eq(self.landed.payload.fields.data.landing.offset),
            write.data.eq(self.landed.payload.word.raw),
            self.fetched.eq(self.landed.valid),
            self.landed.ready.eq(1),
        ]
        with m.If(self.landed.valid):
            m.d.sync += arrived.eq(arrived + 1)

        # The word at `pc`: one cycle to read, then offered until it is taken.
        offered = Signal()
        running = Signal()
        past_end = Signal()
        takes = Signal()
        m.d.comb += [
            past_end.eq(pc == program.instructions),
            read.addr.eq(slot),
            read.en.eq(1),
            self.o.valid.eq(offered),
            self.o.payload.word.eq(read.data),
            self.o.payload.pc.eq(pc),
            self.o.payload.past_end.eq(past_end),
            takes.eq(offered & self.o.ready),
        ]
        restart = Signal()  # a body that was given up: wait for what is on its way, then read again
        with m.If(takes):
            m.d.sync += offered.eq(0)
        with m.Elif(running & ~restart):
            m.d.sync += offered.eq((pc != arrived) | past_end)
        collides = Signal()
        m.d.sync += collides.eq(write.en & (write.addr == read.addr))
        with m.If(offered & ~past_end):
            m.d.sync += Assert(~collides, "a word is offered that was written while it was read")

        # A READ that is offered: `size` words from `asked` on. It takes the places of the words
        # before `oldest_next`.
        ready, size = Signal(), Signal(range(CHUNK + 1))
        end, oldest_next = Signal(PC_BITS), Signal(PC_BITS)
        m.d.comb += [end.eq(asked + size), oldest_next.eq(oldest)]
        with m.If(ready & (end > oldest + words)):
            m.d.comb += oldest_next.eq(end - words)

        depth = Signal(range(LOOP_DEPTH + 1))
        m.submodules.loops = loops = Memory(
            shape=data.StructLayout({"start": PC_BITS, "slot": range(words)}),
            depth=LOOP_DEPTH,
            init=[],
        )
        innermost, outermost = (loops.read_port(domain="comb") for _ in range(2))
        set_loop = loops.write_port()
        kept_loop = Signal(range(LOOP_DEPTH + 1))
        kept = Signal(PC_BITS)
        next_slot = Mux(slot == words - 1, 0, slot + 1)
        top = (depth - 1)[: len(depth)]
        m.d.comb += [
            outermost.addr.eq(kept_loop),  # of those that are kept
            innermost.addr.eq(top),
            kept.eq(Mux(kept_loop < depth, outermost.data.start, pc)),
            set_loop.addr.eq(depth),
            set_loop.data.start.eq(pc + 1),
            set_loop.data.slot.eq(next_slot),
        ]
        with m.If(takes):
            with m.If(self.again):
                m.d.sync += pc.eq(innermost.data.start)
                with m.If(innermost.data.start >= oldest_next):
                    m.d.sync += slot.eq(innermost.data.slot)
                with m.Else():
                    m.d.sync += [restart.eq(1), kept_loop.eq(top)]
            with m.Else():
                m.d.sync += [pc.eq(pc + 1), slot.eq(next_slot)]
                with m.If(self.push):
                    m.d.comb += set_loop.en.eq(1)
                    m.d.sync += depth.eq(depth + 1)
                with m.Elif(self.pop):
                    m.d.sync += depth.eq(top)
                    with m.If(kept_loop > top):
                        m.d.sync += kept_loop.eq(top)

        # What to ask for next.
        to_end, to_wrap = Signal(PC_BITS), Signal(range(words + 1))
        room, chunk = Signal(range(words + 1)), Signal(range(CHUNK + 1))
        whole = Signal(range(CHUNK + 1))
        starved = (pc == asked) & ~takes
        m.d.comb += [
            to_end.eq(program.instructions - asked),
            to_wrap.eq(words - asked_slot),
            room.eq(words - (asked - kept)),
            whole.eq(_least(CHUNK, to_end, to_wrap)),
            chunk.eq(Mux(room >= whole, whole, room)),
        ]
        flit = self.read.payload
        request = flit.word.read
        m.d.comb += [
            flit.kind.eq(Kind.READ),
            request.address.eq(program.address + asked * QUARTERS_PER_WORD),
            request.rows.eq(1),
            request.elements.eq(size * HALVES),
            request.landing.buffer.eq(Buffer.INSTRUCTION),
            request.landing.form.eq(Form.LINEAR),
            request.landing.offset.eq(asked_slot),
            request.nodes.eq(1 << self._node),
            request.pc.eq(asked),
        ]
        with m.If(~ready):
            m.d.sync += size.eq(chunk)
        with m.If(running & ~restart & (to_end != 0) & ~ready & ~takes):
            with m.If((room >= whole) | (starved & (room != 0))):
                m.d.sync += ready.eq(1)
            with m.Elif(starved):
                m.d.sync += kept_loop.eq(kept_loop + 1)
        m.d.comb += self.read.valid.eq(ready)
        with m.If(ready & self.read.ready):
            m.d.sync += [ready.eq(0), asked.eq(end), oldest.eq(oldest_next)]
            m.d.sync += asked_slot.eq(Mux(size == to_wrap, 0, asked_slot + size))

        with m.If(restart & (arrived == asked) & ~ready & ~self.landed.valid):
            m.d.sync += [
                oldest.eq(pc), arrived.eq(pc), asked.eq(pc), slot.eq(0), asked_slot.eq(0),
                restart.eq(0),
            ]  # fmt: skip
            m.d.comb += [
                set_loop.en.eq(1),
                set_loop.addr.eq(kept_loop),
                set_loop.data.start.eq(pc),
                set_loop.data.slot.eq(0),
            ]
        with m.If(self.start):
            m.d.sync += [program.eq(self.kick), running.eq(1), offered.eq(0), depth.eq(0)]
            m.d.sync += [s.eq(0) for s in (oldest, pc, arrived, asked, slot, asked_slot, kept_loop)]
        return m


def _least(constant: int, *values: Signal) -> object:
    result: object = constant
    for value in values:
        result = Mux(value < result, value, result)
    return result
