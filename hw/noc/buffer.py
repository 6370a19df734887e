"""Registers between two streams."""

from amaranth.hdl import Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


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
