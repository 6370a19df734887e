"""EXEC: three sources, the pipe, and where its results go."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Combine
from hw.arithmetic.reduction import RowReduction
from hw.common.interfaces import Engine, code
from hw.common.resting import resting
from hw.noc.flit import LOCAL_BITS
from hw.vector.check import DST, RECORD, RED, SHAPE, ExecCheck, Hull
from hw.vector.l1 import ReadPort, WritePort
from hw.vector.packer import WordPacker
from hw.vector.pipe import ABSENT, VectorPipe
from hw.vector.registers import RegisterFile
from hw.vector.scalars import ScalarPacker
from hw.vector.source import SourceReader
from hw.vector.walk import BeatWalk
from kohakutpu.config import Machine

SOURCES = "abc"
COMBINES = {"sum": Combine.SUM, "max": Combine.MAX, "min": Combine.MIN}


class ExecEngine(wiring.Component):
    """Compute rows of elements, a beat a cycle, and two instructions at once where none can tell.

    A beat leaves the sources when all three are there, and from then on nothing stops it: register
    file and L1 take what comes. Where they could not, the sources pause: every other cycle for
    FP32 words of 16 lanes, one cycle in `lanes` where results and row scalars share the register
    file.

    When an instruction has issued its last beat, the next one starts if it touches nothing that
    the first one writes, judged by where windows begin and end; otherwise when the first one is
    fully written. The checks of the next instruction run beside all that. Each of the two has its
    place (its *turn*) for operands and for what is done of it; every stage behind the sources knows
    whose turn it is.

    Parameters
    ----------
    machine : Machine
        Lanes and sizes.
    address_bits : int
        Of L1 words.

    Members
    -------
    engine : Out(Engine("V", 1))
        To the shell.
    l1_0, l1_1, l1_2 : ReadPort, seen from the L1
        One for each source; at most two are used at once.
    write : WritePort, seen from the L1
        Must be granted at once.
    """

    def __init__(self, machine: Machine, address_bits: int) -> None:
        self._machine, self._address_bits = machine, address_bits
        super().__init__(
            {"engine": Out(Engine("V", 1)), "write": In(WritePort(address_bits))}
            | {f"l1_{n}": In(ReadPort(address_bits)) for n in range(len(SOURCES))}
        )

    def elaborate(self, platform: object) -> Module:
        """Start, issue, collect, finish."""
        m = Module()
        lanes, beats = self._machine.lanes, self._machine.registers
        m.submodules.check = check = ExecCheck(self._machine)
        m.submodules.registers = registers = RegisterFile(beats, lanes, len(SOURCES))
        pipe, reduction = VectorPipe(lanes), RowReduction(lanes)
        m.submodules.pipe = resting(m, platform, pipe, "pipe", pipe.valid)
        m.submodules.reduction = resting(m, platform, reduction, "reduction", reduction.valid)
        m.submodules.packer = packer = WordPacker(lanes, self._address_bits)
        m.submodules.scalars = scalars = ScalarPacker(lanes)
        wiring.connect(m, wiring.flipped(self.engine.i), check.i)
        wiring.connect(m, packer.write, wiring.flipped(self.write))
        tasks = [Signal(SHAPE, name=f"task_{turn}", reset_less=True) for turn in range(2)]
        alive, issuing, start = Signal(2), Signal(), Signal()
        # Turns of the instruction that issues, and of the one that ends next; the first one has 1.
        turn, oldest = Signal(), Signal(init=1)
        owes = Signal()  # row scalars are on their way
        alone = Signal()  # those of one instruction, and none waits to be written

        ends = self._issue(m, tasks, turn, start, issuing, registers, pipe, owes, alone)
        beats_done = self._collect(
            m, tasks, registers, pipe, reduction, packer, scalars, owes, alone, start, turn
        )
        self._start(m, check, tasks, turn, start, issuing, alive)
        with m.If(start):
            m.d.sync += issuing.eq(1)
        with m.Elif(ends):
            m.d.sync += issuing.eq(0)

        done = []
        events = (
            (beats_done, lambda task: Const(1, 1)),
            ((packer.finished, packer.finished_mark), _to_l1),
            ((scalars.finished, scalars.finished_mark), _reduces),
        )
        for n, task in enumerate(tasks):
            complete = alive[n]
            for number, ((event, mark), is_needed) in enumerate(events):
                seen = Signal(name=f"seen_{number}_{n}")
                with m.If(event & (mark == n)):
                    m.d.sync += seen.eq(1)
                with m.If(start & (turn == n)):
                    m.d.sync += seen.eq(0)
                complete = complete & (seen | ~is_needed(task))
            done.append(complete & (oldest == n) & ~(start & (turn == n)))
        finished = Cat(*done).any()
        m.d.comb += [
            check.idle.eq(alive == 0),
            self.engine.fault.eq(check.fault),
            self.engine.done.eq(finished),
            self.engine.step.eq(pipe.o_valid),
        ]
        for n in range(2):
            with m.If(done[n]):
                m.d.sync += [alive[n].eq(0), oldest.eq(~oldest)]
        return m

    def _start(
        self,
        m: Module,
        check: ExecCheck,
        tasks: list[Signal],
        turn: Signal,
        start: Signal,
        issuing: Signal,
        alive: Signal,
    ) -> None:
        """Take the next instruction when it can meet nothing that is still to be written."""
        written = [Signal(Hull, name=f"written_{n}", reset_less=True) for n in range(2)]
        hulls = check.o.payload.hulls
        # Results are written in order, row scalars too, but not the ones behind the others.
        pairs = [(n, w) for n in range(len(SOURCES)) for w in written]
        pairs += [(DST, written[1]), (RED, written[0])]
        meets = reduce(or_, (_meet(hulls[n], w) for n, w in pairs))
        may = ~issuing & ~start & ((alive == 0) | (~alive.all() & ~meets))
        m.d.comb += check.o.ready.eq(may)
        m.d.sync += start.eq(check.o.valid & may)
        with m.If(check.o.valid & may):
            m.d.sync += [turn.eq(~turn), written[0].eq(hulls[DST]), written[1].eq(hulls[RED])]
            for n in range(2):
                with m.If(turn != n):
                    m.d.sync += [tasks[n].eq(check.o.payload.task), alive[n].eq(1)]

    def _issue(
        self,
        m: Module,
        tasks: list[Signal],
        turn: Signal,
        start: Signal,
        issuing: Signal,
        registers: RegisterFile,
        pipe: VectorPipe,
        owes: Signal,
        alone: Signal,
    ) -> Value:
        """Bring the sources together; return whether the last beat leaves."""
        lanes = self._machine.lanes
        m.submodules.issued = issued = BeatWalk(lanes)
        task, issue = _of(m, tasks, turn, "issuing_task"), Signal()
        phase = Signal(range(lanes))
        m.d.sync += phase.eq(phase + 1)
        to_registers = task.dst.kind == code(RECORD, "dst", "reg")
        shares = _reduces(task) | owes
        if lanes == 16:
            # A beat of scalars of such rows has time until one is seen to wait for its turn.
            shares = shares & ~(_reduces(task) & (task.cols >= lanes * lanes) & alone)
        pause = to_registers & shares & (phase == 0)
        if lanes == 16:
            pause = pause | ((task.dst.kind == code(RECORD, "dst", "l1f")) & phase[0])
        if RowReduction.shares(lanes):
            since = Signal(range(RowReduction.APART))  # a row began
            with m.If(issue & (issued.beat == 0)):
                m.d.sync += since.eq(0)
            with m.Elif(since != RowReduction.APART - 1):
                m.d.sync += since.eq(since + 1)
            early = (issued.beat == 0) & (since != RowReduction.APART - 1)
            pause = pause | (_reduces(task) & early)
        valid = []
        for n, name in enumerate(SOURCES):
            m.submodules[f"source_{n}"] = source = SourceReader(
                lanes, self._machine.registers, self._address_bits, ABSENT[n]
            )
            valid.append(source.valid)
            wiring.connect(m, source.l1, wiring.flipped(getattr(self, f"l1_{n}")))
            m.d.comb += [
                source.start.eq(start),
                source.kind.eq(task[name].kind),
                source.payload.eq(task[name].payload),
                source.rows.eq(task.rows),
                source.cols.eq(task.cols),
                source.take.eq(issue),
                source.row.eq(issued.row),
                source.beat.eq(issued.beat),
                source.ends_row.eq(issued.ends_row),
                source.ends.eq(issued.ends),
                registers.read[n].eq(source.read),
                getattr(registers, f"address_{n}").eq(source.address),
                source.found.eq(getattr(registers, f"beat_{n}")),
                getattr(pipe, f"source_{n}").eq(source.elements),
                getattr(pipe, f"half_{n}").eq(source.halves),
                getattr(pipe, f"is_half_{n}").eq(source.is_half),
            ]
        m.d.comb += [
            issue.eq(issuing & Cat(*valid).all() & ~pause),
            issued.step.eq(issue),
            issued.rows.eq(task.rows),
            issued.cols.eq(task.cols),
            pipe.valid.eq(issue),
            pipe.f.eq(task.f),
            pipe.unary.eq(task.unary),
        ]
        return issue & issued.ends

    def _collect(
        self,
        m: Module,
        tasks: list[Signal],
        registers: RegisterFile,
        pipe: VectorPipe,
        reduction: RowReduction,
        packer: WordPacker,
        scalars: ScalarPacker,
        owes: Signal,
        alone: Signal,
        start: Signal,
        turn: Signal,
    ) -> tuple[Value, Value]:
        """Write and reduce what leaves the pipe; return when an instruction's last beat has."""
        lanes = self._machine.lanes
        m.submodules.computed = computed = BeatWalk(lanes)
        # Turns change from one instruction to the next: a bit that flips says whose beat it is.
        here = Signal(init=1)
        ends = pipe.o_valid & computed.ends
        m.d.sync += here.eq(here ^ ends)
        # The task of the next beat, which has been there for as long as the pipe is.
        task = Signal(SHAPE, name="computed_task", reset_less=True)
        m.d.sync += task.eq(_of(m, tasks, here ^ ends, "following_task"))
        window, kind = task.dst.payload.window, task.dst.kind
        is_half = kind == code(RECORD, "dst", "l1h")
        next_base, base, place = Signal(LOCAL_BITS), Signal(LOCAL_BITS), Signal(LOCAL_BITS)
        index = Mux(
            kind == code(RECORD, "dst", "reg"),
            computed.beat,
            Mux(is_half, _word(computed.beat, lanes, 16), _word(computed.beat, lanes, 8)),
        )
        m.d.comb += [
            base.eq(Mux(computed.row == 0, window.base, next_base)),
            place.eq(base + index),
        ]
        with m.If(pipe.o_valid & computed.ends_row):
            m.d.sync += next_base.eq(base + window.stride)
        masked = Cat(Mux(computed.keep[n], pipe.o[n].as_value(), 0) for n in range(lanes))
        writes = pipe.o_valid & (kind == code(RECORD, "dst", "reg"))
        m.d.comb += [
            packer.valid.eq(pipe.o_valid & _to_l1(task)),
            packer.elements.eq(masked),
            packer.is_half.eq(is_half),
            packer.address.eq(place),
            packer.mark.eq(here),
            packer.cols.eq(task.cols),
            packer.beat.eq(computed.beat),
            packer.ends_row.eq(computed.ends_row),
            packer.ends.eq(computed.ends),
        ]
        op = Signal(Combine)
        with m.Switch(task.reduce):
            for name, value in COMBINES.items():
                with m.Case(code(RECORD, "reduce", name)):
                    m.d.comb += op.eq(value)
        m.d.comb += [
            computed.step.eq(pipe.o_valid),
            computed.rows.eq(task.rows),
            computed.cols.eq(task.cols),
            reduction.valid.eq(pipe.o_valid & _reduces(task)),
            reduction.elements.eq(pipe.o),
            reduction.keep.eq(computed.keep),
            reduction.last.eq(computed.ends_row),
            reduction.op.eq(op),
            registers.write.eq(writes | scalars.write),
            registers.address.eq(Mux(writes, place, scalars.address)),
            registers.beat.eq(Mux(writes, masked, scalars.beat.as_value())),
        ]

        m.submodules.reducing = reducing = SyncFIFO(width=1, depth=2)  # turns of those that reduce
        scalar_task = _of(m, tasks, reducing.r_data, "scalar_task")
        starting = _of(m, tasks, turn, "starting_task")
        m.d.comb += [
            reducing.w_en.eq(start & _reduces(starting)),
            reducing.w_data.eq(turn),
            reducing.r_en.eq(scalars.ends),
            owes.eq(reducing.r_rdy | scalars.waits),
            alone.eq((reducing.level <= 1) & ~scalars.waits),
            scalars.valid.eq(reduction.o_valid),
            scalars.value.eq(reduction.o),
            scalars.base.eq(scalar_task.red),
            scalars.rows.eq(scalar_task.rows),
            scalars.mark.eq(reducing.r_data),
            scalars.free.eq(~writes),
        ]
        return ends, here


def _of(m: Module, tasks: list[Signal], turn: Value, name: str) -> data.View:
    task = Signal(SHAPE, name=name)
    m.d.comb += task.eq(Mux(turn, tasks[1].as_value(), tasks[0].as_value()))
    return task


def _word(beat: Value, lanes: int, per: int) -> Value:
    """Return in which word of its row, of `per` elements each, a beat begins."""
    if lanes > per:
        return beat << 1
    return beat >> ((per // lanes).bit_length() - 1)


def _to_l1(task: data.View) -> Value:
    kind = task.dst.kind
    return (kind == code(RECORD, "dst", "l1h")) | (kind == code(RECORD, "dst", "l1f"))


def _reduces(task: data.View) -> Value:
    return task.reduce != code(RECORD, "reduce", "none")


def _meet(one: data.View, other: data.View) -> Value:
    return (
        one.used
        & other.used
        & (one.in_l1 == other.in_l1)
        & (one.base < other.end)
        & (other.base < one.end)
    )
