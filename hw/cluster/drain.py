"""DRAIN: a tile becomes words, and words become WRITEs or DATA.

In row order the four rows of a group go side by side: `WINDOW` words of a row, then of the next,
so that memory gets bursts. To memory a row may start inside a word; its words are then read across
two chunks.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.multiply_add import MultiplyAdd
from hw.cluster.accumulator import Place, is_serial, part
from hw.cluster.tile import SLOT_BITS, UNIT_BITS, Tile, TileReader, below
from hw.common.interfaces import Engine, code, record_of, resolved, tag
from hw.noc.flit import (
    ELEMENT_BITS,
    WORD_ADDRESS_BITS,
    Buffer,
    Cause,
    Flit,
    Form,
    Kind,
)
from kohakutpu.config import LANES, MAX_NODES, QUARTERS_PER_WORD, Machine
from kohakutpu.isa.operands import LOCAL_BITS

RECORD = record_of("C", 2)
TRANSFER = tag(2, 0)
WIDE_BITS = WORD_ADDRESS_BITS + 6  # of a word that may lie past every memory
COUNT_BITS = MAX_NODES.bit_length()

WINDOW = 8
"""Words of a row before the next one's turn; even, as two words of a row make a block."""

PLACE = data.StructLayout(
    {
        "address": WIDE_BITS,
        "mask": QUARTERS_PER_WORD,
        "lane": 2,
        "half": 1,
        "first": 1,
        "row_last": 1,
        "last_element": ELEMENT_BITS,
        "last": 1,
    }
)
"""Where a word goes."""


class DrainEngine(wiring.Component):
    """The DRAIN engine of a cluster.

    Parameters
    ----------
    node : int
        The cluster.
    machine : Machine
        Sizes.

    Members
    -------
    engine : Out(Engine)
        See `hw.common.interfaces`; ``step`` says that a word was sent.
    read : Out(stream of Place)
        Parts wanted from the accumulator.
    part : In(part(k_per_cycle))
        What it answers, a cycle later.
    """

    def __init__(self, node: int, machine: Machine) -> None:
        self._node, self._machine = node, machine
        super().__init__(
            {
                "engine": Out(Engine("C", 2)),
                "read": Out(stream.Signature(Place)),
                "part": In(part(machine.k_per_cycle)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Check, read and send, wait for all of it."""
        m = Module()
        engine = self.engine
        m.submodules.reader = reader = TileReader(self._machine.k_per_cycle)
        wiring.connect(m, reader.read, wiring.flipped(self.read))
        ins = Signal(resolved(RECORD))
        to_memory = ins.to == code(RECORD, "to", "memory")
        to_vector = ~to_memory & (ins.buffer == Buffer.VECTOR)
        by_tile = ins.order == code(RECORD, "order", "tile")
        single = ins.format == code(RECORD, "format", "fp32")
        whole, units = Signal(UNIT_BITS), Signal(UNIT_BITS)  # quarters of a row: all, written
        skew = Signal(2)
        tile = Signal(Tile)
        m.d.comb += [
            whole.eq(Mux(single, ins.gn << 1, ins.gn)),
            units.eq(whole),
            tile.acc.eq(ins.acc),
            tile.gn.eq(ins.gn),
            tile.groups.eq(ins.gm),
            tile.units.eq(units),
            tile.chunks.eq((units + skew + 3) >> 2),
            tile.single.eq(single),
            tile.by_tile.eq(by_tile),
            tile.masked.eq(~to_memory),
            tile.rows.eq(ins.rows),
            tile.cols.eq(ins.cols),
            reader.tile.eq(tile),
            reader.part.eq(self.part),
        ]
        with m.If(to_memory & ~by_tile):
            m.d.comb += [
                skew.eq(ins.mem[:2]),
                units.eq(Mux(single, (ins.cols + 1) >> 1, (ins.cols + 3) >> 2)),
                tile.groups.eq((ins.rows + LANES - 1) >> 2),
            ]

        pending = Signal(COUNT_BITS)
        start, active, busy = Signal(), Signal(), Signal()
        place, reads = self._place(m, ins, tile, reader, start, active, skew, to_memory, to_vector)
        asks = self._send(m, ins, reader, place, reads, busy, active, to_memory, to_vector)
        receivers = sum((ins.nodes[n] for n in range(MAX_NODES)), Const(0))
        wanted = Mux(asks, Mux(to_memory, 1, receivers), 0)
        m.d.sync += pending.eq(pending + wanted - engine.ack.valid)
        m.d.comb += [engine.step.eq(engine.o.valid & engine.o.ready), engine.fault.pc.eq(ins.pc)]
        m.d.comb += reader.start.eq(start)

        m.submodules.reach = reach = MultiplyAdd(
            12, LOCAL_BITS, serial=is_serial(self._machine.k_per_cycle)
        )
        size = Signal(UNIT_BITS)  # of a row, or a group, at the receiver
        limit = Mux(to_vector, self._machine.vl1_words, self._machine.l1_entries)
        steps = Mux(to_vector & ~by_tile, ins.gm << 2, ins.gm) - 1
        beyond = ins.mem[LOCAL_BITS:].any() | (ins.stride[LOCAL_BITS:].any() & (steps != 0))
        m.d.comb += [
            size.eq(Mux(to_vector, Mux(by_tile, whole, (whole + 3) >> 2), (ins.gn + 7) >> 3)),
            reach.left.eq(steps),
            reach.right.eq(ins.stride),
            reach.plus.eq(ins.mem[:LOCAL_BITS] + size),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += engine.i.ready.eq(1)
                m.d.sync += ins.eq(engine.i.payload)
                with m.If(engine.i.valid):
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.comb += [
                    reach.start.eq(1),
                    reach.left.eq(ins.gm),
                    reach.right.eq(ins.gn),
                    reach.plus.eq(ins.acc),
                ]
                m.next = "TILE"
            with m.State("TILE"), m.If(reach.done):
                m.d.comb += reach.start.eq(1)
                with m.If(reach.o > self._machine.acc_subtiles):
                    m.next = Cause.ACC_RANGE.name
                with m.Elif(to_memory & by_tile & (ins.mem[:2] != 0)):
                    m.next = Cause.MISALIGNED.name
                with m.Elif(to_memory):
                    m.next = "BEGIN"
                with m.Else():
                    m.next = "RECEIVER"
            with m.State("RECEIVER"), m.If(reach.done):
                m.next = "BEGIN"
                with m.If(beyond | (reach.o > limit)):
                    m.next = Cause.L1_RANGE.name
            with m.State("BEGIN"):
                m.d.comb += start.eq(~to_memory | ((ins.rows != 0) & (ins.cols != 0)))
                m.next = "WAIT"
            for cause in (Cause.ACC_RANGE, Cause.MISALIGNED, Cause.L1_RANGE):
                with m.State(cause.name):
                    m.d.comb += [engine.fault.valid.eq(1), engine.fault.cause.eq(cause)]
            with m.State("WAIT"):
                with m.If(~active & ~busy & (pending == 0)):
                    m.d.comb += engine.done.eq(1)
                    m.next = "IDLE"
        return m

    def _place(
        self,
        m: Module,
        ins: data.View,
        tile: data.View,
        reader: TileReader,
        start: Value,
        active: Signal,
        skew: Value,
        to_memory: Value,
        to_vector: Value,
    ) -> tuple[data.View, Value]:
        """Return where the next word goes, and whether all of it is read now."""
        by_tile = tile.by_tile
        group, chunk, number = Signal.like(tile.groups), Signal.like(tile.chunks), Signal(2)
        slot, window_slot = Signal(SLOT_BITS), Signal(SLOT_BITS)
        window = Signal.like(chunk)  # its first chunk
        # Of the group, of the window in its first row, in this row, of this word.
        addresses = [Signal(WIDE_BITS, name=name) for name in ("group_at", "window_at", "row_at")]
        group_at, window_at, row_at = addresses
        here = Signal(WIDE_BITS)
        first = Signal()
        beat = Signal(range(reader.beats))
        reads = reader.enable & (beat == reader.beats - 1)  # all of a word
        m.d.sync += beat.eq(beat + reader.enable)
        last_group, last_chunk = group + 1 == tile.groups, chunk + 1 == tile.chunks
        ragged = (tile.units - 1)[:2]  # last quarter of the last chunk
        last_number = Signal(2)
        with m.If(by_tile):
            m.d.comb += last_number.eq(Mux(last_chunk, ragged, 3))
        with m.Else():
            m.d.comb += last_number.eq(Mux(last_group & to_memory, (tile.rows - 1)[:2], 3))
        ends_line = by_tile | last_chunk | (chunk - window == WINDOW - 1)
        ends_number = number == last_number
        ends_group = ends_number & last_chunk
        quarters = Cat(Const(0, 2), chunk)  # of the row before this word
        place = Signal(PLACE)
        m.d.comb += [
            place.address.eq(here),
            place.mask.eq(
                by_tile.replicate(QUARTERS_PER_WORD)
                | (below(quarters, skew + tile.units) & ~below(quarters, skew))
            ),
            place.lane.eq(number),
            place.half.eq(chunk[0]),
            place.first.eq(first),
            place.row_last.eq(last_chunk),
            place.last_element.eq(Mux(last_chunk & ~by_tile, Cat(Const(3, 2), ragged), 15)),
            place.last.eq(last_group & ends_group),
            reader.slot.eq(slot),
            reader.beat.eq(beat),
            reader.number.eq(number),
            reader.skew.eq(skew),
        ]
        with m.If(reads & ends_number):
            # A word of the next chunk may still begin in this one.
            m.d.comb += reader.release.eq(Mux(by_tile, 1, (chunk != 0) + last_chunk))
        by_entry = ~(to_memory | to_vector)
        row_step = Mux(by_entry, 0, ins.stride)
        word_step = Mux(by_entry, chunk[0], 1)
        group_step = Mux(by_tile | by_entry, ins.stride, ins.stride << 2)
        following, onto, step = Signal(WIDE_BITS), Signal(WIDE_BITS), Signal.like(ins.stride << 2)
        m.d.comb += following.eq(onto + step)
        with m.If(reads):
            m.d.sync += [first.eq(0), here.eq(following)]
            with m.If(ends_group):
                m.d.comb += [onto.eq(group_at), step.eq(group_step)]
                m.d.sync += [at.eq(following) for at in addresses]
                m.d.sync += [
                    chunk.eq(0),
                    window.eq(0),
                    number.eq(0),
                    slot.eq(slot + 1),
                    window_slot.eq(slot + 1),
                    group.eq(group + 1),
                    active.eq(~last_group),
                ]
            with m.Elif(by_tile):
                m.d.comb += [onto.eq(here), step.eq(1)]
                m.d.sync += number.eq(number + 1)
                with m.If(ends_number):
                    m.d.sync += [chunk.eq(chunk + 1), slot.eq(slot + 1)]
            with m.Elif(~ends_line):
                m.d.comb += [onto.eq(here), step.eq(word_step)]
                m.d.sync += [chunk.eq(chunk + 1), slot.eq(slot + 1)]
            with m.Elif(~ends_number):
                m.d.comb += [onto.eq(row_at), step.eq(row_step)]
                m.d.sync += [
                    number.eq(number + 1),
                    row_at.eq(following),
                    chunk.eq(window),
                    slot.eq(window_slot),
                ]
            with m.Else():
                m.d.comb += [onto.eq(window_at), step.eq(Mux(by_entry, WINDOW // 2, WINDOW))]
                m.d.sync += [
                    number.eq(0),
                    window_at.eq(following),
                    row_at.eq(following),
                    chunk.eq(chunk + 1),
                    window.eq(chunk + 1),
                    slot.eq(slot + 1),
                    window_slot.eq(slot + 1),
                ]
        with m.If(start):
            base = Mux(to_memory, ins.mem >> 2, ins.mem)
            m.d.sync += [at.eq(base) for at in (*addresses, here)]
            m.d.sync += [
                active.eq(1),
                first.eq(1),
                group.eq(0),
                chunk.eq(0),
                window.eq(0),
                number.eq(0),
            ]
        return place, reads

    def _send(
        self,
        m: Module,
        ins: data.View,
        reader: TileReader,
        place: data.View,
        reads: Value,
        busy: Signal,
        active: Value,
        to_memory: Value,
        to_vector: Value,
    ) -> Value:
        """Make the flit of the word that was read; return whether one with ``ack`` leaves."""
        o = self.engine.o
        here = Signal(PLACE)
        advance = ~busy | o.ready
        m.d.comb += reader.enable.eq(active & reader.there & advance)
        with m.If(advance):
            m.d.sync += [busy.eq(reads), here.eq(place)]

        flit = Flit(o.payload)
        write, fields = flit.fields.write, flit.fields.data
        past = here.address[WORD_ADDRESS_BITS:].any()
        m.d.comb += [o.valid.eq(busy), flit.word.raw.eq(reader.o)]
        with m.If(to_memory):
            m.d.comb += [
                flit.kind.eq(Kind.WRITE),
                # The last word there can be is past every memory that is smaller.
                write.address.eq(Mux(past, (1 << WORD_ADDRESS_BITS) - 1, here.address)),
                write.mask.eq(here.mask),
                write.ack.eq(here.last),
                write.tag.eq(TRANSFER),
                write.pc.eq(ins.pc),
            ]
        with m.Else():
            m.d.comb += [
                flit.kind.eq(Kind.DATA),
                flit.dest.eq(ins.nodes),
                fields.landing.buffer.eq(ins.buffer),
                fields.landing.form.eq(Mux(to_vector, Form.LINEAR, Form.ROWS)),
                fields.landing.residual.eq(ins.residual),
                fields.landing.offset.eq(here.address),
                fields.landing.stride.eq(ins.stride),
                fields.landing.detail.eq(Mux(to_vector, 0, Cat(here.lane, here.half))),
                fields.last_element.eq(here.last_element),
                fields.first.eq(here.first),
                fields.row_last.eq(here.row_last),
                fields.last.eq(here.last),
                fields.ack.eq(here.last),
                fields.requester.eq(self._node),
                fields.tag.eq(TRANSFER),
            ]
        return o.valid & o.ready & here.last
