"""GEMM: the loop nest, an entry pair every ``KBLOCK / k_per_cycle`` cycles."""

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.multiply_add import MultiplyAdd
from hw.cluster.accumulator import is_serial
from hw.cluster.block import POSITION_BITS
from hw.cluster.tensor import TURNAROUND, Step
from hw.common.interfaces import Engine, record_of, resolved
from hw.noc.flit import Cause
from kohakutpu.config import KBLOCK, LANES, Machine
from kohakutpu.isa.operands import LOCAL_BITS

RECORD = record_of("C", 1)


class GemmEngine(wiring.Component):
    """The GEMM engine of a cluster, without its arithmetic.

    The next instruction is checked while the last one runs. It begins when its first read of a
    sub-tile cannot come before the last one's write.

    Parameters
    ----------
    machine : Machine
        Sizes.

    Members
    -------
    engine : Out(Engine)
        See `hw.common.interfaces`.
    step : Out(Step)
        What happens in this cycle.
    a, b, position : Out(14), Out(14), Out(3)
        Entries to read, and where in them.
    ended : In(1)
        The last sub-tile of an instruction is being written.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "engine": Out(Engine("C", 1)),
                "step": Out(Step),
                "a": Out(LOCAL_BITS),
                "b": Out(LOCAL_BITS),
                "position": Out(POSITION_BITS),
                "ended": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Check one instruction, run another."""
        m = Module()
        engine = self.engine
        checked = Signal(resolved(RECORD))
        ready, taken = Signal(), Signal()  # `checked` may run; it does from now on
        owed = Signal(3)
        m.d.sync += owed.eq(owed + taken - self.ended)
        m.d.comb += engine.done.eq(self.ended)
        self._check(m, checked, ready, taken, owed)
        self._run(m, checked, ready, taken)
        return m

    def _check(
        self, m: Module, checked: Signal, ready: Signal, taken: Signal, owed: Signal
    ) -> None:
        engine, machine = self.engine, self._machine
        wrong = Signal(Cause)
        m.submodules.reach = reach = MultiplyAdd(
            checked.gm.shape().width, LOCAL_BITS, serial=is_serial(machine.k_per_cycle)
        )
        m.d.comb += engine.fault.pc.eq(checked.pc)

        def measure(base: Value, span: Value, steps: Value, stride: Value) -> None:
            m.d.comb += [
                reach.start.eq(1),
                reach.left.eq(steps),
                reach.right.eq(stride),
                reach.plus.eq(base + span),
            ]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += engine.i.ready.eq(1)
                m.d.sync += [checked.eq(engine.i.payload), wrong.eq(Cause.NONE)]
                with m.If(engine.i.valid):
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                measure(checked.a, checked.nk, checked.gm - 1, checked.a_stride)
                m.next = "A"
            with m.State("A"), m.If(reach.done):
                measure(checked.b, checked.nk, checked.gn - 1, checked.b_stride)
                with m.If(reach.o > machine.l1_entries):
                    m.d.sync += wrong.eq(Cause.L1_RANGE)
                m.next = "B"
            with m.State("B"), m.If(reach.done):
                measure(checked.acc, Const(0), checked.gm, checked.gn)
                with m.If(reach.o > machine.l1_entries):
                    m.d.sync += wrong.eq(Cause.L1_RANGE)
                m.next = "TILE"
            with m.State("TILE"), m.If(reach.done):
                with m.If((reach.o > machine.acc_subtiles) & (wrong == Cause.NONE)):
                    m.d.sync += wrong.eq(Cause.ACC_RANGE)
                m.next = "READY"
            with m.State("READY"):
                with m.If(wrong == Cause.NONE):
                    m.d.comb += ready.eq(1)
                    with m.If(taken):
                        m.next = "IDLE"
                with m.Elif(owed == 0):
                    m.d.comb += [engine.fault.valid.eq(1), engine.fault.cause.eq(wrong)]

    def _run(self, m: Module, checked: Signal, ready: Signal, taken: Signal) -> None:
        machine, step = self._machine, self.step
        ins = Signal(resolved(RECORD))
        running = Signal()
        slices = KBLOCK // machine.k_per_cycle
        # Cycles between two reads of one sub-tile at least; a small tile waits for that long.
        apart = TURNAROUND + 1
        number = Signal(range(max(slices, 2)))
        h, g, kb = Signal.like(ins.gn), Signal.like(ins.gm), Signal.like(ins.nk)
        row, column = Signal(LOCAL_BITS), Signal(LOCAL_BITS)  # of `a` and `b`, without kb
        subtile = Signal(LOCAL_BITS)
        since_pass = Signal(range(apart + 1), init=apart)
        since_step = Signal(range(apart + 1), init=apart)

        last_slice = number == slices - 1
        last_h, last_g, last_kb = h + 1 == ins.gn, g + 1 == ins.gm, kb + 1 == ins.nk
        begins = Signal()  # a pass over the tile
        goes, ends = Signal(), Signal()
        m.d.comb += [
            begins.eq((number == 0) & (h == 0) & (g == 0)),
            goes.eq(running & (~begins | (since_pass == apart))),
            ends.eq(goes & last_slice & last_h & last_g & last_kb),
            step.valid.eq(goes),
            step.last.eq(last_slice),
            step.fresh.eq((kb == 0) & ~ins.accumulate),
            step.subtile.eq(subtile),
            step.ends.eq(ends),
            self.a.eq(row + kb),
            self.b.eq(column + kb),
            self.position.eq(number * (machine.k_per_cycle // LANES)),
            self.engine.step.eq(goes & last_slice),
        ]
        with m.If(goes & begins):
            m.d.sync += since_pass.eq(1)
        with m.Elif(since_pass != apart):
            m.d.sync += since_pass.eq(since_pass + 1)
        with m.If(goes):
            m.d.sync += since_step.eq(1)
        with m.Elif(since_step != apart):
            m.d.sync += since_step.eq(since_step + 1)

        with m.If(goes):
            m.d.sync += number.eq(number + 1)
            with m.If(last_slice):
                m.d.sync += [
                    number.eq(0),
                    h.eq(h + 1),
                    column.eq(column + ins.b_stride),
                    subtile.eq(subtile + 1),
                ]
                with m.If(last_h):
                    m.d.sync += [h.eq(0), column.eq(ins.b), g.eq(g + 1), row.eq(row + ins.a_stride)]
                    with m.If(last_g):
                        m.d.sync += [g.eq(0), row.eq(ins.a), subtile.eq(ins.acc), kb.eq(kb + 1)]
        # In the same tile, or where nothing is read, the passes follow each other as ever.
        same = (checked.acc == ins.acc) & (checked.gm == ins.gm) & (checked.gn == ins.gn)
        safe = ~checked.accumulate | same | (since_step == apart)
        m.d.comb += taken.eq(ready & (~running | ends) & safe)
        with m.If(taken):
            m.d.sync += [
                running.eq(1),
                ins.eq(checked),
                number.eq(0),
                h.eq(0),
                g.eq(0),
                kb.eq(0),
                row.eq(checked.a),
                column.eq(checked.b),
                subtile.eq(checked.acc),
            ]
        with m.Elif(ends):
            m.d.sync += running.eq(0)
