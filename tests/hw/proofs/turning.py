"""What must hold of the corner-turn: what goes in as rows comes out as columns."""

from collections.abc import Sequence

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.cluster.block import number_bits, pieces
from hw.cluster.columns import JOB, ROW_BITS
from hw.noc.flit import ELEMENT_BITS, Buffer, Form
from kohakutpu.config import LANES
from kohakutpu.isa.operands import LOCAL_BITS

ELEMENTS = 16  # of a word


def begins(column: int) -> tuple[str, str]:
    """Return the change by which a corner-turn begins with another column than 0."""
    before = "column = Signal(ELEMENT_BITS"
    return f"{before})", f"{before}, init={column})"


class Turned(wiring.Component):
    """Element `row` of block `column` is element `column` of row `row`, of the right matrix.

    One matrix is marked when its last row goes in, any; one place of it is watched, any. Matrices
    come out in the order of their last rows, each block with the place where it lands, and rows
    past the last one as zeros. Rows may come in any order, and sources in turn.

    Parameters
    ----------
    part : ColumnTurn
        A corner-turn.
    sources : sequence of int
        As it was made.
    k_per_cycle : int
        As it was made: a word is a single piece.
    bits : sequence of int
        The bits that may be set in the number of a row; fewer make a smaller proof.
    first : int
        The column that the part begins with after a reset, if `begins` altered it: the columns
        before it have left.
    """

    def __init__(
        self,
        part: wiring.Component,
        sources: Sequence[int],
        k_per_cycle: int,
        bits: Sequence[int] = range(ROW_BITS),
        first: int = 0,
    ) -> None:
        assert pieces(k_per_cycle) == 1
        self._part, self._sources, self._k = part, tuple(sources), k_per_cycle
        self._bits, self._first = bits, first
        super().__init__(
            {
                "valid": In(1),
                "flit": In(JOB),
                "sent_row": In(ROW_BITS),
                "bits": In(ELEMENTS),  # one of each element: the part never looks at them
                "read": In(1),
                "mark": In(1),
                "row": In(ROW_BITS),
                "column": In(ELEMENT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Follow the marked matrix."""
        m = Module()
        m.submodules.part = part = self._part
        blocks, sent = part.blocks, self.flit.fields
        watched, number_of = self._row(self.row), self._row(self.sent_row)
        started, row, column = Signal(), Signal.like(self.row), Signal.like(self.column)
        m.d.sync += [started.eq(1), row.eq(self.row), column.eq(self.column)]
        m.d.comb += Assume(~started | ((self.row == row) & (self.column == column)))
        index = Signal(range(len(self._sources)))
        known = Const(0)
        for number, node in enumerate(self._sources):
            known = known | (self.flit.source == node)
            with m.If(self.flit.source == node):
                m.d.comb += index.eq(number)
        m.d.comb += [
            Assume(known & (sent.landing.form == Form.COLUMNS)),
            Assume(sent.last_element >= self._first),
            blocks.i.valid.eq(self.valid),
            blocks.i.payload.source.eq(self.flit.source),
            blocks.i.payload.fields.eq(sent),
            blocks.i.payload.fields.landing.detail.eq(number_of),
        ]
        for n in range(ELEMENTS):
            m.d.comb += blocks.i.payload.bits.word_select(n, 16).eq(self.bits[n])

        taken, completed, ended = Signal(), Signal(), Signal()
        m.d.comb += [
            taken.eq(blocks.i.valid & blocks.i.ready),
            completed.eq(taken & sent.last),
        ]
        # Matrices that are complete and not out yet: of all sources, and of each.
        inside = Signal(range(2 * len(self._sources) + 2))
        m.d.sync += inside.eq(inside + completed - ended)
        source = blocks.block.target.source
        theirs = []
        for number, node in enumerate(self._sources):
            mine = Signal(2, name=f"inside_{node}")
            m.d.sync += mine.eq(mine + (completed & (index == number)) - (ended & (source == node)))
            m.d.comb += Assert(part.pending[node] == (mine != 0))
            theirs.append(mine)
        m.d.comb += Assert(blocks.i.ready == (Array(theirs)[index] < 2))

        # The place that is watched, in the matrix that each source is sending.
        written = Array(Signal(name=f"written_{node}") for node in self._sources)
        values = Array(Signal(name=f"value_{node}") for node in self._sources)
        here = taken & (number_of == watched)
        bit = self.bits.bit_select(self.column, 1)
        with m.If(taken):
            m.d.sync += written[index].eq(~sent.last & (written[index] | here))
        with m.If(here):
            m.d.sync += values[index].eq(bit)

        marked, ahead, job = Signal(), Signal.like(inside), Signal(JOB)
        there, value = Signal(), Signal()
        with m.If(~marked & completed & self.mark):
            m.d.sync += [
                marked.eq(1),
                ahead.eq(inside - ended),
                job.eq(self.flit),
                job.fields.landing.detail.eq(number_of),
                there.eq(written[index] | here),
                value.eq(Mux(here, bit, values[index])),
            ]
        with m.Elif(marked & ended):
            m.d.sync += [ahead.eq(ahead - 1), marked.eq(ahead != 0)]
        self._look(m, inside, ended, marked & (ahead == 0), job, there, value)
        return m

    def _row(self, free: Signal) -> Value:
        """Return a row's number, of which only some bits are free."""
        return Cat(free[n] if n in self._bits else Const(0, 1) for n in range(ROW_BITS))

    def _look(
        self,
        m: Module,
        inside: Signal,
        ended: Signal,
        now: Signal,
        job: data.View,
        there: Signal,
        value: Signal,
    ) -> None:
        """Read blocks; compare those of the marked matrix."""
        blocks = self._part.blocks
        number = Signal(number_bits(self._k))
        first = Signal(ELEMENT_BITS, init=self._first)
        count = Signal(ELEMENT_BITS, init=self._first)
        final = count == 4 * job.fields.last_element[2:] + 3
        m.d.comb += [
            # A block is read without gaps.
            blocks.read.eq(blocks.valid & (self.read | (number != 0))),
            blocks.number.eq(number),
            Assert(~blocks.valid | (inside != 0)),
        ]
        late = Signal()
        m.d.sync += late.eq((inside != 0) & ~blocks.valid)
        m.d.comb += Assert(~late | blocks.valid)
        closes = Signal()
        m.d.comb += [
            closes.eq(blocks.block.target.closes),
            ended.eq(blocks.read & number.all() & closes),
        ]
        m.d.sync += number.eq(number + blocks.read)
        with m.If(blocks.read & number.all()):
            m.d.sync += count.eq(Mux(closes, 0, count + 1))
            with m.If(closes):
                m.d.sync += first.eq(0)
        landing, block = job.fields.landing, blocks.block
        stride = landing.stride
        steps = [Const(0, 1), stride, stride << 1, stride + (stride << 1)]
        entry = (landing.offset + Array(steps)[(count - first)[2:4]])[:LOCAL_BITS]
        expected = [
            (block.residual, landing.residual),
            (block.target.in_b, landing.buffer == Buffer.L1B),
            (block.target.entry, entry),
            (block.target.lane, count % LANES),
            (block.target.source, job.source),
            (block.target.closes, final),
            (block.target.ack, final & job.fields.ack),
            (block.target.requester, job.fields.requester),
            (block.target.tag, job.fields.tag),
        ]
        with m.If(now & blocks.valid):
            for found, right in expected:
                m.d.comb += Assert(found == right)
        # What is read comes a cycle later.
        row = self._row(self.row)
        half, place = row[4:], row[:4]
        looked, kept, known = Signal(), Signal(), Signal()
        m.d.sync += [
            looked.eq(now & blocks.read & (number == half) & (count == self.column)),
            kept.eq(row <= landing.detail[:ROW_BITS]),
            known.eq(there),
        ]
        right = Signal()
        m.d.sync += right.eq(value)
        with m.If(looked):
            m.d.comb += Assert(blocks.kept.bit_select(place, 1) == kept)
            with m.If(kept & known):
                found = Cat(blocks.o[16 * n] for n in range(ELEMENTS))
                m.d.comb += Assert(found.bit_select(place, 1) == right)
