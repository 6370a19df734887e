"""Places between two streams."""

from itertools import pairwise

from amaranth.hdl import Assert, Cat, Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

CHAINED = 4
"""Places up to which a queue is a chain of registers."""


class Register(wiring.Component):
    """One element a cycle, one cycle later.

    It takes an element in the cycle in which it gives away the one before, so `i.ready` depends on
    `o.ready` in the same cycle: a chain of registers moves as one, and no bit has a second place.

    Parameters
    ----------
    shape : amaranth.hdl.ShapeLike
        Of the payload.

    Members
    -------
    i : In(stream)
        Taken while nothing is held, or what is held leaves.
    o : Out(stream)
        What is held.
    """

    def __init__(self, shape: ShapeLike) -> None:
        self._shape = shape
        signature = stream.Signature(shape)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        """Hold one element."""
        m = Module()
        # Plain bits: a structure would get debugging wires for all its fields, here in thousands.
        held = Signal(Shape.cast(self._shape).width, reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            Value.cast(self.o.payload).eq(held),
        ]
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), held.eq(Value.cast(self.i.payload))]
        return m


class Queue(wiring.Component):
    """Elements in their order; one a cycle.

    A short queue is a chain of registers, which takes little logic: an element needs a cycle for
    every place but one to reach the end of an empty queue. With one place, `i.ready` depends on
    `o.ready` in the same cycle, with more it does not. A long one is memory, and the last of its
    places a register behind that: an element needs two cycles.

    Parameters
    ----------
    shape : amaranth.hdl.ShapeLike
        Of the payload.
    depth : int
        Places.

    Members
    -------
    i : In(stream)
        Taken while there is a place.
    o : Out(stream)
        The oldest element, when it has come to the end.
    empty : Out(1)
        There is no element, at the end or on its way there.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._shape, self._depth = shape, depth
        signature = stream.Signature(shape)
        super().__init__({"i": In(signature), "o": Out(signature), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Chain registers, or use a memory."""
        m = Module()
        if self._depth <= CHAINED:
            self._chain(m)
        else:
            self._store(m)
        return m

    def _chain(self, m: Module) -> None:
        # The first of several has two places, so that readiness ends there.
        places: list[Register | ElasticBuffer] = [
            Register(self._shape) if number or self._depth == 1 else ElasticBuffer(self._shape)
            for number in range(max(self._depth - 1, 1))
        ]
        for number, place in enumerate(places):
            m.submodules[f"place_{number}"] = place
        join(m, self.i, places[0].i)
        for before, after in pairwise(places):
            join(m, before.o, after.i)
        join(m, places[-1].o, self.o)
        m.d.comb += self.empty.eq(~Cat(place.o.valid for place in places).any())

    def _store(self, m: Module) -> None:
        depth, width = self._depth, Shape.cast(self._shape).width
        # What is read was written in a cycle before.
        m.submodules.memory = memory = Memory(
            shape=width, depth=depth, init=[], attrs={"no_rw_check": 1}
        )
        write, read = memory.write_port(), memory.read_port()
        stored = Signal(range(depth + 1))  # without the one at the end
        takes, moves = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq((stored != depth) & ~(self.o.valid & (stored == depth - 1))),
            takes.eq(self.i.valid & self.i.ready),
            moves.eq((stored != 0) & (~self.o.valid | self.o.ready)),
            write.en.eq(takes),
            write.data.eq(Value.cast(self.i.payload)),
            read.en.eq(moves),
            Value.cast(self.o.payload).eq(read.data),
            self.empty.eq(~self.o.valid & (stored == 0)),
        ]
        m.d.sync += stored.eq(stored + takes - moves)
        for port, advances in ((write, takes), (read, moves)):
            with m.If(advances):
                m.d.sync += port.addr.eq(Mux(port.addr == depth - 1, 0, port.addr + 1))
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += self.o.valid.eq(moves)
        m.d.sync += Assert(~(takes & moves & (write.addr == read.addr)))


class ElasticBuffer(wiring.Component):
    """One element a cycle, one cycle later, with a register on every path in both directions.

    Parameters
    ----------
    shape : amaranth.hdl.ShapeLike
        Of the payload.

    Members
    -------
    i : In(stream)
        Taken while the second place is free.
    o : Out(stream)
        The oldest element.
    """

    def __init__(self, shape: ShapeLike) -> None:
        self._shape = shape
        signature = stream.Signature(shape)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        """Fill the spare place only while the first one waits."""
        m = Module()
        # Plain bits: a structure would get debugging wires for all its fields, here in thousands.
        width = Shape.cast(self._shape).width
        head = Signal(width, reset_less=True)
        spare = Signal(width, reset_less=True)
        incoming = Value.cast(self.i.payload)
        head_valid = Signal()
        spare_valid = Signal()
        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(head_valid),
            Value.cast(self.o.payload).eq(head),
        ]
        with m.If(self.o.ready | ~head_valid):
            with m.If(spare_valid):
                m.d.sync += head.eq(spare)
            with m.Else():
                m.d.sync += head.eq(incoming)
            m.d.sync += [head_valid.eq(spare_valid | self.i.valid), spare_valid.eq(0)]
        with m.Elif(self.i.valid & ~spare_valid):
            m.d.sync += [spare.eq(incoming), spare_valid.eq(1)]
        return m


def join(m: Module, source: stream.Interface, sink: stream.Interface) -> None:
    """Connect streams of the same bits, whatever their shapes."""
    m.d.comb += [
        Value.cast(sink.payload).eq(Value.cast(source.payload)),
        sink.valid.eq(source.valid),
        source.ready.eq(sink.ready),
    ]
