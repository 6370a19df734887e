"""COLUMNS: 32 rows of one word turn into 16 blocks.

A bank for each element of a piece: element ``e`` of row ``r`` is in bank ``(e + r)`` modulo their
number, so that a piece of a row is written and a piece of a column read in one cycle each.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out

from hw.cluster.block import Blocks, is_last, number_bits, piece_bits
from hw.noc.flit import ELEMENT_BITS, NODE_BITS, Buffer, DataFields
from kohakutpu.config import KBLOCK, LANES, MAX_NODES

ROW_BITS = (KBLOCK - 1).bit_length()
JOB = data.StructLayout({"fields": DataFields, "source": NODE_BITS})


class ColumnTurn(wiring.Component):
    """Collect rows, two buffers a source; turn out whole ones in the order of their completion.

    Parameters
    ----------
    sources : sequence of int
        Nodes that send COLUMNS: the memory ports.
    k_per_cycle : int
        Elements of K a cycle.

    Members
    -------
    blocks : Out(Blocks)
        Takes DATA of form COLUMNS.
    pending : Out(16)
        Nodes of which a buffer is complete and not turned out yet.
    """

    def __init__(self, sources: Sequence[int], k_per_cycle: int) -> None:
        self._sources, self._k_per_cycle = tuple(sources), k_per_cycle
        super().__init__({"blocks": Out(Blocks(k_per_cycle)), "pending": Out(MAX_NODES)})

    def elaborate(self, platform: object) -> Module:
        """Write rows as they come; read columns of the oldest complete buffer."""
        m = Module()
        k, blocks = self._k_per_cycle, self.blocks
        count = k // 2
        within = (count - 1).bit_length()  # bits of a place in a piece
        buffers = 2 * len(self._sources)
        buffer_bits = (buffers - 1).bit_length()
        banks = []
        for bank in range(count):
            depth = KBLOCK * 16 // count << buffer_bits
            # A buffer is not read before it is complete.
            memory = Memory(shape=16, depth=depth, init=[], attrs={"no_rw_check": 1})
            m.submodules[f"bank_{bank}"] = memory
            banks.append((memory.write_port(), memory.read_port()))
        m.submodules.order = order = SyncFIFO(width=buffer_bits, depth=buffers)
        jobs = [Signal(JOB, name=f"job_{n}", reset_less=True) for n in range(buffers)]
        complete = Signal(buffers)
        released = Signal(buffers)
        completed = Signal(buffers)
        m.d.sync += complete.eq((complete & ~released) | completed)

        piece, fields = blocks.i.payload, blocks.i.payload.fields
        row = fields.landing.detail[:ROW_BITS]
        takes = blocks.i.valid & blocks.i.ready
        completes = takes & fields.last & is_last(piece.number)
        filling = Signal(buffer_bits)
        for index, node in enumerate(self._sources):
            odd = Signal(name=f"odd_{node}")
            m.d.comb += self.pending[node].eq(complete[2 * index : 2 * index + 2].any())
            with m.If(piece.source == node):
                m.d.comb += filling.eq(2 * index | odd)
                m.d.comb += blocks.i.ready.eq(~complete.bit_select(filling, 1))
                with m.If(completes):
                    m.d.sync += odd.eq(~odd)
        turned = _rotated(m, piece.bits, row[:within], left=True)
        for bank, (into, _) in enumerate(banks):
            m.d.comb += [
                into.addr.eq(Cat(row, piece.number, filling)),
                into.data.eq(turned.word_select(bank, 16)),
                into.en.eq(takes),
            ]
        m.d.comb += [
            order.w_data.eq(filling),
            order.w_en.eq(completes),
            completed.eq(Mux(completes, Const(1, buffers) << filling, 0)),
        ]
        with m.Switch(filling):
            for n, job in enumerate(jobs):
                with m.Case(n), m.If(completes):
                    m.d.sync += [job.fields.eq(fields), job.source.eq(piece.source)]
        self._turn_out(m, order, jobs, banks, released)
        return m

    def _turn_out(
        self, m: Module, order: SyncFIFO, jobs: list, banks: list, released: Signal
    ) -> None:
        k, blocks = self._k_per_cycle, self.blocks
        count = k // 2
        within = (count - 1).bit_length()
        buffer = order.r_data
        job = Signal(JOB)
        with m.Switch(buffer):
            for n, candidate in enumerate(jobs):
                with m.Case(n):
                    m.d.comb += job.eq(candidate)
        landing = job.fields.landing
        column = Signal(ELEMENT_BITS)
        moved = Signal.like(landing.offset)  # of the group
        final = column == Cat(Const(3, 2), job.fields.last_element[2:])
        block, target = blocks.block, blocks.block.target
        m.d.comb += [
            blocks.valid.eq(order.r_rdy),
            block.residual.eq(landing.residual),
            target.in_b.eq(landing.buffer == Buffer.L1B),
            target.entry.eq(landing.offset + moved),
            target.lane.eq(column[:2]),
            target.source.eq(job.source),
            target.closes.eq(final),
            target.ack.eq(final & job.fields.ack),
            target.requester.eq(job.fields.requester),
            target.tag.eq(job.fields.tag),
        ]
        m.d.comb += released.eq(Mux(order.r_en, Const(1, len(released)) << buffer, 0))
        with m.If(blocks.read & blocks.number.all()):
            m.d.comb += order.r_en.eq(final)
            m.d.sync += column.eq(column + 1)
            with m.If(column[:2] == LANES - 1):
                m.d.sync += moved.eq(moved + landing.stride)
            with m.If(final):
                m.d.sync += [column.eq(0), moved.eq(0)]

        turn = Signal(within)
        m.d.sync += turn.eq(column)
        for bank, (_, out) in enumerate(banks):
            place = (bank - column)[:within]
            m.d.comb += out.addr.eq(Cat(place, blocks.number, column[within:], buffer))
        for n in range(count):
            row = Cat(Const(n, within), blocks.number)
            m.d.sync += blocks.kept[n].eq(landing.detail[:ROW_BITS] >= row)
        m.d.comb += blocks.o.eq(
            _rotated(m, Cat(out.data for _, out in banks), turn, left=False)[: piece_bits(k)]
        )
        assert within + number_bits(k) == ROW_BITS


def _rotated(m: Module, value: Value, amount: Value, *, left: bool) -> Value:
    """Rotate elements by `amount` places."""
    for place in range(len(amount)):
        step = 16 << place
        moved = value.rotate_left(step) if left else value.rotate_right(step)
        result = Signal(len(value), name=f"rotated_{1 << place}")
        m.d.comb += result.eq(Mux(amount[place], moved, value))
        value = result
    return value
