"""Reading a tile for DRAIN: sub-tiles become quarters of rows.

A *quarter column* is 4 rows of one quarter: a sub-tile in FP16, half of one in FP32. A *chunk* is 4
of them, that is 4 words whichever way it is read. In row order quarter column ``u`` holds quarter
``u`` of each row of its group; in tile order it is word ``u`` of the group's sub-tiles.

Where a part of a sub-tile is all of it, a quarter column and a word are read in one cycle; where it
is a row, they are four *beats* of a quarter each.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.converters import Narrower
from hw.arithmetic.pipeline import delayed
from hw.cluster.accumulator import Place, part, part_rows
from kohakutpu.config import LANES, WORD_BYTES
from kohakutpu.isa.operands import LOCAL_BITS

QUARTER_BITS = 64
CHUNKS = 32
"""Chunks between the accumulator and the sender."""

SLOT_BITS = CHUNKS.bit_length()  # one more than it takes, to tell full from empty

UNIT_BITS = 11  # 2 * 1023 quarter columns


class Tile(data.Struct):
    """What is to be read.

    Members
    -------
    acc : 14
        First sub-tile.
    gn : 10
        Sub-tiles across the tile.
    groups : 10
        Groups of 4 rows to read, from the first.
    units : 11
        Quarter columns of a group that are read.
    chunks : 10
        Chunks of a group that leave, at least those that `units` fill.
    single : 1
        FP32, not FP16.
    by_tile : 1
        Tile order.
    masked : 1
        Elements at and past `rows` and `cols` are zeros.
    rows, cols : 12
        Extents.
    """

    acc: LOCAL_BITS
    gn: 10
    groups: 10
    units: UNIT_BITS
    chunks: 10
    single: 1
    by_tile: 1
    masked: 1
    rows: 12
    cols: 12


MARK = data.StructLayout(
    {
        "writes": 1,
        "completes": 1,  # its chunk
        "slot": SLOT_BITS - 1,
        "unit": 2,
        "beat": 2,
        "half": 1,  # of an FP32 sub-tile
        "down": LANES,  # rows of the part that are data
        "across": LANES,
    }
)


class TileReader(wiring.Component):
    """Read the quarter columns of a tile, group by group, into a ring of chunks.

    Parameters
    ----------
    k_per_cycle : int
        Says how much a part is.

    Attributes
    ----------
    beats : int
        Of a quarter column and of a word.

    Members
    -------
    start : In(1)
        Begin with `tile`, which stays as it is until all chunks have been released.
    tile : In(Tile)
        What to read.
    read : Out(stream of Place)
        Parts wanted from the accumulator.
    part : In(part(k_per_cycle))
        What it answers, a cycle later.
    slot : In(6)
        Chunk to read a word of, counted from the first one of all, modulo 64.
    there : Out(1)
        It is complete.
    enable, beat : In(1), In(2)
        Read that beat of a word of it, the only one if a beat is a word.
    number : In(2)
        The row, in tile order the quarter column.
    skew : In(2)
        In row order the word begins that many quarters earlier, in the chunk before.
    o : Out(256)
        The word, a cycle after its last beat.
    release : In(2)
        So many of the oldest chunks are not needed any more.
    """

    def __init__(self, k_per_cycle: int) -> None:
        self._rows = part_rows(k_per_cycle)
        self.beats = LANES // self._rows
        super().__init__(
            {
                "start": In(1),
                "tile": In(Tile),
                "read": Out(stream.Signature(Place)),
                "part": In(part(k_per_cycle)),
                "slot": In(SLOT_BITS),
                "there": Out(1),
                "enable": In(1),
                "beat": In(2),
                "number": In(2),
                "skew": In(2),
                "o": Out(8 * WORD_BYTES),
                "release": In(2),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk, convert, turn."""
        m = Module()
        mark, taken = self._walk(m)
        read = delayed(m, Mux(taken, mark.as_value(), 0), 1, reset=True)
        first = data.View(MARK, read)
        latency = Narrower.latency
        last = data.View(MARK, delayed(m, read, latency, reset=True))
        halves, singles = [], []
        for index in range(self._rows * LANES):
            row, column = divmod(index, LANES)
            m.submodules[f"narrower_{index}"] = narrower = Narrower()
            kept = ~self.tile.masked | (first.down[row] & first.across[column])
            m.d.comb += narrower.i.eq(self.part[index])
            with m.If(~kept):  # where the exponent is 0 the fraction does not count
                m.d.comb += [narrower.i.exponent.eq(0), narrower.i.sign.eq(0)]
            halves.append(narrower.o.as_value())
            # A sum has no subnormals and a single NaN: it leaves as it is.
            singles.append(delayed(m, Mux(kept, self.part[index].as_value(), 0)[:32], latency))
        quarters = self._quarters(m, halves, singles, last)
        self._ring(m, quarters, last)
        return m

    def _walk(self, m: Module) -> tuple[Signal, Signal]:
        """Return what is read in this cycle, and whether it is."""
        tile = self.tile
        active = Signal()
        group, chunk = Signal.like(tile.groups), Signal.like(tile.chunks)
        unit, beat = Signal(UNIT_BITS), Signal(range(self.beats))
        base = Signal(LOCAL_BITS)  # first sub-tile of the group
        row, column = Signal(12), Signal(12)  # of the first element
        slot = Signal(SLOT_BITS)
        room = Signal(range(CHUNKS + 1), init=CHUNKS)
        inside = unit < tile.units
        last_beat = beat == self.beats - 1
        # Half a chunk may be missing at the end of a row; where zeros are wanted, they are written.
        filled = ~tile.masked | tile.by_tile
        completes = last_beat & ((unit[:2] == 3) | (filled & ~(unit + 1 < tile.units)))
        last_chunk = chunk + 1 == tile.chunks
        begins = (unit[:2] == 0) & (beat == 0)
        asks = active & ((room != 0) | ~begins)
        taken = Signal()
        opens = taken & begins
        # In tile order a beat of an FP32 word is half a row.
        read_row = Signal(2)
        if self.beats > 1:
            m.d.comb += read_row.eq(Mux(tile.single & tile.by_tile, Cat(beat[1], unit[0]), beat))
        m.d.comb += [
            self.read.valid.eq(asks & inside),
            self.read.payload.row.eq(read_row),
            self.read.payload.subtile.eq(base + Mux(tile.single, unit >> 1, unit)),
            taken.eq(asks & (~inside | self.read.ready)),
        ]
        m.d.sync += room.eq(room + self.release - opens)
        mark = Signal(MARK)
        m.d.comb += [
            mark.writes.eq(1),
            mark.completes.eq(completes),
            mark.slot.eq(slot),
            mark.unit.eq(unit[:2]),
            mark.beat.eq(beat),
            mark.half.eq(unit[0]),
            mark.down.eq(below(row, tile.rows).bit_select(read_row, self._rows)),
            mark.across.eq(below(column, tile.cols)),
        ]
        with m.If(taken):
            m.d.sync += beat.eq(beat + 1)
            with m.If(last_beat):
                m.d.sync += unit.eq(unit + 1)
                with m.If(~tile.single | unit[0]):
                    m.d.sync += column.eq(column + LANES)
            with m.If(completes):
                m.d.sync += [slot.eq(slot + 1), chunk.eq(chunk + 1)]
                m.d.sync += unit.eq(Cat(Const(0, 2), (unit[2:] + 1)[: UNIT_BITS - 2]))
                with m.If(last_chunk):
                    m.d.sync += [
                        chunk.eq(0),
                        unit.eq(0),
                        column.eq(0),
                        row.eq(row + LANES),
                        base.eq(base + tile.gn),
                        group.eq(group + 1),
                        active.eq(group + 1 != tile.groups),
                    ]
        with m.If(self.start):
            m.d.sync += [
                active.eq(1),
                group.eq(0),
                chunk.eq(0),
                unit.eq(0),
                row.eq(0),
                column.eq(0),
                base.eq(tile.acc),
            ]
        return mark, taken

    def _quarters(self, m: Module, halves: list, singles: list, mark: data.View) -> list[Signal]:
        """Return the quarters of a quarter column that a part brings."""
        by_tile = self.tile.by_tile
        quarters = []
        for n in range(self._rows):
            first = LANES * n
            left, right = Cat(singles[first : first + 2]), Cat(singles[first + 2 : first + 4])
            # In tile order quarters 2r and 2r + 1 of a sub-tile are row r.
            if self.beats > 1:
                single = Mux(Mux(by_tile, mark.beat[0], mark.half), right, left)
            else:
                at = LANES * (n // 2) + 2 * (n % 2)
                upper, lower = Cat(singles[at : at + 2]), Cat(singles[at + 8 : at + 10])
                single = Mux(by_tile, Mux(mark.half, lower, upper), Mux(mark.half, right, left))
            quarter = Signal(QUARTER_BITS, name=f"quarter_{n}")
            both = Mux(self.tile.single, single, Cat(halves[first : first + LANES]))
            m.d.comb += quarter.eq(both)
            quarters.append(quarter)
        return quarters

    def _ring(self, m: Module, quarters: list[Signal], mark: data.View) -> None:
        """Write quarter columns, read words.

        With a bank a row, quarter ``r`` of quarter column ``u`` is in bank ``(r + u) % 4``: so the
        four rows of a quarter column, and any four quarters of a row that follow each other, are in
        four banks.
        """
        banks = self._rows
        written = Signal(SLOT_BITS)
        m.d.sync += written.eq(written + mark.completes)
        m.d.comb += self.there.eq(self.slot != written)
        turned = _rotated(m, Cat(quarters), mark.unit) if banks > 1 else quarters[0]
        outs = []
        for bank in range(banks):
            depth = LANES * LANES * CHUNKS // banks
            # What is not there yet is not read.
            memory = Memory(shape=QUARTER_BITS, depth=depth, init=[], attrs={"no_rw_check": 1})
            m.submodules[f"bank_{bank}"] = memory
            into, out = memory.write_port(), memory.read_port()
            row, unit = Signal(2, name=f"row_{bank}"), Signal(2, name=f"unit_{bank}")
            slot = Signal(SLOT_BITS, name=f"slot_{bank}")
            m.d.comb += [
                unit.eq(bank - self.number if banks > 1 else self.beat - self.skew),
                row.eq(self.number),
                slot.eq(self.slot - (unit + self.skew > 3)),
            ]
            with m.If(self.tile.by_tile):
                m.d.comb += [unit.eq(self.number), row.eq(self.beat), slot.eq(self.slot)]
            rows = 0 if banks > 1 else 2  # bits of a row that is no bank
            m.d.comb += [
                into.addr.eq(Cat(mark.beat[:rows], mark.unit, mark.slot)),
                into.data.eq(turned[QUARTER_BITS * bank :][:QUARTER_BITS]),
                into.en.eq(mark.writes),
                out.addr.eq(Cat(row[:rows], unit, slot[:-1])),
                out.en.eq(self.enable),
            ]
            outs.append(out.data)
        if banks > 1:
            amount = Signal(2)
            with m.If(self.enable):
                m.d.sync += amount.eq(self.skew - self.number)
            m.d.comb += self.o.eq(_rotated(m, Cat(outs), amount))
        else:
            before = Signal(QUARTER_BITS * (LANES - 1), reset_less=True)
            with m.If(self.enable):
                m.d.sync += before.eq(Cat(before[QUARTER_BITS:], *outs))
            m.d.comb += self.o.eq(Cat(before, *outs))


def below(start: Value, limit: Value) -> Value:
    """Return which of 4 numbers from `start`, a multiple of 4, are below a limit."""
    whole, same = start[2:] < limit[2:], start[2:] == limit[2:]
    return Cat(whole | (same & (n < limit[:2])) for n in range(LANES))


def _rotated(m: Module, word: Cat, places: Signal) -> Signal:
    """Rotate a word's quarters upwards."""
    result = Signal(4 * QUARTER_BITS, name="rotated")
    with m.Switch(places):
        for place in range(LANES):
            with m.Case(place):
                m.d.comb += result.eq(word.rotate_left(place * QUARTER_BITS))
    return result
