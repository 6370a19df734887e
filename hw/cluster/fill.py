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

from hw.arithmetic.multiply_add import MultiplyAdd
from hw.cluster.accumulator import is_serial
from hw.common.interfaces import Engine, code, record_of, resolved, tag
from hw.noc.flit import LENGTH_BITS, Buffer, Cause, Form, Kind, ReadWord
from kohakutpu.config import ADDRESS_BITS, KBLOCK, LANES, MAX_NODES, Machine
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
    machine : Machine
        Sizes.

    Members
    -------
    engine : Out(Engine)
        See `hw.common.interfaces`; ``step`` is `landed`.
    landed : In(1)
        A word that this engine asked for was taken.
    """

    def __init__(self, node: int, machine: Machine) -> None:
        self._node, self._machine = node, machine
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

        m.submodules.reach = reach = MultiplyAdd(
            ins.g.shape().width, LOCAL_BITS, serial=is_serial(self._machine.k_per_cycle)
        )

        def measure(steps: Value, stride: Value, plus: Value) -> None:
            m.d.comb += [
                reach.start.eq(1),
                reach.left.eq(steps),
                reach.right.eq(stride),
                reach.plus.eq(plus),
            ]

        entries, used = Signal(20), Signal(24)  # all of them; to the groups past the extent
        pending = Signal(COUNT_BITS)
        asks = engine.o.valid & engine.o.ready & engine.o.payload.fields.data.ack
        read = ReadWord(engine.o.payload.word.read)
        asks_read = engine.o.valid & engine.o.ready & read.ack
        is_read = engine.o.payload.kind == Kind.READ
        receivers = sum((ins.nodes[n] for n in range(MAX_NODES)), Const(0))
        wanted = Mux(Mux(is_read, asks_read, asks), receivers, 0)
        # Two cycles go by between the last flit and the look at what is pending.
        counted = Signal(range(MAX_NODES + 1))
        m.d.sync += [counted.eq(wanted), pending.eq(pending + counted - engine.ack.valid)]
        m.d.comb += [
            engine.step.eq(self.landed),
            engine.fault.pc.eq(ins.pc),
        ]

        walk = _Walk(m, ins, mem, rows, step, entries)
        self._describe(m, ins, walk, step)
        clears = Signal(3)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += engine.i.ready.eq(1)
                m.d.sync += [ins.eq(engine.i.payload), mem.eq(engine.i.payload.mem)]
                m.d.sync += by_group.eq(0)
                with m.If(engine.i.valid):
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                measure(ins.g - 1, ins.l1_stride, ins.l1 + ins.nk)
                m.next = "REGION"
            with m.State("REGION"), m.If(reach.done):
                measure(ins.g, ins.nk, Const(0))
                with m.If(ins.mem[:2] != 0):
                    m.next = Cause.MISALIGNED.name
                with m.Elif(reach.o > self._machine.l1_entries):
                    m.next = Cause.L1_RANGE.name
                with m.Else():
                    m.next = "ENTRIES"
            with m.State("ENTRIES"), m.If(reach.done):
                measure(used_groups, ins.l1_stride, Const(0))
                m.d.sync += [entries.eq(reach.o), by_group.eq(overlapping)]
                m.next = "USED"
            with m.State("USED"), m.If(reach.done):
                m.d.sync += used.eq(Mux(by_group, 0, reach.o))
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
                    m.d.comb += [engine.o.valid.eq(1), walk.form.eq(form)]
                    with m.If(engine.o.ready):
                        walk.advance()
                        with m.If(walk.last):
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

    def _describe(self, m: Module, ins: Signal, walk: "_Walk", step: Value) -> None:
        """Fill in what all flits have; a CLEAR has some of a READ's too, which nobody reads."""
        flit = self.engine.o.payload
        read, fields = ReadWord(flit.word.read), flit.fields.data
        past = walk.address[ADDRESS_BITS:].any()  # the last word is past every memory with a fault
        m.d.comb += [
            flit.kind.eq(Kind.READ),
            flit.dest.eq(ins.nodes),
            read.address.eq(Mux(past, (1 << ADDRESS_BITS) - 4, walk.address)),
            read.rows.eq(walk.rows),
            read.elements.eq(walk.elements),
            read.stride.eq(walk.stride),
            read.landing.buffer.eq(Buffer.L1A + ins.buffer),
            read.landing.form.eq(walk.form),
            read.landing.residual.eq(ins.mode == code(RECORD, "mode", "residual")),
            read.landing.offset.eq(walk.offset),
            read.landing.stride.eq(step),
            read.landing.detail.eq(Mux(walk.form == Form.SCALES, ins.nk, 0)),
            read.nodes.eq(ins.nodes),
            read.ack.eq(walk.last & (walk.form != Form.ELEMENTS)),
            read.tag.eq(READS),
            read.pc.eq(ins.pc),
            fields.landing.buffer.eq(Buffer.L1A + ins.buffer),
            fields.landing.form.eq(Form.ROWS),
            fields.landing.stride.eq(step),
            fields.requester.eq(self._node),
            fields.tag.eq(CLEARS),
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
            flit.kind.eq(Kind.CLEAR),
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
    """The next READ.

    Attributes
    ----------
    form : Signal
        To be driven: its form.
    address, rows, elements, stride, offset : Value
        What it describes.
    last : Signal
        No READ of that form follows.
    """

    def __init__(
        self, m: Module, ins: Signal, mem: Signal, rows: Value, step: Value, entries: Value
    ) -> None:
        self._m, self._ins, self._mem, self._entries = m, ins, mem, entries
        self._line = Signal(WIDE_BITS)  # where the current K rows, elements or scales begin
        self._k_left = Signal.like(ins.k)
        self._block = Signal.like(ins.nk)
        self._done = Signal.like(ins.rows)  # columns of the current K rows
        self._moved = Signal(LOCAL_BITS)
        self._groups_left = Signal.like(ins.g)
        self._entries_left = Signal(20)
        self._row_done = Signal()
        columns_left = rows - self._done
        many_groups = self._groups_left > SCALE_GROUPS
        m.d.comb += self._row_done.eq(columns_left <= WORD_ELEMENTS)
        self.form = Signal(Form, init=Form.ROWS)
        self.last = Signal()
        self.address = self._line + (self._done >> 2)
        self.offset = ins.l1 + self._block + self._moved
        self.rows, self.elements = Signal.like(ins.rows), Signal(LENGTH_BITS)
        self.stride = Signal.like(ins.stride)
        self._onwards, self._moves = Signal(WIDE_BITS), Signal(LOCAL_BITS)
        with m.Switch(self.form):
            with m.Case(Form.COLUMNS):
                m.d.comb += [
                    self.rows.eq(Mux(self._k_left < KBLOCK, self._k_left, KBLOCK)),
                    self.elements.eq(Mux(self._row_done, columns_left, WORD_ELEMENTS)),
                    self.stride.eq(ins.stride),
                    self.last.eq(self._row_done & (self._k_left <= KBLOCK)),
                    self._onwards.eq(Mux(self._row_done, ins.stride << 7, 0)),
                    self._moves.eq(step << 2),
                ]
            with m.Case(Form.ELEMENTS):
                m.d.comb += [
                    self.rows.eq(ins.g),
                    self.elements.eq(ins.nk << 6),
                    self.stride.eq(ins.nk << 2),
                    self.last.eq(1),
                    self._onwards.eq(entries << 4),
                ]
            with m.Case(Form.SCALES):
                m.d.comb += [
                    self.rows.eq(1),
                    self.elements.eq(Mux(many_groups, ins.nk << 7, self._entries_left << 1)),
                    self.last.eq(~many_groups),
                    self._onwards.eq(ins.nk << 5),
                    self._moves.eq(step << 6),
                ]
            with m.Default():
                m.d.comb += [
                    self.rows.eq(rows),
                    self.elements.eq(ins.k),
                    self.stride.eq(ins.stride),
                    self.last.eq(1),
                ]

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

    def advance(self) -> None:
        """Go on to the next READ; inside the condition that one was sent."""
        m, ins = self._m, self._ins
        m.d.sync += [
            self._line.eq(self._line + self._onwards),
            self._moved.eq(self._moved + self._moves),
        ]
        with m.If(self.form == Form.SCALES):
            m.d.sync += [
                self._groups_left.eq(self._groups_left - SCALE_GROUPS),
                self._entries_left.eq(self._entries_left - (ins.nk << 6)),
            ]
        with m.If(self.form == Form.COLUMNS):
            m.d.sync += self._done.eq(self._done + WORD_ELEMENTS)
            with m.If(self._row_done):
                m.d.sync += [
                    self._done.eq(0),
                    self._moved.eq(0),
                    self._block.eq(self._block + 1),
                    self._k_left.eq(self._k_left - KBLOCK),
                ]
