"""A queue of registers without multiplexers: for wide elements that come seldom."""

from amaranth.hdl import Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Chain(wiring.Component):
    """A queue whose elements walk to its end, a place a cycle, and stop behind one that waits.

    Parameters
    ----------
    shape : ShapeLike
        Of an element.
    depth : int
        Places; an element takes as many cycles at least.

    Members
    -------
    valid, i : In(1), In(shape)
        An element; there must be room for it.
    o : Out(stream)
        The oldest one, at the end.
    waits : Out(1)
        There is any.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._width, self._depth = Shape.cast(shape).width, depth
        super().__init__(
            {
                "valid": In(1),
                "i": In(shape),
                "o": Out(stream.Signature(shape)),
                "waits": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Let a place take what comes if it is free or becomes free."""
        m = Module()
        taken = Signal(self._depth)
        values = [
            Signal(self._width, name=f"place_{n}", reset_less=True) for n in range(self._depth)
        ]
        before: list[tuple[Value, Value]] = [(self.valid, Value.cast(self.i))]
        before += zip(taken[:-1], values[:-1], strict=True)
        free: Value = self.o.ready
        for n, (valid, value) in reversed(list(enumerate(before))):
            free = free | ~taken[n]
            with m.If(free):
                m.d.sync += [taken[n].eq(valid), values[n].eq(value)]
        m.d.comb += [
            self.o.valid.eq(taken[-1]),
            Value.cast(self.o.payload).eq(values[-1]),
            self.waits.eq(taken.any()),
        ]
        return m
