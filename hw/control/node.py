"""The control node: kicks the units of the table, runs the barrier, gathers reports.

A run: the machine is cleared; the unit table is read from memory; every unit of it is kicked; each
time all of them have arrived at a barrier they are released; when all have halted, each unit of the
machine is asked for its counters, and one whose semaphores are not zero answers with a fault.

The first fault ends the run: memory ports finish what memory was asked for, and then everything
but this node is reset. The same happens at ``stop``, and when nobody makes progress: the units of
the table are asked in turn, and the first that has not halted answers with where it stands.

**Posts on their way.** A unit reports that it halted after its last post has left it. When all
have, only such posts are on the mesh; `QUIET` cycles later they have arrived, whatever their paths.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.common.counters import COUNT_BITS, NAMES
from hw.control.lite import AxiLite
from hw.control.registers import COUNTER_BITS, Registers
from hw.noc.flit import (
    NODE_BITS,
    PC_BITS,
    WORD_BITS,
    Buffer,
    Cause,
    Event,
    Flit,
    Form,
    Kind,
    Order,
)
from hw.noc.routes import memory_of
from kohakutpu.config import ADDRESS_BITS, MAX_NODES, QUARTERS_PER_WORD, Machine

QUIET = 128
STOPPING = 4
"""Cycles for `stop` to take effect before idle means idle."""


class Entry(data.Struct):
    """One word of the unit table: quarter and length of a program, and who runs it."""

    address: ADDRESS_BITS
    instructions: PC_BITS
    node: NODE_BITS


class State(enum.IntEnum, shape=4):
    """What the control node does."""

    IDLE = 0
    SETTLE = 1
    CLEAR = 2
    READ = 3
    LOAD = 4
    KICK = 5
    RUN = 6
    QUIET = 7
    ASK = 8
    ANSWER = 9
    WATCHDOG = 10
    WATCHED = 11
    DRAIN = 12
    STOPPED = 13


class Control(wiring.Component):
    """The control node.

    Parameters
    ----------
    machine : Machine
        The configuration.

    Members
    -------
    bus : In(AxiLite)
        The host.
    i, o : In(stream of Flit), Out(stream of Flit)
        From and to the mesh.
    progress : In(1)
        Some unit did something in the cycle before.
    stop : Out(1)
        To the memory ports.
    quiet : In(1)
        All memory ports are idle.
    clear : Out(1)
        Reset everything but this node.
    finished : Out(1)
        A run is over, well or not, until the next one.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "bus": In(AxiLite()),
                "i": In(stream.Signature(Flit)),
                "o": Out(stream.Signature(Flit)),
                "progress": In(1),
                "stop": Out(1),
                "quiet": In(1),
                "clear": Out(1, init=1),
                "finished": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """One state machine, and beside it what reports change."""
        m = Module()
        machine = self._machine
        (home,) = machine.of_kind("H")
        m.submodules.registers = registers = Registers(machine)
        wiring.connect(m, wiring.flipped(self.bus), registers.bus)
        m.submodules.table = table = Memory(shape=Entry, depth=MAX_NODES, init=[])
        write, read = table.write_port(), table.read_port()
        state = Signal(State)
        done, fault = Signal(), Signal()
        report = registers.fault
        kept = Signal.like(report)
        cycles = Signal(64)
        members, arrived, halted = (
            Signal(MAX_NODES, name=name) for name in ("members", "arrived", "halted")
        )
        index = Signal(range(MAX_NODES + 1))
        loaded = Signal(range(MAX_NODES + 1))
        still = Signal(32)  # cycles without progress, or of QUIET
        answers = Signal(range(len(NAMES) + 1))
        failed = Signal()  # nobody answers
        stopping = Signal()  # the host has said stop

        flit_in, flit = self.i.payload, self.o.payload
        said = flit_in.fields.report
        is_report = self.i.valid & (flit_in.kind == Kind.REPORT)
        is_word = self.i.valid & (flit_in.kind == Kind.DATA)
        is_fault = is_report & (said.event == Event.FAULT)
        is_counters = is_report & (said.event == Event.COUNTERS)
        active = (state > State.CLEAR) & (state < State.DRAIN)
        sent = self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(1),
            write.en.eq(is_word),
            write.addr.eq(loaded),
            write.data.eq(flit_in.word.raw),
            read.addr.eq(index),
            read.en.eq(1),
            registers.status.busy.eq(state != State.IDLE),
            registers.status.done.eq(done),
            registers.status.fault.eq(fault),
            report.eq(kept),
            registers.cycles.eq(cycles),
            registers.count_enable.eq(is_counters),
            registers.count_index.eq(Cat(said.pc[:COUNTER_BITS], said.unit)),
            registers.count.eq(flit_in.word.raw[:COUNT_BITS]),
            self.finished.eq(done),
            flit.source.eq(home.id),
        ]
        with m.If(is_word):
            m.d.sync += loaded.eq(loaded + 1)
        bit = 1 << said.unit
        with m.If(is_report & (said.event == Event.ARRIVED)):
            m.d.sync += arrived.eq(arrived | bit)
        with m.If(is_report & (said.event == Event.HALTED)):
            m.d.sync += halted.eq(halted | bit)
        with m.If(is_counters):
            m.d.sync += answers.eq(answers + 1)

        units = sum(1 << node.id for node in machine.nodes if node.kind in "CV")
        runs = (state == State.LOAD) | (state == State.KICK) | (state == State.RUN)
        with m.If(runs):
            m.d.sync += cycles.eq(cycles + 1)
        # A start needs a word of the table, which is there a cycle after its index.
        seen = Signal.like(index)
        settled = seen == index
        m.d.sync += seen.eq(index)
        with m.Switch(state):
            with m.Case(State.IDLE):
                with m.If(registers.go):
                    m.d.sync += [done.eq(0), fault.eq(0), kept.eq(0), cycles.eq(0)]
                    m.d.sync += [state.eq(State.SETTLE), still.eq(0)]
            with m.Case(State.SETTLE, State.DRAIN):
                m.d.comb += self.stop.eq(1)
                m.d.sync += still.eq(still + 1)
                with m.If(self.quiet & (still >= STOPPING)):
                    m.d.sync += self.clear.eq(1)
                    m.d.sync += state.eq(Mux(state == State.SETTLE, State.CLEAR, State.STOPPED))
            with m.Case(State.CLEAR):
                m.d.sync += [self.clear.eq(0), index.eq(0), loaded.eq(0), members.eq(0)]
                m.d.sync += [arrived.eq(0), halted.eq(0), answers.eq(0)]
                m.d.sync += state.eq(Mux(registers.units == 0, State.KICK, State.READ))
            with m.Case(State.STOPPED):
                m.d.sync += [self.clear.eq(0), state.eq(State.IDLE), done.eq(1)]
            with m.Case(State.READ):
                self._ask_for_table(m, registers, home.id)
                with m.If(sent):
                    m.d.sync += state.eq(State.LOAD)
            with m.Case(State.LOAD):
                with m.If(loaded == registers.units):
                    m.d.sync += state.eq(State.KICK)
            with m.Case(State.KICK):
                with m.If(index == registers.units):
                    m.d.sync += [state.eq(State.RUN), still.eq(0)]
                with m.Elif(settled):
                    m.d.comb += [
                        self.o.valid.eq(1),
                        flit.kind.eq(Kind.KICK),
                        flit.fields.kick.order.eq(Order.START),
                        flit.dest.eq(1 << read.data.node),
                        flit.word.kick.address.eq(read.data.address),
                        flit.word.kick.instructions.eq(read.data.instructions),
                    ]
                    with m.If(sent):
                        m.d.sync += index.eq(index + 1)
                        m.d.sync += members.eq(members | (1 << read.data.node))
            with m.Case(State.RUN):
                m.d.sync += still.eq(Mux(self.progress, 0, still + 1))
                with m.If(halted == members):
                    m.d.sync += [state.eq(State.QUIET), still.eq(0)]
                with m.Elif(still >= registers.watchdog):
                    m.d.sync += [state.eq(State.WATCHDOG), index.eq(0), answers.eq(0)]
                with m.Elif((arrived == members) & (members != 0)):
                    m.d.comb += [
                        self.o.valid.eq(1),
                        flit.kind.eq(Kind.KICK),
                        flit.fields.kick.order.eq(Order.RELEASE),
                        flit.dest.eq(members),
                    ]
                    with m.If(sent):
                        m.d.sync += arrived.eq(0)
            with m.Case(State.QUIET):
                m.d.sync += still.eq(still + 1)
                with m.If(still == QUIET):
                    m.d.sync += [state.eq(State.ASK), index.eq(0)]
            with m.Case(State.ASK):
                with m.If(Const(units, MAX_NODES + 1).bit_select(index, 1)):
                    self._ask(m, 1 << index)
                    with m.If(sent):
                        m.d.sync += [state.eq(State.ANSWER), answers.eq(0), still.eq(0)]
                with m.Elif(index == MAX_NODES):
                    m.d.sync += [state.eq(State.IDLE), done.eq(1)]
                with m.Else():
                    m.d.sync += index.eq(index + 1)
            with m.Case(State.ANSWER, State.WATCHED):
                m.d.sync += still.eq(still + 1)
                with m.If(answers == len(NAMES)):
                    m.d.sync += [index.eq(index + 1), answers.eq(0)]
                    m.d.sync += state.eq(Mux(state == State.ANSWER, State.ASK, State.WATCHDOG))
                with m.Elif(still >= registers.watchdog):
                    m.d.comb += failed.eq(1)
            with m.Case(State.WATCHDOG):
                with m.If(index == registers.units):
                    m.d.comb += failed.eq(1)
                with m.Elif(settled):
                    self._ask(m, 1 << read.data.node)
                    with m.If(sent):
                        m.d.sync += [state.eq(State.WATCHED), answers.eq(0), still.eq(0)]
        with m.If(state == State.IDLE):
            m.d.sync += stopping.eq(0)
        with m.Elif(registers.stop):
            m.d.sync += stopping.eq(1)
        with m.If(active & (is_fault | failed | stopping)):
            m.d.sync += [state.eq(State.DRAIN), fault.eq(1), still.eq(0)]
            with m.If(is_fault):
                m.d.sync += [
                    kept.unit.eq(said.unit), kept.pc.eq(said.pc), kept.cause.eq(said.cause)
                ]  # fmt: skip
            with m.Else():  # nobody answers, or the host has had enough
                m.d.sync += [kept.cause.eq(Cause.WATCHDOG), kept.unit.eq(home.id)]
        with m.If((state == State.IDLE) & self.clear):
            m.d.sync += self.clear.eq(0)
        return m

    def _ask_for_table(self, m: Module, registers: Registers, home: int) -> None:
        flit = self.o.payload
        request = flit.word.read
        machine = self._machine
        m.d.comb += [
            self.o.valid.eq(1),
            flit.kind.eq(Kind.READ),
            flit.dest.eq(1 << memory_of(machine, machine.of_kind("H")[0]).id),
            request.address.eq(registers.table * QUARTERS_PER_WORD),
            request.rows.eq(1),
            request.elements.eq(registers.units * (WORD_BITS // 16)),
            request.landing.buffer.eq(Buffer.VECTOR),
            request.landing.form.eq(Form.LINEAR),
            request.nodes.eq(1 << home),
        ]

    def _ask(self, m: Module, dest: Value) -> None:
        flit = self.o.payload
        m.d.comb += [
            self.o.valid.eq(1),
            flit.kind.eq(Kind.KICK),
            flit.fields.kick.order.eq(Order.STOP),
            flit.dest.eq(dest),
        ]
