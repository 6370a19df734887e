"""FILL: what a region needs from memory, and zeros for the rest.

Row-major operands are one READ; transposed ones a READ for every 32 K rows of a word; packed ones
a READ of elements and, for every 64 groups, one of scales. What the extents leave out is up to
three rectangles of zeros.

Groups may overlap one another in L1 (`l1_stride` below `nk`), and then a later group is what stays.
Such a region is filled group by group, each as a fill of its own.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import Engine, code, record_of, resolved, tag
from hw.noc.flit import Buffer, Cause, Form, Kind, ReadWord
from kohakutpu.config import ADDRESS_BITS, KBLOCK, LANES, MAX_NODES
from kohakutpu.isa.operands import LOCAL_BITS

RECORD = record_of("C", 0)
WIDE_BITS = ADDRESS_BITS + 8  # of a quarter that may lie past every memory
WORD_ELEMENTS = 16
SCALE_GROUPS = 64  # whose scales one READ brings: 64 * 1023 entries are the most it can describe
READS, CLEARS = tag(0, 0), tag(0, 1)
COUNT_BITS = (2 * MAX_NODES).bit_length()


class FillEngine(wiring.Component):
    """The FILL engine of a cluster.

    Parameters
    ----------
    node : int
        The cluster.
    entries : int
        Of L1A and of L1B, of every cluster.

    Members
    -------
    engine : Out(Engine)
        See `hw.common.interfaces`; ``step`` is `landed`.
    landed : In(1)
        A word that this engine asked for was taken.
    """

    def __init__(self, node: int, entries: int) -> None:
        self._node, self._entries = node, entries
        super().__init__({"engine": Out(Engine("C", 0)), "landed": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Check, send READs, send CLEARs, wait for all of them."""
        m = Module()
        engine = self.engine
        ins = Signal(resolved(RECORD))  # l1, mem, rows and g move on from group to group
        mem = Signal(WIDE_BITS)
        packed = ins.mode == code(RECORD, "mode", "packed")
        overlapping = Signal()
        groups = Signal.like(ins.g)
        step = Signal(LOCAL_BITS)
        rows = Signal.like(ins.rows)
        m.d.comb += [
            overlapping.eq((ins.l1_stride < ins.nk) & (ins.g > 1) & ~packed),
            rows.eq(ins.rows),
        ]
        by_group = Signal()  # one group at a time
        m.d.comb += [groups.eq(Mux(by_group, 1, ins.g)), step.eq(Mux(by_group, 0, ins.l1_stride))]
        with m.If(by_group & (ins.rows > LANES)):
            m.d.comb += rows.eq(LANES)
        has_data = Signal()
        used_groups, used_blocks = Signal.like(ins.g), Signal.like(ins.nk)
        m.d.comb += has_data.eq((ins.rows != 0) & (ins.k != 0))
        with m.If(has_data):
            m.d.comb += [
                used_groups.eq((rows + LANES - 1) >> 2),
                used_blocks.eq((ins.k + KBLOCK - 1) >> 5),
            ]

        left, right = Signal(10), Signal(LOCAL_BITS)
        product = Signal(24)
        m.d.sync += product.eq(left * right)
        entries, used = Signal(20), Signal(24)  # all of them; to the groups past the extent
        pending = Signal(COUNT_BITS)
        asks = engine.o.valid & engine.o.ready & engine.o.payload.fields.data.ack
        read = ReadWord(engine.o.payload.word.read)
        asks_read = engine.o.valid & engine.o.ready & read.ack
        is_read = engine.o.payload.kind == Kind.READ
        receivers = sum((ins.nodes[n] for n in range(MAX_NODES)), Const(0))
        wanted = Mux(Mux(is_read, asks_read, asks), receivers, 0)
        m.d.sync += pending.eq(pending + wanted - engine.ack.valid)
        m.d.comb += [
            engine.step.eq(self.landed),
            engine.fault.pc.eq(ins.pc),
        ]

        walk = _Walk(m, ins, mem, rows, step, entries)
        clears = Signal(3)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += engine.i.ready.eq(1)
                m.d.sync += [ins.eq(engine.i.payload), mem.eq(engine.i.payload.mem)]
                m.d.sync += by_group.eq(0)
                with m.If(engine.i.valid):
                    m.next = "MEASURE REGION"
            with m.State("MEASURE REGION"):
                m.d.comb += [left.eq(ins.g - 1), right.eq(ins.l1_stride)]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [left.eq(ins.g), right.eq(ins.nk)]
                with m.If(ins.mem[:2] != 0):
                    m.next = Cause.MISALIGNED.name
                with m.Elif(ins.l1 + product + ins.nk > self._entries):
                    m.next = Cause.L1_RANGE.name
                with m.Else():
                    m.next = "MEASURE ENTRIES"
            with m.State("MEASURE ENTRIES"):
                m.d.comb += [left.eq(used_groups), right.eq(ins.l1_stride)]
                m.d.sync += [entries.eq(product), by_group.eq(overlapping)]
                m.next = "MEASURE ROWS"
            with m.State("MEASURE ROWS"):
                m.d.sync += used.eq(Mux(by_group, 0, product))
                m.next = "START"
            with m.State("START"):
                walk.start()
                m.d.sync += clears.eq(
                    Cat(
                        has_data & (used_blocks < ins.nk),
                        has_data & ~ins.transpose & (rows[:2] != 0),
                        used_groups < groups,
                    )
                )
                with m.If(packed):
                    m.d.sync += clears.eq(0)
                    m.next = "ELEMENTS"
                with m.Elif(~has_data):
                    m.next = "CLEAR"
                with m.Elif(ins.transpose):
                    m.next = "COLUMNS"
                with m.Else():
                    m.next = "ROWS"
            for form in (Form.ROWS, Form.COLUMNS, Form.ELEMENTS, Form.SCALES):
                with m.State(form.name):
                    self._read(m, ins, walk, form)
                    with m.If(engine.o.ready):
                        walk.advance(form)
                        with m.If(walk.last[form]):
                            m.next = "SCALES" if form is Form.ELEMENTS else "CLEAR"
            with m.State("CLEAR"):
                self._clear(m, ins, clears, groups, used_groups, used_blocks, used, rows, step)
                with m.If(clears == 0):
                    m.next = "WAIT"
            for cause in (Cause.MISALIGNED, Cause.L1_RANGE):
                with m.State(cause.name):
                    m.d.comb += [engine.fault.valid.eq(1), engine.fault.cause.eq(cause)]
            with m.State("WAIT"):
                with m.If(pending == 0):
                    with m.If(by_group & (ins.g > 1)):
                        m.d.sync += [
                            ins.g.eq(ins.g - 1),
                            ins.l1.eq(ins.l1 + ins.l1_stride),
                            ins.rows.eq(Mux(ins.rows > LANES, ins.rows - LANES, 0)),
                            mem.eq(mem + Mux(ins.transpose, 1, ins.stride << 4)),
                        ]
                        m.next = "START"
                    with m.Else():
                        m.d.comb += engine.done.eq(1)
                        m.next = "IDLE"
        return m

    def _read(self, m: Module, ins: Signal, walk: "_Walk", form: Form) -> None:
        flit = self.engine.o.payload
        read = ReadWord(flit.word.read)
        address, rows, elements, stride, offset = walk.read[form]
        past = address[ADDRESS_BITS:].any()  # the last word is past every memory that has a fault
        m.d.comb += [
            self.engine.o.valid.eq(1),
            flit.kind.eq(Kind.READ),
            read.address.eq(Mux(past, (1 << ADDRESS_BITS) - 4, address)),
            read.rows.eq(rows),
            read.elements.eq(elements),
            read.stride.eq(stride),
            read.landing.buffer.eq(Buffer.L1A + ins.buffer),
            read.landing.form.eq(form),
            read.landing.residual.eq(ins.mode == code(RECORD, "mode", "residual")),
            read.landing.offset.eq(offset),
            read.landing.stride.eq(walk.step),
            read.landing.detail.eq(ins.nk if form is Form.SCALES else 0),
            read.nodes.eq(ins.nodes),
            read.ack.eq(0 if form is Form.ELEMENTS else walk.last[form]),
            read.tag.eq(READS),
            read.pc.eq(ins.pc),
        ]

    def _clear(
        self,
        m: Module,
        ins: Signal,
        clears: Signal,
        groups: Value,
        used_groups: Value,
        used_blocks: Value,
        used: Value,
        rows: Value,
        step: Value,
    ) -> None:
        """Zero blocks past `k`, lanes past `rows` in their group, groups past that."""
        flit = self.engine.o.payload
        fields, clear = flit.fields.data, flit.word.clear
        m.d.comb += [
            self.engine.o.valid.eq(clears != 0),
            flit.dest.eq(ins.nodes),
            flit.kind.eq(Kind.CLEAR),
            fields.landing.buffer.eq(Buffer.L1A + ins.buffer),
            fields.landing.form.eq(Form.ROWS),
            fields.landing.stride.eq(step),
            fields.requester.eq(self._node),
            fields.tag.eq(CLEARS),
        ]
        with m.If(clears[0]):
            m.d.comb += [
                fields.landing.offset.eq(ins.l1 + used_blocks),
                clear.rows.eq(used_groups),
                clear.words.eq(ins.nk - used_blocks),
                clear.lanes.eq(0b1111),
                fields.ack.eq(clears[1:] == 0),
            ]
        with m.Elif(clears[1]):
            m.d.comb += [
                fields.landing.offset.eq(ins.l1 + used - step),
                clear.rows.eq(1),
                clear.words.eq(used_blocks),
                clear.lanes.eq(Const(0b1111, LANES) << rows[:2]),
                fields.ack.eq(~clears[2]),
            ]
        with m.Else():
            m.d.comb += [
                fields.landing.offset.eq(ins.l1 + used),
                clear.rows.eq(groups - used_groups),
                clear.words.eq(ins.nk),
                clear.lanes.eq(0b1111),
                fields.ack.eq(1),
            ]
        with m.If(self.engine.o.ready):
            m.d.sync += clears.eq(clears & (clears - 1))


class _Walk:
    """Position of the next READ, and what it describes.

    Attributes
    ----------
    read : dict of Form to tuple
        Address, rows, elements, memory stride, offset.
    last : dict of Form to Value
        No READ of that form follows.
    step : Value
        Entries from group to group.
    """

    def __init__(
        self, m: Module, ins: Signal, mem: Signal, rows: Value, step: Value, entries: Value
    ) -> None:
        self._m, self._ins, self._mem, self.step, self._entries = m, ins, mem, step, entries
        self._line = line = Signal(WIDE_BITS)  # where the current K rows, or scales, begin
        self._k_left = k_left = Signal.like(ins.k)
        self._block = block = Signal.like(ins.nk)
        self._done = done = Signal.like(ins.rows)  # columns of the current K rows
        self._moved = moved = Signal(LOCAL_BITS)
        self._groups_left = groups_left = Signal.like(ins.g)
        self._entries_left = entries_left = Signal(20)
        self._row_done = row_done = Signal()
        columns_left = rows - done
        many_groups = groups_left > SCALE_GROUPS
        m.d.comb += row_done.eq(columns_left <= WORD_ELEMENTS)
        self.read = {
            Form.ROWS: (mem, rows, ins.k, ins.stride, ins.l1),
            Form.COLUMNS: (
                line + (done >> 2),
                Mux(k_left < KBLOCK, k_left, KBLOCK),
                Mux(row_done, columns_left, WORD_ELEMENTS),
                ins.stride,
                ins.l1 + block + moved,
            ),
            Form.ELEMENTS: (mem, ins.g, ins.nk << 6, ins.nk << 2, ins.l1),
            Form.SCALES: (
                line,
                1,
                Mux(many_groups, ins.nk << 7, entries_left << 1),
                0,
                ins.l1 + moved,
            ),
        }
        self.last = {
            Form.ROWS: Const(1),
            Form.COLUMNS: row_done & (k_left <= KBLOCK),
            Form.ELEMENTS: Const(1),
            Form.SCALES: ~many_groups,
        }

    def start(self) -> None:
        """Begin at the start of the region; inside the state before the first READ."""
        ins = self._ins
        self._m.d.sync += [
            self._line.eq(self._mem),
            self._k_left.eq(ins.k),
            self._block.eq(0),
            self._done.eq(0),
            self._moved.eq(0),
            self._groups_left.eq(ins.g),
            self._entries_left.eq(self._entries),
        ]

    def advance(self, form: Form) -> None:
        """Go on to the next READ; inside the condition that one was sent."""
        m, ins = self._m, self._ins
        if form is Form.ELEMENTS:
            m.d.sync += self._line.eq(self._mem + (self._entries << 4))
        elif form is Form.SCALES:
            m.d.sync += [
                self._line.eq(self._line + (ins.nk << 5)),
                self._groups_left.eq(self._groups_left - SCALE_GROUPS),
                self._entries_left.eq(self._entries_left - (ins.nk << 6)),
                self._moved.eq(self._moved + (self.step << 6)),
            ]
        elif form is Form.COLUMNS:
            m.d.sync += [
                self._done.eq(self._done + WORD_ELEMENTS),
                self._moved.eq(self._moved + (self.step << 2)),
            ]
            with m.If(self._row_done):
                m.d.sync += [
                    self._done.eq(0),
                    self._moved.eq(0),
                    self._block.eq(self._block + 1),
                    self._k_left.eq(self._k_left - KBLOCK),
                    self._line.eq(self._line + (ins.stride << 7)),
                ]
