"""A source of EXEC: its words or beats are fetched ahead and cut into beats."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import PAYLOAD, code
from hw.noc.flit import LOCAL_BITS, ROW_BITS, WORD_BITS
from hw.vector.check import RECORD
from hw.vector.l1 import ReadPort
from hw.vector.walk import COLS_BITS, granules

DEPTH = 4
KIND_BITS = 3


class SourceReader(wiring.Component):
    """Give the operand of every beat of an EXEC, in order.

    Parameters
    ----------
    lanes : int
        Elements of a beat.
    beats : int
        Of the register file.
    address_bits : int
        Of L1 words.
    absent : int
        The operand where there is none, as FP32.

    Members
    -------
    start : In(1)
        A new instruction: `kind` to `cols` are valid from this cycle until the next `start`.
    kind, payload, rows, cols : In
        The source and the window.
    l1 : ReadPort, seen from the L1
        Where words come from.
    read, address, found : Out(1), Out, In
        The same for a beat of the register file; always granted.
    take : In(1)
        The beat is taken.
    row, beat, ends_row, ends : In
        Which beat is wanted.
    valid : Out(1)
        It is there.
    is_half : Out(1)
        Elements are FP16, in the low halves.
    elements : Out(ArrayLayout(32, lanes))
        Its elements.
    """

    def __init__(self, lanes: int, beats: int, address_bits: int, absent: int) -> None:
        self._lanes, self._absent = lanes, absent
        super().__init__(
            {
                "start": In(1),
                "kind": In(KIND_BITS),
                "payload": In(PAYLOAD),
                "rows": In(ROW_BITS),
                "cols": In(COLS_BITS),
                "l1": In(ReadPort(address_bits)),
                "read": Out(1),
                "address": Out(range(beats)),
                "found": In(32 * lanes),
                "take": In(1),
                "row": In(ROW_BITS),
                "beat": In(COLS_BITS),
                "ends_row": In(1),
                "ends": In(1),
                "valid": Out(1),
                "is_half": Out(1),
                "elements": Out(data.ArrayLayout(32, lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fetch, then cut."""
        m = Module()
        width = max(WORD_BITS, 32 * self._lanes)
        m.submodules.fifo = fifo = SyncFIFO(width=width, depth=DEPTH)
        self._fetch(m, fifo)
        self._cut(m, fifo)
        return m

    def _is(self, kind: str) -> object:
        return self.kind == code(RECORD, "a", kind)

    def _fetch(self, m: Module, fifo: SyncFIFO) -> None:
        lanes = self._lanes
        in_l1 = self._is("l1h") | self._is("l1f")
        in_registers = self._is("reg") | self._is("row")
        count, rows = Signal(COLS_BITS), Signal(ROW_BITS)
        m.d.comb += rows.eq(Mux(self._is("row"), 1, self.rows))
        with m.If(self._is("row")):
            m.d.comb += count.eq(granules(self.rows, lanes))
        with m.Elif(self._is("reg")):
            m.d.comb += count.eq(granules(self.cols, lanes))
        with m.Elif(self._is("l1h")):
            m.d.comb += count.eq(granules(self.cols, 16))
        with m.Else():
            m.d.comb += count.eq(granules(self.cols, 8))

        active, row, column = Signal(), Signal(ROW_BITS), Signal(COLS_BITS)
        base = Signal(LOCAL_BITS, reset_less=True)
        coming, wants = Signal(), Signal()
        here = (base + column)[:LOCAL_BITS]
        m.d.comb += [
            wants.eq(active & (fifo.level + coming < DEPTH)),
            self.l1.valid.eq(wants & in_l1),
            self.l1.address.eq(here),
            self.read.eq(wants & ~in_l1),
            self.address.eq(here),
            fifo.w_en.eq(coming),
            fifo.w_data.eq(Mux(in_l1, self.l1.word, self.found)),
        ]
        moves = self.read | self.l1.granted
        m.d.sync += coming.eq(moves)
        with m.If(self.start):
            m.d.sync += [
                active.eq(in_l1 | in_registers),
                row.eq(0),
                column.eq(0),
                base.eq(self.payload.window.base),
            ]
        with m.Elif(moves):
            m.d.sync += column.eq(column + 1)
            with m.If(column + 1 == count):
                m.d.sync += [
                    column.eq(0),
                    row.eq(row + 1),
                    base.eq(base + self.payload.window.stride),
                    active.eq(row + 1 != rows),
                ]

    def _cut(self, m: Module, fifo: SyncFIFO) -> None:
        lanes = self._lanes
        wide = fifo.r_data
        pops = Signal()
        m.d.comb += fifo.r_en.eq(pops)
        with m.If(self._is("none")):
            m.d.comb += [
                self.valid.eq(1),
                self.elements.eq(Cat(*[Const(self._absent, 32)] * lanes)),
            ]
        with m.Elif(self._is("imm")):
            m.d.comb += [self.valid.eq(1), self.elements.eq(Cat(*[self.payload.bits] * lanes))]
        with m.Elif(self._is("reg")):
            m.d.comb += [self.valid.eq(fifo.r_rdy), pops.eq(self.take), self.elements.eq(wide)]
        with m.Elif(self._is("row")):
            lane = self.row[: lanes.bit_length() - 1]
            scalar = Array(wide.word_select(n, 32) for n in range(lanes))[lane]
            m.d.comb += [
                self.valid.eq(fifo.r_rdy),
                pops.eq(self.take & self.ends_row & ((lane == lanes - 1) | self.ends)),
                self.elements.eq(Cat(*[scalar] * lanes)),
            ]
        with m.Elif(self._is("l1h")):
            parts = 16 // lanes
            part = self.beat[: (parts - 1).bit_length()]
            halves = wide.word_select(part, 16 * lanes) if parts > 1 else wide[: 16 * lanes]
            last = (part == parts - 1) if parts > 1 else 1
            m.d.comb += [
                self.valid.eq(fifo.r_rdy),
                self.is_half.eq(1),
                pops.eq(self.take & (self.ends_row | last)),
            ]
            for n in range(lanes):
                m.d.comb += self.elements[n].eq(halves[16 * n : 16 * n + 16])
        with m.Else():
            self._cut_singles(m, fifo, pops)

    def _cut_singles(self, m: Module, fifo: SyncFIFO, pops: Signal) -> None:
        """Cut FP32 words: two beats, one, or half of one."""
        lanes, wide = self._lanes, fifo.r_data
        if lanes <= 8:
            parts = 8 // lanes
            part = self.beat[: (parts - 1).bit_length()]
            m.d.comb += [
                self.valid.eq(fifo.r_rdy),
                self.elements.eq(
                    wide.word_select(part, 32 * lanes) if parts > 1 else wide[: 32 * lanes]
                ),
                pops.eq(self.take & (self.ends_row | ((part == parts - 1) if parts > 1 else 1))),
            ]
            return
        tail = self.cols[:4]
        alone = self.ends_row & (tail != 0) & (tail <= 8)
        has_low, low = Signal(), Signal(WORD_BITS, reset_less=True)
        keeps = Signal()
        m.d.comb += [
            keeps.eq(fifo.r_rdy & ~has_low & ~alone),
            self.valid.eq(fifo.r_rdy & (has_low | alone)),
            self.elements.eq(Cat(Mux(has_low, low, wide[:WORD_BITS]), wide[:WORD_BITS])),
            pops.eq(keeps | self.take),
        ]
        with m.If(keeps):
            m.d.sync += [has_low.eq(1), low.eq(wide)]
        with m.If(self.take):
            m.d.sync += has_low.eq(0)
