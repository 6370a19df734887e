"""Row sums, maxima and minima in the machine's one order, whatever the number of lanes.

    lanes      a tree over the beat                              in space
    pairs      the beats of a group of 16, adjacent pairs first  in time, for fewer lanes than 16
    partials   group q onto partial q mod 8
    pairs      the partials of a row, adjacent pairs first       in time

Rows follow each other without a bubble, with any gaps, and each with an operation of its own. A
row of G groups costs G additions of the partials at most and then min(G, 8) - 1 of the last
pairs; it took G cycles or more to arrive, so nothing ever has to wait on the way in.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arithmetic.adder import Adder, Combine
from hw.arithmetic.bits import wire
from hw.arithmetic.formats import Float32
from hw.arithmetic.pipeline import delayed

GROUP = 16
PARTIALS = 8
RING = 16
IDENTITY = {Combine.SUM: 0x80000000, Combine.MAX: 0xFF800000, Combine.MIN: 0x7F800000}


class Item(data.Struct):
    """A number on its way, and where in its row it stands."""

    value: Float32
    op: Combine
    ends_group: unsigned(1)
    ends_row: unsigned(1)


def identity(op: Value) -> Value:
    """Return the number that changes no other, as 32 bits."""
    return Mux(
        op == Combine.SUM,
        Const(IDENTITY[Combine.SUM], 32),
        Mux(op == Combine.MAX, IDENTITY[Combine.MAX], IDENTITY[Combine.MIN]),
    )


def pair(m: Module, segment: str, valid: Value, item: Value, taken: Value) -> tuple[Value, Value]:
    """Hold the first half of a pair until the second comes.

    Parameters
    ----------
    m : Module
        Where the half is held.
    segment : str
        As of `PairCombiner`.
    valid, item : Value
        A half. A second one must stay until it is `taken`.
    taken : Value
        The pair goes, if there is one.

    Returns
    -------
    (Value, Value)
        Whether `item` completes a pair, and the first half's number, the identity if there is none.
    """
    holds, held = Signal(), Signal(Float32)
    complete = wire(m, valid & (holds | item[segment]), "complete")
    with m.If(valid & (~complete | taken)):
        m.d.sync += [holds.eq(~complete), held.eq(item.value)]
    return complete, wire(m, Mux(holds, held.as_value(), identity(item.op)), "first")


class PairCombiner(wiring.Component):
    """Combines neighbours in time: the first item with the second, the third with the fourth.

    The last of a segment stands alone if their number is odd.

    Parameters
    ----------
    segment : str
        What pairs do not reach across: ``"ends_group"`` or ``"ends_row"``.

    Members
    -------
    valid, i : In(1), In(Item)
        An item.
    o_valid, o : Out(1), Out(Item)
        A pair, `latency` cycles after its second half, with the marks of that.
    """

    latency = Adder.latency

    def __init__(self, segment: str) -> None:
        self._segment = segment
        super().__init__({"valid": In(1), "i": In(Item), "o_valid": Out(1), "o": Out(Item)})

    def elaborate(self, platform: object) -> Module:
        """Add the halves."""
        m = Module()
        m.submodules.adder = adder = Adder()
        complete, first = pair(m, self._segment, self.valid, self.i, Const(1, 1))
        m.d.comb += [
            adder.op.eq(self.i.op),
            adder.a.eq(self.i.value),
            adder.b.eq(first),
            self.o_valid.eq(delayed(m, complete, self.latency, reset=True)),
            self.o.eq(delayed(m, self.i, self.latency)),
            self.o.value.eq(adder.o),
        ]
        return m


class PairLevels(wiring.Component):
    """What several `PairCombiner` in a row do, with one adder: for items that come seldom.

    A sum that makes a pair complete goes straight back into the adder; what comes in waits.

    Parameters
    ----------
    segment : str
        As of `PairCombiner`.
    levels : int
        How many, 2 or more.

    Members
    -------
    valid, ready, i, partner : In(1), Out(1), In(Item), In(32)
        A pair of the first level, taken if `ready`: the second half, and the first.
    o_valid, o : Out(1), Out(Item)
        What the last level combined, with the marks of its second half.
    """

    def __init__(self, segment: str, levels: int) -> None:
        self._segment, self._levels = segment, levels
        super().__init__(
            {
                "valid": In(1),
                "ready": Out(1),
                "i": In(Item),
                "partner": In(32),
                "o_valid": Out(1),
                "o": Out(Item),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Combine what comes back before what comes in."""
        m = Module()
        m.submodules.adder = adder = Adder()
        again, issue = Signal(), Signal()
        item, partner, level = Signal(Item), Signal(32), Signal(range(self._levels))
        returns = delayed(m, issue, Adder.latency, reset=True)
        from_level = delayed(m, level, Adder.latency)
        back = Signal(Item)
        m.d.comb += [back.eq(delayed(m, item, Adder.latency)), back.value.eq(adder.o)]

        m.d.comb += [item.eq(self.i), partner.eq(self.partner)]
        for n in range(1, self._levels):
            here = returns & (from_level == n - 1)
            complete, first = pair(m, self._segment, here, back, Const(1, 1))
            with m.If(complete):
                m.d.comb += [again.eq(1), item.eq(back), partner.eq(first), level.eq(n)]
        m.d.comb += [
            self.ready.eq(~again),
            issue.eq(again | self.valid),
            adder.op.eq(item.op),
            adder.a.eq(item.value),
            adder.b.eq(partner),
            self.o_valid.eq(returns & (from_level == self._levels - 1)),
            self.o.eq(back),
        ]
        return m


class Partials(wiring.Component):
    """Adds group ``q`` of a row to partial ``q mod 8``; then hands out the row's partials.

    Partials live in a ring: a row takes the next ``min(groups, 8)`` places, and places are read
    in order, one a cycle, once their row is complete, 8 cycles after its last group. The ring never
    overflows. Take the last cycle in which nothing was there to read. Rows that ended 8 cycles
    before or earlier are read; the row then coming in had 7 places, or 8 and a last group to come
    that takes none; and each of the 8 cycles took one place at most. That is 15. From there on
    every cycle takes one place at most and frees one.

    Members
    -------
    valid, i : In(1), In(Item)
        A group.
    o_valid, ready, o : Out(1), In(1), Out(Item)
        A partial, taken if `ready`; those of a row in ascending order.
    """

    latency = Adder.latency + PARTIALS * 2  # from a row's last group to its last partial, at most

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": In(1),
                "i": In(Item),
                "o_valid": Out(1),
                "ready": In(1, init=1),
                "o": Out(Item),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Add, keep, hand out."""
        m = Module()
        m.submodules.adder = adder = Adder()
        m.submodules.ring = ring = Memory(
            shape=data.StructLayout({"value": Float32, "op": Combine}), depth=RING, init=[]
        )
        write, old, out = (
            ring.write_port(),
            ring.read_port(domain="comb"),
            ring.read_port(domain="comb"),
        )
        place = unsigned(RING.bit_length() - 1)
        start, at, following = Signal(place), Signal(place), Signal(place)
        index, again = Signal(range(PARTIALS)), Signal()
        ends = Signal(RING)  # the place holds the last partial of its row

        m.d.comb += at.eq(start + index)
        m.d.comb += following.eq(start + Mux(again, PARTIALS, index + 1))
        with m.If(self.valid):
            m.d.sync += [index.eq(index + 1), again.eq(again | (index == PARTIALS - 1))]
            with m.If(~again):
                m.d.sync += ends.bit_select(at, 1).eq(0)
            with m.If(self.i.ends_row):
                m.d.sync += [index.eq(0), again.eq(0), start.eq(following)]
                m.d.sync += ends.bit_select((following - 1)[: len(at)], 1).eq(1)

        # A partial is wanted again 8 cycles after it was read at the earliest, and is back in 8.
        to_sum = 1 + adder.latency
        m.d.comb += [
            old.addr.eq(at),
            write.en.eq(delayed(m, self.valid, to_sum, reset=True)),
            write.addr.eq(delayed(m, at, to_sum)),
            write.data.value.eq(adder.o),
            write.data.op.eq(delayed(m, self.i.op, to_sum)),
        ]
        m.d.sync += [
            adder.op.eq(self.i.op),
            adder.a.eq(self.i.value),
            adder.b.eq(Mux(again, old.data.value, identity(self.i.op))),
        ]

        read, complete = Signal(place), Signal(place)
        row_done = delayed(m, self.valid & self.i.ends_row, to_sum, reset=True)
        row_end = delayed(m, following, to_sum)
        with m.If(row_done):
            m.d.sync += complete.eq(row_end)
        m.d.comb += [out.addr.eq(read), self.o_valid.eq(read != complete)]
        m.d.comb += [self.o.value.eq(out.data.value), self.o.op.eq(out.data.op)]
        m.d.comb += self.o.ends_row.eq(ends.bit_select(read, 1))
        m.d.comb += self.o.ends_group.eq(self.o.ends_row)
        m.d.sync += read.eq(read + (self.o_valid & self.ready))
        return m


class RowReduction(wiring.Component):
    """Reduces rows that come beat by beat.

    A row's result leaves `latency` cycles after its last beat or earlier, and in the order of
    the rows.

    With 4 lanes a group of 16 takes four beats, and there is little to do behind the tree: levels
    share adders, and rows must begin `APART` cycles apart or more. A row of b beats has
    ``max(b, 3)`` pairs in its groups at most, and ``p + 2`` of its p partials: no more than the
    cycles that it takes. So nothing waits for an adder but what came while sums were on their way.

    Parameters
    ----------
    lanes : int
        Elements a beat: 4, 8 or 16.

    Members
    -------
    valid : In(1)
        There is a beat.
    elements : In(ArrayLayout(Float32, lanes))
        Its elements.
    keep : In(lanes)
        Which of them count.
    last : In(1)
        It ends a row. All other beats of a row are whole.
    op : In(Combine)
        What to do; one for all beats of a row.
    o_valid : Out(1)
        A row is done.
    o : Out(Float32)
        Its result.

    Raises
    ------
    ValueError
        If `lanes` is not one of those.
    """

    latency = 4 * Adder.latency + Partials.latency + 3 * PairCombiner.latency + RING

    APART = 4

    def __init__(self, lanes: int) -> None:
        if lanes not in (4, 8, GROUP):
            raise ValueError(f"lanes must be 4, 8 or {GROUP}, not {lanes!r}")
        self._lanes = lanes
        super().__init__(
            {
                "valid": In(1),
                "elements": In(data.ArrayLayout(Float32, lanes)),
                "keep": In(lanes),
                "last": In(1),
                "op": In(Combine),
                "o_valid": Out(1),
                "o": Out(Float32),
            }
        )

    @property
    def lanes(self) -> int:
        """Elements a beat."""
        return self._lanes

    @staticmethod
    def shares(lanes: int) -> bool:
        """Return whether levels share adders."""
        return lanes == 4

    def elaborate(self, platform: object) -> Module:
        """Tree, pairs in time, partials, pairs in time."""
        m = Module()
        beat = Signal(range(max(GROUP // self.lanes, 2)))
        ends_group = self.last | (beat == GROUP // self.lanes - 1)
        with m.If(self.valid):
            m.d.sync += beat.eq(Mux(ends_group, 0, beat + 1))

        values = [
            Mux(self.keep[n], self.elements[n].as_value(), identity(self.op))
            for n in range(self.lanes)
        ]
        op, levels = self.op, 0
        while len(values) > 1:
            adders = [Adder() for _ in values[::2]]
            for n, adder in enumerate(adders):
                m.submodules[f"tree_{levels}_{n}"] = adder
                m.d.comb += [adder.a.eq(values[2 * n]), adder.b.eq(values[2 * n + 1])]
                m.d.comb += adder.op.eq(op)
            values = [adder.o.as_value() for adder in adders]
            op = delayed(m, op, Adder.latency)
            levels += 1

        to_tree = levels * Adder.latency
        valid, item = delayed(m, self.valid, to_tree, reset=True), Signal(Item)
        marks = delayed(m, Cat(ends_group, self.last), to_tree)
        m.d.comb += item.eq(Cat(values[0], op, marks))

        shares = self.shares(self.lanes)
        last = self._share(m, valid, item) if shares else self._spread(m, levels, valid, item)
        m.d.comb += [self.o_valid.eq(last.o_valid), self.o.eq(last.o.value)]
        return m

    def _spread(self, m: Module, levels: int, valid: Value, item: Value) -> PairCombiner:
        """Give every level in time an adder; return the last one."""
        in_group = [PairCombiner("ends_group") for _ in range(4 - levels)]
        in_row = [PairCombiner("ends_row") for _ in range(3)]
        for n, part in enumerate([*in_group, Partials(), *in_row]):
            m.submodules[f"part_{n}"] = part
            m.d.comb += [part.valid.eq(valid), part.i.eq(item)]
            valid, item = part.o_valid, part.o
        return in_row[-1]

    def _share(self, m: Module, valid: Value, item: Value) -> PairLevels:
        """Give the levels in a group one adder, and those in a row; return the latter."""
        # Pairs wait, not their halves: there are half as many, so the queue gets empty again.
        shape = data.StructLayout({"item": Item, "partner": 32})
        m.submodules.pairs = pairs = SyncFIFO(width=shape.size, depth=RING)
        m.submodules.in_group = in_group = PairLevels("ends_group", 2)
        m.submodules.partials = partials = Partials()
        m.submodules.in_row = in_row = PairLevels("ends_row", 3)
        waiting = data.View(shape, pairs.r_data)
        in_pair, first = pair(m, "ends_group", valid, item, Const(1, 1))
        of_row, half = pair(m, "ends_row", partials.o_valid, partials.o, in_row.ready)
        m.d.comb += [
            pairs.w_en.eq(in_pair),
            pairs.w_data.eq(Cat(item, first)),
            pairs.r_en.eq(in_group.ready),
            in_group.valid.eq(pairs.r_rdy),
            in_group.i.eq(waiting.item),
            in_group.partner.eq(waiting.partner),
            partials.valid.eq(in_group.o_valid),
            partials.i.eq(in_group.o),
            partials.ready.eq(~of_row | in_row.ready),
            in_row.valid.eq(of_row),
            in_row.i.eq(partials.o),
            in_row.partner.eq(half),
        ]
        return in_row
