"""A source of EXEC: its words or beats are fetched ahead and cut into beats."""

from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.common.interfaces import PAYLOAD, code
from hw.noc.flit import LOCAL_BITS, ROW_BITS, WORD_BITS
from hw.vector.check import RECORD
from hw.vector.halves import HALF_BITS, HalfWords
from hw.vector.l1 import ReadPort
from hw.vector.walk import COLS_BITS, granules

KINDS = ("none", "imm", "reg", "row", "l1h", "l1f")
KIND_BITS = 3
HALVES_DEPTH = 3  # where a word lasts two beats
FIFO_DEPTH = 4


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
        Its elements are `halves`, not `elements`.
    elements, halves : Out(ArrayLayout(32, lanes)), Out(ArrayLayout(16, lanes))
        Its elements, if they are FP32, and if they are FP16.
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
                "halves": Out(data.ArrayLayout(16, lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fetch, then cut."""
        m = Module()
        # Nothing is asked or taken in the cycle of `start`, so there is one for decoding.
        kind = {name: Signal(name=f"is_{name}") for name in KINDS}
        m.d.sync += [is_it.eq(self.kind == code(RECORD, "a", name)) for name, is_it in kind.items()]
        in_l1 = kind["l1h"] | kind["l1f"]
        has, pops = Signal(), Signal()
        word = Signal(HALF_BITS if self._lanes == 4 else WORD_BITS)
        found = Signal()  # the beat of the register file is the one that is wanted
        operand = _Operand(kind, pops, found, has, word)
        room, wanted = self._wanted(m, operand, in_l1)
        self._fetch(m, kind, in_l1, room, wanted)
        self._cut(m, operand)
        return m

    def _wanted(self, m: Module, operand: "_Operand", in_l1: Value) -> tuple[Value, Value]:
        """Keep words that are there before their time; return whether there is room for more.

        And whether another beat of the register file is wanted.
        """
        kind, pops, found, has, word = operand
        depth = HALVES_DEPTH if self._lanes == 4 else FIFO_DEPTH
        owed = Signal(range(depth + 1))
        arrives = Signal()
        m.d.sync += [arrives.eq(self.l1.granted), owed.eq(owed + self.l1.granted - (pops & in_l1))]
        if self._lanes == 4:
            m.submodules.words = words = HalfWords()
            following = self.beat + 1
            wanted = Mux(self.take, Mux(pops, 0, following), self.beat)
            m.d.comb += [
                words.valid.eq(arrives),
                words.i.eq(self.l1.word),
                words.take.eq(self.take & in_l1),
                words.done.eq(pops & in_l1),
                words.half.eq(Mux(kind["l1h"], wanted[1], wanted[0])),
                has.eq(words.there),
                word.eq(words.o),
            ]
        else:
            m.submodules.words = fifo = SyncFIFO(width=WORD_BITS, depth=depth)
            m.d.comb += [
                fifo.w_en.eq(arrives),
                fifo.w_data.eq(self.l1.word),
                fifo.r_en.eq(pops),
                has.eq(fifo.r_rdy),
                word.eq(fifo.r_data),
            ]
        # The register file keeps the beat it read last.
        with m.If(self.read):
            m.d.sync += found.eq(1)
        with m.Elif(pops):
            m.d.sync += found.eq(0)
        # A word that leaves makes room in the next cycle: L1 is asked without knowing of it.
        return owed != depth, ~found | pops

    def _fetch(
        self, m: Module, kind: dict[str, Value], in_l1: Value, room: Value, wanted: Value
    ) -> None:
        lanes = self._lanes
        in_registers = kind["reg"] | kind["row"]
        count, rows = Signal(COLS_BITS), Signal(ROW_BITS)
        m.d.comb += rows.eq(Mux(kind["row"], 1, self.rows))
        with m.If(in_registers):
            m.d.comb += count.eq(granules(Mux(kind["row"], self.rows, self.cols), lanes))
        with m.Elif(kind["l1h"]):
            m.d.comb += count.eq(granules(self.cols, 16))
        with m.Else():
            m.d.comb += count.eq(granules(self.cols, 8))

        row, column = Signal(ROW_BITS), Signal(COLS_BITS)
        # L1 settles in the same cycle who reads, so what asks it is not decoded first.
        asks_l1, asks_registers = Signal(), Signal()
        base = Signal(LOCAL_BITS, reset_less=True)
        here = (base + column)[:LOCAL_BITS]
        m.d.comb += [
            self.l1.valid.eq(asks_l1 & room),
            self.l1.address.eq(here),
            self.read.eq(asks_registers & wanted),
            self.address.eq(here),
        ]
        moves = self.read | self.l1.granted
        with m.If(self.start):
            m.d.sync += [
                asks_l1.eq(_is_one(self.kind, "l1h", "l1f")),
                asks_registers.eq(_is_one(self.kind, "reg", "row")),
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
                ]
                with m.If(row + 1 == rows):
                    m.d.sync += [asks_l1.eq(0), asks_registers.eq(0)]

    def _cut(self, m: Module, operand: "_Operand") -> None:
        kind, pops, found, has, word = operand
        lanes = self._lanes
        lane = self.row[: lanes.bit_length() - 1]
        bits = Signal(32)  # of all elements, where they are the same
        scalar = Array(self.found.word_select(n, 32) for n in range(lanes))[lane]
        # Gates side by side, as the register file's beats come late: one kind holds, or none.
        m.d.comb += bits.eq(
            Mux(kind["row"], scalar, 0)
            | Mux(kind["imm"], self.payload.bits, 0)
            | Mux(kind["none"], self._absent, 0)
        )

        row_done = self.ends_row & ((lane == lanes - 1) | self.ends)
        single, half = self._parts(word, kind["l1h"])
        single_done = self._is_last(max(8 // lanes, 1))
        half_done = self._is_last(16 // lanes)
        if lanes == 16:
            single, has_single, pops_single = self._pair(m, kind["l1f"], has, word)
        else:
            has_single, pops_single = has, self.take & single_done
        m.d.comb += self.is_half.eq(kind["l1h"])
        with m.If(kind["l1f"]):
            m.d.comb += [self.valid.eq(has_single), pops.eq(pops_single)]
        with m.Elif(kind["l1h"]):
            m.d.comb += [self.valid.eq(has), pops.eq(self.take & half_done)]
        with m.Elif(kind["reg"] | kind["row"]):
            m.d.comb += [self.valid.eq(found), pops.eq(self.take & (kind["reg"] | row_done))]
        with m.Else():
            m.d.comb += self.valid.eq(1)

        for n in range(lanes):
            from_l1 = Mux(kind["l1f"], single.word_select(n, 32), 0)
            from_registers = Mux(kind["reg"], self.found.word_select(n, 32), 0)
            m.d.comb += [
                self.elements[n].eq(from_l1 | from_registers | bits),
                self.halves[n].eq(half.word_select(n, 16)),
            ]

    def _parts(self, word: Value, is_half: Value) -> tuple[Value, Value]:
        """Return a beat's FP32 elements in their word, and the FP16 ones of them or instead."""
        single = min(32 * self._lanes, WORD_BITS)
        half = 16 * self._lanes
        nested, parts = single // half, len(word) // single
        index = Mux(is_half, self.beat >> (nested - 1), self.beat)
        outer = word.word_select(index[: (parts - 1).bit_length()], single) if parts > 1 else word
        return outer, outer.word_select(self.beat[0], half) if nested > 1 else outer

    def _is_last(self, parts: int) -> Value:
        """Return whether the beat is the last one in its word of `parts`."""
        part = self.beat[: (parts - 1).bit_length()]
        return self.ends_row | (part == parts - 1) if parts > 1 else Const(1, 1)

    def _pair(
        self, m: Module, is_mine: Value, has: Value, word: Value
    ) -> tuple[Value, Value, Value]:
        """Put a beat of two words together; return it, whether it is there, and if a word goes."""
        tail = self.cols[:4]
        alone = self.ends_row & (tail != 0) & (tail <= 8)
        has_low, low = Signal(), Signal(WORD_BITS, reset_less=True)
        keeps = Signal()
        m.d.comb += keeps.eq(is_mine & has & ~has_low & ~alone)
        with m.If(keeps):
            m.d.sync += [has_low.eq(1), low.eq(word)]
        with m.If(self.take):
            m.d.sync += has_low.eq(0)
        beat = Cat(Mux(has_low, low, word), word)
        return beat, has & (has_low | alone), keeps | self.take


class _Operand(NamedTuple):
    """What fetching and cutting share.

    Attributes
    ----------
    kind : dict of str to Value
        Which of `KINDS` it is.
    pops : Signal
        A word, or a beat of the register file, is done with.
    found : Signal
        The beat of the register file is the one that is wanted.
    has, word : Signal
        A word, or half of one, is there.
    """

    kind: dict[str, Value]
    pops: Signal
    found: Signal
    has: Signal
    word: Signal


def _is_one(kind: Value, *names: str) -> Value:
    return reduce(or_, (kind == code(RECORD, "a", name) for name in names))
