"""EXEC: three sources, the pipe, and where its results go."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Combine
from hw.arithmetic.reduction import RowReduction
from hw.common.interfaces import Engine, code
from hw.noc.flit import LOCAL_BITS
from hw.vector.check import RECORD, SHAPE, ExecCheck
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
    """Compute rows of elements; an instruction starts when the one before is fully written.

    The checks of the next instruction run beside the one that computes. A beat leaves the sources
    when all three are there, and from then on nothing stops it: register file and L1 take what
    comes. Where they could not, the sources pause: every other cycle for FP32 words of 16 lanes,
    one cycle in `lanes` where results and row scalars share the register file.

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
        """Check, start, issue, collect."""
        m = Module()
        lanes, beats = self._machine.lanes, self._machine.registers
        m.submodules.check = check = ExecCheck(self._machine)
        m.submodules.registers = registers = RegisterFile(beats, lanes, len(SOURCES))
        m.submodules.issued = issued = BeatWalk(lanes)
        m.submodules.pipe = pipe = VectorPipe(lanes)
        wiring.connect(m, wiring.flipped(self.engine.i), check.i)
        task = Signal(SHAPE, reset_less=True)
        running, start = Signal(), Signal()
        finished = Signal()
        m.d.comb += [
            check.o.ready.eq(~running & ~start),
            check.idle.eq(~running & ~start),
            self.engine.fault.eq(check.fault),
            self.engine.done.eq(finished),
        ]
        m.d.sync += start.eq(check.o.valid & check.o.ready)
        with m.If(check.o.ready):
            m.d.sync += task.eq(check.o.payload)
        with m.If(start):
            m.d.sync += running.eq(1)
        with m.If(finished):
            m.d.sync += running.eq(0)

        to_registers = task.dst.kind == code(RECORD, "dst", "reg")
        to_halves = task.dst.kind == code(RECORD, "dst", "l1h")
        to_singles = task.dst.kind == code(RECORD, "dst", "l1f")
        reduces = task.reduce != code(RECORD, "reduce", "none")

        issue, issuing = Signal(), Signal()
        phase = Signal(range(lanes))
        m.d.sync += phase.eq(phase + 1)
        pause = to_registers & reduces & (phase == 0)
        if lanes == 16:
            pause = pause | (to_singles & phase[0])
        sources = []
        for n, name in enumerate(SOURCES):
            m.submodules[f"source_{n}"] = source = SourceReader(
                lanes, beats, self._address_bits, ABSENT[n]
            )
            sources.append(source)
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
                getattr(pipe, f"half_{n}").eq(source.is_half),
            ]
        m.d.comb += [
            issue.eq(issuing & Cat(source.valid for source in sources).all() & ~pause),
            issued.start.eq(start),
            issued.step.eq(issue),
            issued.rows.eq(task.rows),
            issued.cols.eq(task.cols),
            pipe.valid.eq(issue),
            pipe.f.eq(task.f),
            pipe.unary.eq(task.unary),
        ]
        with m.If(start):
            m.d.sync += issuing.eq(1)
        with m.Elif(issue & issued.ends):
            m.d.sync += issuing.eq(0)

        m.submodules.computed = computed = BeatWalk(lanes)
        m.submodules.packer = packer = WordPacker(lanes, self._address_bits)
        m.submodules.reduction = reduction = RowReduction(lanes)
        m.submodules.scalars = scalars = ScalarPacker(lanes)
        wiring.connect(m, packer.write, wiring.flipped(self.write))
        base = Signal(LOCAL_BITS, reset_less=True)
        masked = Cat(Mux(computed.keep[n], pipe.o[n].as_value(), 0) for n in range(lanes))
        op = Signal(Combine)
        with m.Switch(task.reduce):
            for name, value in COMBINES.items():
                with m.Case(code(RECORD, "reduce", name)):
                    m.d.comb += op.eq(value)
        writes = pipe.o_valid & to_registers
        m.d.comb += [
            computed.start.eq(start),
            computed.step.eq(pipe.o_valid),
            computed.rows.eq(task.rows),
            computed.cols.eq(task.cols),
            packer.start.eq(start),
            packer.window.eq(task.dst.payload.window),
            packer.rows.eq(task.rows),
            packer.cols.eq(task.cols),
            packer.is_half.eq(to_halves),
            packer.valid.eq(pipe.o_valid & (to_halves | to_singles)),
            packer.beat.eq(pipe.o),
            reduction.valid.eq(pipe.o_valid & reduces),
            reduction.elements.eq(pipe.o),
            reduction.keep.eq(computed.keep),
            reduction.last.eq(computed.ends_row),
            reduction.op.eq(op),
            scalars.start.eq(start),
            scalars.base.eq(task.red),
            scalars.rows.eq(task.rows),
            scalars.valid.eq(reduction.o_valid),
            scalars.value.eq(reduction.o),
            scalars.free.eq(~writes),
            registers.write.eq(writes | scalars.write),
            registers.address.eq(Mux(writes, base + computed.beat, scalars.address)),
            registers.beat.eq(Mux(writes, masked, scalars.beat.as_value())),
            self.engine.step.eq(pipe.o_valid),
        ]
        with m.If(start):
            m.d.sync += base.eq(task.dst.payload.window.base)
        with m.Elif(pipe.o_valid & computed.ends_row):
            m.d.sync += base.eq(base + task.dst.payload.window.stride)

        beats_done, words_done, scalars_done = (
            Signal(name=name) for name in ("beats_done", "words_done", "scalars_done")
        )
        m.d.comb += finished.eq(
            running
            & beats_done
            & (words_done | ~(to_halves | to_singles))
            & (scalars_done | ~reduces)
        )
        with m.If(pipe.o_valid & computed.ends):
            m.d.sync += beats_done.eq(1)
        with m.If(packer.finished):
            m.d.sync += words_done.eq(1)
        with m.If(scalars.finished):
            m.d.sync += scalars_done.eq(1)
        with m.If(start):
            m.d.sync += [beats_done.eq(0), words_done.eq(0), scalars_done.eq(0)]
        return m
