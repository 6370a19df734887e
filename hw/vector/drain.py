"""VDRAIN: a window of L1 to memory or to buffers of units."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.multiply_add import MultiplyAdd
from hw.common.interfaces import Engine, code
from hw.common.receipts import InOrder, Receipts
from hw.common.rows import RowSender
from hw.common.window import SPAN_BITS, words_of
from hw.noc.buffer import ElasticBuffer, Register
from hw.noc.flit import ROW_BITS, STRIDE_BITS, Cause, Flit
from hw.vector.l1 import WideReadPort, banks_for
from hw.vector.quarters import QuarterSender
from hw.vector.reader import Window, WindowReader
from kohakutpu.config import KBLOCK, Machine


class DrainEngine(wiring.Component):
    """Check the window and where it lands, read, send; done with the last ACK.

    Two instructions may be on their way at once: what they send stays in order.

    Parameters
    ----------
    machine : Machine
        For the sizes of the receivers' buffers.
    node : int
        The own node.
    address_bits : int
        Of L1 words.

    Members
    -------
    engine : Out(Engine("V", 2))
        To the shell.
    l1 : WideReadPort, seen from the L1
        Where it is read.
    """

    def __init__(self, machine: Machine, node: int, address_bits: int) -> None:
        self._machine, self._node = machine, node
        self._address_bits = address_bits
        self._banks = banks_for(machine.lanes)
        super().__init__(
            {
                "engine": Out(Engine("V", 2)),
                "l1": In(WideReadPort(address_bits, self._banks)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Measure, multiply for both windows, start."""
        m = Module()
        engine = self.engine
        record = engine.signature.record
        m.submodules.receipts = receipts = Receipts()
        m.submodules.in_order = in_order = InOrder()
        m.submodules.reach = reach = MultiplyAdd(ROW_BITS, STRIDE_BITS, serial=self._banks == 1)
        window, starts = Signal(Window), Signal()
        rows, ready = self._sender(m, window, starts)
        task = Signal.like(engine.i.payload, reset_less=True)

        is_fp32 = task.format == code(record, "format", "fp32")
        tiles = task.order == code(record, "order", "tile")
        to_memory = task.to == code(record, "to", "memory")
        is_vector = task.buffer == code(record, "buffer", "vector")
        width, span = Signal(SPAN_BITS), Signal(SPAN_BITS)
        wanted = Signal(SPAN_BITS)
        given = Signal(17)
        # A row of sub-tiles takes a word for 4 columns of FP16, two for FP32.
        tile_span = Mux(is_fp32, task.cols >> 1, task.cols >> 2)
        elements = Mux(is_fp32, task.cols << 1, task.cols)
        m.d.comb += given.eq(Mux(is_fp32, task.col_extent << 1, task.col_extent))
        nothing = to_memory & ((task.row_extent == 0) | (task.col_extent == 0))

        limit = Mux(is_vector, self._machine.vl1_words, self._machine.l1_entries)
        bad = Signal()
        # Into the own L1: the end of what is read lies behind the start of what lands, and so on.
        meets = Signal()
        own = ~to_memory & is_vector & task.nodes[self._node]
        receivers = sum((task.nodes[n] for n in range(1, 16)), task.nodes[0])
        m.d.comb += [
            in_order.busy.eq(receipts.busy),
            receipts.ack.eq(engine.ack),
            receipts.low.eq(in_order.low),
            receipts.count.eq(Mux(nothing, 0, Mux(to_memory, 1, receivers))),
            engine.done.eq(in_order.done),
            engine.step.eq(engine.o.valid & engine.o.ready),
            engine.fault.cause.eq(Mux(bad, Cause.L1_RANGE, Cause.OVERLAP)),
            engine.fault.pc.eq(task.pc),
            window.base.eq(task.l1),
            window.stride.eq(task.l1_stride),
            window.rows.eq(rows.rows),
            window.words.eq(wanted),
            window.tiles.eq(tiles),
            window.is_fp32.eq(is_fp32),
            rows.to_memory.eq(to_memory),
            rows.buffer.eq(task.buffer),
            rows.residual.eq(task.residual),
            rows.nodes.eq(task.nodes),
            rows.mem.eq(task.mem),
            rows.stride.eq(task.stride),
            rows.rows.eq(Mux(to_memory, task.row_extent, task.rows)),
            rows.words.eq(wanted),
            rows.data_rows.eq(task.row_extent),
            rows.data_halves.eq(given),
            rows.low.eq(in_order.low),
            rows.pc.eq(task.pc),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += engine.i.ready.eq(1)
                with m.If(engine.i.valid):
                    m.d.sync += task.eq(engine.i.payload)
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.sync += [
                    width.eq(words_of(elements)),
                    wanted.eq(Mux(to_memory, words_of(given), words_of(elements))),
                    span.eq(Mux(tiles, tile_span, words_of(elements))),
                ]
                m.next = "OWN"
            with m.State("OWN"):
                rows_read = Mux(tiles, task.rows >> 2, task.rows)
                m.d.comb += [
                    reach.start.eq(1),
                    reach.left.eq(rows_read - 1),
                    reach.right.eq(task.l1_stride),
                    reach.plus.eq(task.l1 + span),
                ]
                m.next = "OWN_END"
            with m.State("OWN_END"):
                m.d.sync += [
                    bad.eq(reach.o > self._machine.vl1_words),
                    meets.eq(own & (task.mem < reach.o)),
                ]
                with m.If(reach.done):
                    m.next = "RECEIVER"
            with m.State("RECEIVER"):
                blocks = (task.cols + (KBLOCK - 1))[KBLOCK.bit_length() - 1 :]
                rows_landed = Mux(is_vector, task.rows, (task.rows + 3) >> 2)
                m.d.comb += [
                    reach.start.eq(1),
                    reach.left.eq(rows_landed - 1),
                    reach.right.eq(task.stride),
                    reach.plus.eq(task.mem + Mux(is_vector, width, blocks)),
                ]
                m.next = "RECEIVER_END"
            with m.State("RECEIVER_END"):
                with m.If(reach.done):
                    m.d.sync += [
                        bad.eq(bad | (~to_memory & (reach.o > limit))),
                        meets.eq(meets & (task.l1 < reach.o)),
                    ]
                    m.next = "START"
            with m.State("START"):
                with m.If(bad | meets):
                    m.d.comb += engine.fault.valid.eq(in_order.idle)
                with m.Elif(in_order.free & ready):
                    m.d.comb += [
                        in_order.start.eq(1),
                        receipts.open.eq(1),
                        starts.eq(~nothing),
                    ]
                    m.next = "TAKE"
        return m

    def _sender(self, m: Module, window: data.View, starts: Value) -> tuple[data.View, Value]:
        """Join L1 to the mesh; return what to send and whether it can start."""
        engine = self.engine
        if self._banks == 1:
            # Between what the mesh takes and what L1 is asked for.
            m.submodules.out = out = ElasticBuffer(Flit)
            m.submodules.sender = sender = QuarterSender(2, self._node, self._address_bits)
            wiring.connect(m, sender.o, out.i)
            wiring.connect(m, out.o, wiring.flipped(engine.o))
            wiring.connect(m, sender.l1, wiring.flipped(self.l1))
            m.d.comb += [sender.window.eq(window), sender.i.valid.eq(starts)]
            return sender.i.payload, sender.i.ready
        m.submodules.out = out = Register(Flit)
        m.submodules.reader = reader = WindowReader(self._address_bits)
        m.submodules.sender = sender = RowSender(2, self._node)
        wiring.connect(m, sender.o, out.i)
        wiring.connect(m, out.o, wiring.flipped(engine.o))
        wiring.connect(m, reader.o, sender.word)
        wiring.connect(m, reader.l1, wiring.flipped(self.l1))
        m.d.comb += [
            reader.i.payload.eq(window),
            reader.i.valid.eq(starts),
            sender.i.valid.eq(starts),
        ]
        return sender.i.payload, sender.i.ready & reader.i.ready
