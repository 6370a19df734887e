"""VFILL: READs whose answers land in L1s, CLEARs for what memory does not give."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import Engine, code, tag
from hw.common.receipts import InOrder, Receipts
from hw.common.window import Reach, words_of
from hw.noc.buffer import Register
from hw.noc.flit import LOCAL_BITS, Buffer, Cause, Flit, Form, Kind

READ, CLEAR = 0, 1  # tags of an instruction that sends both


class FillEngine(wiring.Component):
    """Turn instructions into READ and CLEAR; done when every receiver has everything.

    A window is a READ for what lies below the extents, a CLEAR for the words to the right of it
    and one for the rows below. Where rows of the window overlap, the last row that has a word
    wins: the right goes first, then the READ, then the rows below, each after the one before it
    has landed. Two instructions that are READs alone may be on their way at once.

    Parameters
    ----------
    words : int
        Of every vector core's L1.
    node : int
        The own node.

    Members
    -------
    engine : Out(Engine("V", 0))
        To the shell.
    landed : In(1)
        A word of its own has landed here.
    """

    def __init__(self, words: int, node: int) -> None:
        self._words, self._node = words, node
        super().__init__({"engine": Out(Engine("V", 0)), "landed": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Check, send in order, collect ACKs."""
        m = Module()
        engine = self.engine
        record = engine.signature.record
        m.submodules.out = out = Register(Flit)
        m.submodules.receipts = receipts = Receipts()
        m.submodules.in_order = in_order = InOrder()
        m.submodules.reach = reach = Reach(LOCAL_BITS + 1, LOCAL_BITS)
        wiring.connect(m, out.o, wiring.flipped(engine.o))
        task = Signal.like(engine.i.payload, reset_less=True)

        is_fp32 = task.format == code(record, "format", "fp32")
        elements = Mux(is_fp32, task.cols << 1, task.cols)
        given = Signal(17)
        width, covered = Signal(14), Signal(14)
        nothing = (task.row_extent == 0) | (task.col_extent == 0)
        rows_given = Mux(nothing, 0, task.row_extent)
        has_right, has_below = Signal(), Signal()
        overlaps = Signal()
        end = Signal.like(reach.end)
        m.d.comb += given.eq(Mux(is_fp32, task.col_extent << 1, task.col_extent))
        rows_below = (task.rows - rows_given)[: len(task.rows)]
        right = (width - covered)[: len(width)]

        receivers = sum((task.nodes[n] for n in range(1, 16)), task.nodes[0])
        flit = out.i.payload
        m.d.comb += [
            in_order.busy.eq(receipts.busy),
            receipts.ack.eq(engine.ack),
            receipts.count.eq(receivers),
            reach.base.eq(task.l1),
            reach.stride.eq(task.l1_stride),
            reach.rows.eq(rows_given + 1),  # from CHECK on, `end` is where the rows below begin
            engine.done.eq(in_order.done),
            engine.step.eq(self.landed),
            engine.fault.cause.eq(Cause.L1_RANGE),
            engine.fault.pc.eq(task.pc),
        ]

        def send_read(low: Value) -> None:
            read = flit.word.read
            m.d.comb += [
                flit.kind.eq(Kind.READ),
                read.address.eq(task.mem),
                read.rows.eq(task.row_extent),
                read.elements.eq(given),
                read.stride.eq(task.stride),
                read.landing.buffer.eq(Buffer.VECTOR),
                read.landing.form.eq(Form.LINEAR),
                read.landing.offset.eq(task.l1),
                read.landing.stride.eq(task.l1_stride),
                read.nodes.eq(task.nodes),
                read.ack.eq(1),
                read.tag.eq(tag(0, 0) | low),
                read.pc.eq(task.pc),
                out.i.valid.eq(1),
                receipts.low.eq(low),
                receipts.open.eq(out.i.ready),
            ]

        def send_clear(offset: Value, rows: Value, words: Value, ack: Value) -> None:
            fields = flit.fields.data
            m.d.comb += [
                flit.kind.eq(Kind.CLEAR),
                flit.dest.eq(task.nodes),
                fields.landing.buffer.eq(Buffer.VECTOR),
                fields.landing.form.eq(Form.LINEAR),
                fields.landing.offset.eq(offset),
                fields.landing.stride.eq(task.l1_stride),
                fields.last_element.eq(15),
                fields.first.eq(1),
                fields.row_last.eq(1),
                fields.last.eq(1),
                fields.ack.eq(ack),
                fields.requester.eq(self._node),
                fields.tag.eq(tag(0, CLEAR)),
                flit.word.clear.rows.eq(rows),
                flit.word.clear.words.eq(words),
                out.i.valid.eq(1),
                receipts.low.eq(CLEAR),
                receipts.open.eq(out.i.ready & ack),
            ]

        quiet = receipts.busy == 0
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += engine.i.ready.eq(1)
                with m.If(engine.i.valid):
                    m.d.sync += task.eq(engine.i.payload)
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.sync += [
                    width.eq(words_of(elements)),
                    covered.eq(Mux(nothing, 0, words_of(given))),
                ]
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.d.comb += [reach.rows.eq(task.rows), reach.span.eq(width)]
                m.d.sync += [
                    has_right.eq(~nothing & (right != 0)),
                    has_below.eq(rows_below != 0),
                    overlaps.eq((task.l1_stride < width) & (task.rows != 1)),
                ]
                m.next = "ADD"
            with m.State("ADD"):
                m.next = "END"
            with m.State("END"):
                m.d.sync += end.eq(reach.end)
                m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(end > self._words):
                    m.next = "FAULT"
                with m.Elif(~has_right & ~has_below):
                    with m.If(in_order.free):
                        send_read(in_order.low)
                        m.d.comb += in_order.start.eq(out.i.ready)
                        with m.If(out.i.ready):
                            m.next = "TAKE"
                with m.Elif(in_order.idle):
                    m.next = "RIGHT"
            with m.State("RIGHT"):
                send = has_right
                with m.If(send):
                    send_clear(task.l1 + covered, rows_given, right, overlaps | ~has_below)
                with m.If(~send | out.i.ready):
                    m.next = "READ"
            with m.State("READ"):
                with m.If(nothing):
                    m.next = "BELOW"
                with m.Elif(~overlaps | quiet):
                    send_read(READ)
                    with m.If(out.i.ready):
                        m.next = "BELOW"
            with m.State("BELOW"):
                with m.If(~has_below):
                    m.next = "WAIT"
                with m.Elif(~overlaps | quiet):
                    send_clear(reach.end, rows_below, width, 1)
                    with m.If(out.i.ready):
                        m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(quiet):
                    m.d.comb += engine.done.eq(1)
                    m.next = "TAKE"
            with m.State("FAULT"):
                m.d.comb += engine.fault.valid.eq(in_order.idle)
        return m
