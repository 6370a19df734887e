"""The front end: control instructions, and engine instructions with their operands resolved.

One instruction at a time, a few cycles each: fetched, checked, then executed here or handed to the
queue of its engine. The engines run meanwhile; the front end waits only for a semaphore that a
control instruction names, for room in a queue, and for everything at ``BARRIER`` and ``HALT``.

A ``LOOP`` of no rounds is skipped word by word: what is skipped counts as loop or end only if it is
a legal one, and nothing else about it matters.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.common.decode import Decoder, Fields
from hw.common.fetch import Fetched
from hw.common.interfaces import Fault, record_of, resolved
from hw.common.resolve import Resolver
from hw.common.semaphores import Posts, Waits
from hw.noc.flit import PC_BITS, WORD_BITS, Cause
from kohakutpu import isa
from kohakutpu.config import ADDRESS_BITS, ADDRESS_REGISTERS, LOOP_DEPTH, Machine, Node

SYNCED = data.StructLayout({"is_sync": 1, "waits": Waits, "posts": Posts, "pc": PC_BITS})
"""What a queue keeps of an instruction beside its operands."""


class State(enum.Enum, shape=4):
    """What the front end does."""

    OFF = 0
    NEXT = 1
    DECODE = 2
    SKIP = 3
    RESOLVE = 4
    HAND = 5
    WAIT = 6
    EXECUTE = 7
    ARRIVED = 8
    POST = 9
    HALTED = 10
    FAULT = 11
    RESOLVED = 12


class FrontEnd(wiring.Component):
    """A front end, without what fetches.

    Parameters
    ----------
    machine : Machine
        Nodes, for what is legal.
    node : Node
        The unit.

    Members
    -------
    start : In(1)
        Begin with the first word.
    i : In(stream of Fetched)
        Words in the order of execution.
    push, again, pop : Out(1)
        With a transfer of `i`; see `Fetcher`.
    o_0, o_1, o_2 : Out(resolved)
        The instruction for each engine, while `hand` asks.
    synced : Out(SYNCED)
        The rest of it.
    hand : Out(3)
        The queue that should take it.
    taken : In(3)
        The queue that does, in this cycle.
    take, waits, granted : Out(1), Out(Waits), In(1)
        Waits of a control instruction; see `Semaphores`.
    posting, posts : Out(1), Out(Posts)
        Posts of a control instruction, of the instruction at `pc`, until `posted`.
    posted : In(1)
        They are all sent.
    settled : In(1)
        Engines are idle, and all that they owed is sent.
    nonzero : In(1)
        A semaphore is not zero.
    arrived, halted : Out(1)
        It is at a barrier; it has halted. Both stay.
    release : In(1)
        The barrier is over.
    fault : Out(Fault)
        It cannot go on.
    pc : Out(20)
        Of the instruction it is at.
    retired : Out(1)
        An instruction was handed over or executed, in this cycle.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self._node = machine, node
        outputs = {f"o_{e}": Out(resolved(record_of(node.kind, e))) for e in range(3)}
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(Fetched)),
                "push": Out(1),
                "again": Out(1),
                "pop": Out(1),
                "synced": Out(SYNCED),
                "hand": Out(3),
                "taken": In(3),
                "take": Out(1),
                "waits": Out(Waits),
                "granted": In(1),
                "posting": Out(1),
                "posts": Out(Posts),
                "posted": In(1),
                "settled": In(1),
                "nonzero": In(1),
                "arrived": Out(1),
                "halted": Out(1),
                "release": In(1),
                "fault": Out(Fault),
                "pc": Out(PC_BITS),
                "retired": Out(1),
            }
            | outputs
        )

    def elaborate(self, platform: object) -> Module:
        """Wire the parts and make the state machine."""
        m = Module()
        m.submodules.decoder = decoder = Decoder(self._machine, self._node)
        m.submodules.resolver = resolver = Resolver(self._node)
        word = Signal(WORD_BITS, reset_less=True)
        past_end = Signal()
        state = Signal(State)
        halted = Signal()
        is_one = {record.name: Signal(name=f"is_{record.mnemonic}") for record in decoder.records}
        illegal = Signal()
        engines = [record_of(self._node.kind, engine) for engine in range(3)]
        sync = Fields(isa.SYNC, word)
        m.d.comb += decoder.word.eq(word)
        common = Fields(isa.END, word)  # what every record has
        for slot in range(2):
            for member in ("valid", "semaphore", "count"):
                m.d.comb += self.waits[slot][member].eq(common[f"waits.{slot}.{member}"])
            for member in ("valid", "node", "semaphore"):
                m.d.comb += self.posts[slot][member].eq(common[f"posts.{slot}.{member}"])
        m.d.comb += [
            self.synced.is_sync.eq(is_one["SYNC"]),
            self.synced.waits.eq(self.waits),
            self.synced.posts.eq(self.posts),
            self.synced.pc.eq(self.pc),
            self.halted.eq(halted),
            resolver.word.eq(word),
            resolver.pc.eq(self.pc),
            *(getattr(self, f"o_{e}").eq(getattr(resolver, f"o_{e}")) for e in range(3)),
        ]

        # LUT RAM, which no reset reaches: a register is 0 until it is set.
        registers = Memory(shape=ADDRESS_BITS, depth=ADDRESS_REGISTERS, init=[])
        counts = Memory(shape=ADDRESS_BITS, depth=LOOP_DEPTH, init=[])
        m.submodules.registers, m.submodules.counts = registers, counts
        set_register, register = registers.write_port(), registers.read_port(domain="comb")
        set_count, count = counts.write_port(), counts.read_port(domain="comb")
        is_set = Signal(ADDRESS_REGISTERS)
        depth = Signal(range(LOOP_DEPTH + 1))
        skipped = Signal(PC_BITS)  # loops that are open inside one that is skipped
        top = (depth - 1)[: len(depth)]
        cause = Signal(Cause)
        step = Signal.like(resolver.step)
        # Found while waiting, acted upon when executed: of ADDA and LOOP, of END.
        total, is_over = Signal(ADDRESS_BITS, reset_less=True), Signal()

        # One read port: the register of a step, or of SETA, ADDA, LOOP.
        adda, seta, loop = (Fields(r, word) for r in (isa.ADDA, isa.SETA, isa.LOOP))
        reg = Mux(
            state == State.RESOLVE, resolver.reg, Mux(is_one["ADDA"], adda["rs"], loop["count.reg"])
        )
        value, added, wrapped = (
            Signal(ADDRESS_BITS, name=name) for name in ("value", "added", "wrapped")
        )
        imm = Mux(is_one["ADDA"], adda["imm"], loop["count.imm"])
        modulo = adda["modulo"]
        m.d.comb += [
            register.addr.eq(reg),
            value.eq(Mux(is_set.bit_select(reg, 1), register.data, 0)),
            added.eq(value + imm),
            wrapped.eq(Mux((modulo != 0) & (total >= modulo), total - modulo, total)),
            resolver.value.eq(value),
            resolver.step.eq(step),
            resolver.enable.eq(state == State.RESOLVE),
        ]
        for engine, record in enumerate(engines):
            with m.If(is_one[record.name]):
                m.d.comb += resolver.engine.eq(engine)
        target = Signal(2)
        m.d.comb += target.eq(Mux(is_one["SYNC"], sync["engine"], resolver.engine))

        finishes = Signal()  # go on with the next word, in this cycle
        with m.Switch(state):
            with m.Case(State.NEXT):
                # The decision about loops goes with the transfer, so the word is taken in DECODE.
                with m.If(self.i.valid):
                    m.d.sync += [
                        word.eq(self.i.payload.word),
                        past_end.eq(self.i.payload.past_end),
                        self.pc.eq(self.i.payload.pc),
                        state.eq(State.DECODE),
                    ]
            with m.Case(State.DECODE):
                m.d.sync += [is_one[r.name].eq(decoder.is_one(r)) for r in decoder.records]
                m.d.sync += illegal.eq(~Cat(decoder.is_one(r) for r in decoder.records).any())
                m.d.sync += [step.eq(0), state.eq(Mux(skipped != 0, State.SKIP, State.WAIT))]
            with m.Case(State.SKIP):
                with m.If(past_end):
                    m.d.sync += [cause.eq(Cause.LOOP_DEPTH), state.eq(State.FAULT)]
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += state.eq(State.NEXT)
                    m.d.sync += skipped.eq(skipped + is_one["LOOP"] - is_one["END"])
            with m.Case(State.WAIT):
                with m.If(past_end):
                    m.d.sync += [cause.eq(Cause.LOOP_DEPTH), state.eq(State.FAULT)]
                with m.Elif(illegal):
                    m.d.sync += [cause.eq(Cause.ILLEGAL), state.eq(State.FAULT)]
                with m.Elif(
                    (is_one["LOOP"] & (depth == LOOP_DEPTH)) | (is_one["END"] & (depth == 0))
                ):
                    m.d.sync += [cause.eq(Cause.LOOP_DEPTH), state.eq(State.FAULT)]
                with m.Elif(is_one["SYNC"]):
                    m.d.sync += state.eq(State.HAND)
                with m.Elif(_any(is_one[record.name] for record in engines)):
                    m.d.sync += state.eq(State.RESOLVE)
                with m.Else():
                    m.d.comb += self.take.eq(1)
                    with m.If(self.granted):
                        m.d.sync += state.eq(State.EXECUTE)
            with m.Case(State.RESOLVE):
                m.d.sync += step.eq(step + 1)
                with m.If(resolver.last):
                    m.d.sync += state.eq(State.RESOLVED)
            with m.Case(State.RESOLVED):
                m.d.sync += state.eq(State.HAND)
            with m.Case(State.HAND):
                m.d.comb += self.hand.eq(1 << target)
                with m.If(self.taken.bit_select(target, 1)):
                    m.d.comb += [finishes.eq(1), self.i.ready.eq(1)]
            with m.Case(State.EXECUTE):
                with m.If(is_one["BARRIER"] | is_one["HALT"]):
                    with m.If(self.settled):
                        with m.If(is_one["BARRIER"]):
                            m.d.sync += state.eq(State.ARRIVED)
                        with m.Elif(self.nonzero):
                            m.d.sync += [cause.eq(Cause.SEM_LEFT), state.eq(State.FAULT)]
                        with m.Else():
                            m.d.sync += state.eq(State.POST)
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += state.eq(State.POST)
            with m.Case(State.ARRIVED):
                m.d.comb += self.arrived.eq(1)
                with m.If(self.release):
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += state.eq(State.POST)
            with m.Case(State.POST):
                m.d.comb += self.posting.eq(1)
                with m.If(self.posted):
                    m.d.comb += finishes.eq(1)
            with m.Case(State.FAULT):
                m.d.comb += [
                    self.fault.valid.eq(1), self.fault.cause.eq(cause), self.fault.pc.eq(self.pc)
                ]  # fmt: skip
            with m.Default():
                pass
        m.d.comb += self.retired.eq(finishes)
        with m.If(finishes):
            with m.If(is_one["HALT"]):
                m.d.sync += [state.eq(State.HALTED), halted.eq(1)]
            with m.Else():
                m.d.sync += state.eq(State.NEXT)

        executes = (state == State.EXECUTE) & self.i.ready
        m.d.sync += [total.eq(added), is_over.eq(count.data == 1)]
        with m.If(executes):
            with m.If(is_one["SETA"] | is_one["ADDA"]):
                m.d.comb += set_register.en.eq(1)
                m.d.sync += is_set.bit_select(set_register.addr, 1).eq(1)
            with m.If(is_one["LOOP"]):
                with m.If(total == 0):
                    m.d.sync += skipped.eq(1)
                with m.Else():
                    m.d.comb += [self.push.eq(1), set_count.en.eq(1)]
                    m.d.sync += depth.eq(depth + 1)
            with m.If(is_one["END"]):
                with m.If(is_over):
                    m.d.comb += self.pop.eq(1)
                    m.d.sync += depth.eq(top)
                with m.Else():
                    m.d.comb += [self.again.eq(1), set_count.en.eq(1)]
        m.d.comb += [
            set_register.addr.eq(Mux(is_one["SETA"], seta["rd"], adda["rd"])),
            set_register.data.eq(Mux(is_one["SETA"], seta["imm"], wrapped)),
            count.addr.eq(top),
            set_count.addr.eq(Mux(is_one["LOOP"], depth, top)),
            set_count.data.eq(Mux(is_one["LOOP"], total, count.data - 1)),
        ]
        with m.If(self.start):
            m.d.sync += state.eq(State.NEXT)
        return m


def _any(values: object) -> Value:
    return Cat(*values).any()
