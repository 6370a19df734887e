"""COLUMNS: 32 rows of one word turn into 16 blocks.

Element ``e`` of row ``r`` is in bank ``(e + r) % 16``, so that a row is written and half a column
read in one cycle each.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.cluster.block import HalfBlock
from hw.noc.flit import ELEMENT_BITS, NODE_BITS, WORD_BITS, Buffer, DataFields, Flit
from kohakutpu.config import KBLOCK, LANES, MAX_NODES

ELEMENTS = 1 << ELEMENT_BITS
ROW_BITS = (KBLOCK - 1).bit_length()

JOB = data.StructLayout({"fields": DataFields, "source": NODE_BITS})


class ColumnTurn(wiring.Component):
    """Collect rows, two buffers a source; turn out whole ones in the order of their completion.

    Parameters
    ----------
    sources : sequence of int
        Nodes that send COLUMNS: the memory ports.

    Members
    -------
    i : In(stream of Flit)
        DATA of form COLUMNS.
    pending : Out(16)
        Nodes of which a buffer is complete and not turned out yet.
    o : Out(stream of HalfBlock)
        Blocks, two words each.
    """

    def __init__(self, sources: Sequence[int]) -> None:
        self._sources = tuple(sources)
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "pending": Out(MAX_NODES),
                "o": Out(stream.Signature(HalfBlock)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Write rows as they come; read columns of the oldest complete buffer."""
        m = Module()
        buffers = 2 * len(self._sources)
        buffer_bits = (buffers - 1).bit_length()
        banks = []
        for bank in range(ELEMENTS):
            memory = Memory(shape=16, depth=KBLOCK << buffer_bits, init=[])
            m.submodules[f"bank_{bank}"] = memory
            banks.append((memory.write_port(), memory.read_port()))
        m.submodules.order = order = SyncFIFO(width=buffer_bits, depth=buffers)
        jobs = [Signal(JOB, name=f"job_{n}") for n in range(buffers)]
        complete = Signal(buffers)
        released = Signal(buffers)
        completed = Signal(buffers)
        m.d.sync += complete.eq((complete & ~released) | completed)

        flit, fields = self.i.payload, self.i.payload.fields.data
        row = fields.landing.detail[:ROW_BITS]
        filling = Signal(buffer_bits)
        for index, node in enumerate(self._sources):
            odd = Signal(name=f"odd_{node}")
            m.d.comb += self.pending[node].eq(complete[2 * index : 2 * index + 2].any())
            with m.If(flit.source == node):
                m.d.comb += filling.eq(2 * index | odd)
                m.d.comb += self.i.ready.eq(~complete.bit_select(filling, 1))
                with m.If(self.i.valid & self.i.ready & fields.last):
                    m.d.sync += odd.eq(~odd)
        takes = self.i.valid & self.i.ready
        turned = _rotated(m, flit.word.raw, row[:ELEMENT_BITS], left=True)
        for bank, (into, _) in enumerate(banks):
            m.d.comb += [
                into.addr.eq(Cat(row, filling)),
                into.data.eq(turned.word_select(bank, 16)),
                into.en.eq(takes),
            ]
        m.d.comb += [
            order.w_data.eq(filling),
            order.w_en.eq(takes & fields.last),
            completed.eq(Mux(takes & fields.last, Const(1, buffers) << filling, 0)),
        ]
        with m.Switch(filling):
            for n, job in enumerate(jobs):
                with m.Case(n):
                    with m.If(takes & fields.last):
                        m.d.sync += [job.fields.eq(fields), job.source.eq(flit.source)]
        self._turn_out(m, order, jobs, banks, released)
        return m

    def _turn_out(
        self, m: Module, order: SyncFIFO, jobs: list, banks: list, released: Signal
    ) -> None:
        buffer = order.r_data
        job = Signal(JOB)
        with m.Switch(buffer):
            for n, candidate in enumerate(jobs):
                with m.Case(n):
                    m.d.comb += job.eq(candidate)
        landing = job.fields.landing
        column, half = Signal(ELEMENT_BITS), Signal()
        moved = Signal.like(landing.offset)  # of the group
        final = half & (column == Cat(Const(3, 2), job.fields.last_element[2:]))

        valid = Signal()
        advance = ~valid | self.o.ready
        reads = order.r_rdy & advance
        turn, kept = Signal(ELEMENT_BITS), Signal(ELEMENTS)
        half_block = Signal(HalfBlock)
        m.d.comb += order.r_en.eq(reads & final)
        m.d.comb += released.eq(Mux(order.r_en, Const(1, len(released)) << buffer, 0))
        for bank, (_, out) in enumerate(banks):
            place = (bank - column)[:ELEMENT_BITS]
            m.d.comb += [out.addr.eq(Cat(place, half, buffer)), out.en.eq(advance)]
        with m.If(advance):
            target = half_block.target
            m.d.sync += [
                valid.eq(order.r_rdy),
                turn.eq(column),
                kept.eq(
                    Cat(
                        landing.detail[:ROW_BITS] >= Cat(Const(n, ELEMENT_BITS), half)
                        for n in range(ELEMENTS)
                    )
                ),
                half_block.second.eq(half),
                half_block.residual.eq(landing.residual),
                target.in_b.eq(landing.buffer == Buffer.L1B),
                target.entry.eq(landing.offset + moved),
                target.lane.eq(column[:2]),
                target.source.eq(job.source),
                target.closes.eq(final),
                target.ack.eq(final & job.fields.ack),
                target.requester.eq(job.fields.requester),
                target.tag.eq(job.fields.tag),
            ]
        with m.If(reads):
            m.d.sync += half.eq(~half)
            with m.If(half):
                m.d.sync += column.eq(column + 1)
                with m.If(column[:2] == LANES - 1):
                    m.d.sync += moved.eq(moved + landing.stride)
            with m.If(final):
                m.d.sync += [column.eq(0), moved.eq(0)]

        read = Cat(out.data for _, out in banks)
        back = _rotated(m, read, turn, left=False)
        masked = Cat(Mux(kept[n], back.word_select(n, 16), 0)[:16] for n in range(ELEMENTS))
        m.d.comb += [
            self.o.valid.eq(valid),
            self.o.payload.eq(half_block),
            self.o.payload.word.eq(masked),
        ]


def _rotated(m: Module, value: Value, amount: Value, *, left: bool) -> Value:
    """Rotate 16 elements by `amount` places."""
    for place in range(ELEMENT_BITS):
        step = 16 << place
        moved = value.rotate_left(step) if left else value.rotate_right(step)
        result = Signal(WORD_BITS, name=f"rotated_{1 << place}")
        m.d.comb += result.eq(Mux(amount[place], moved, value))
        value = result
    return value
