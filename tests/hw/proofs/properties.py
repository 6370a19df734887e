"""Small parts of the hardware beside what must hold of them, whatever their surroundings do."""

from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.noc.arbiter import RoundRobin

WIDTH = 2  # of a payload; the parts never look at it


def in_order(
    m: Module,
    places: int,
    *,
    taken: Value,
    entering: Value,
    mark: Value,
    given: Value,
    leaving: Value,
) -> Signal:
    """Assert that what is given is what was taken, in that order, and nothing else.

    One element, any, is marked when it goes in; those ahead of it are counted, and when they have
    left, it must come.

    Parameters
    ----------
    m : Module
        Where the assertions go.
    places : int
        The most that may be inside.
    taken, entering, mark : Value
        An element goes in; which one; it may be the marked one.
    given, leaving : Value
        An element comes out; which one.

    Returns
    -------
    Signal
        The marked one is inside.
    """
    inside = Signal(range(places + 2))
    m.d.sync += inside.eq(inside + taken - given)
    m.d.comb += Assert(inside <= places)
    m.d.comb += Assert(~given | (inside != 0))

    marked, value, ahead = Signal(), Signal.like(entering), Signal.like(inside)
    with m.If(~marked & taken & mark):
        m.d.sync += [marked.eq(1), value.eq(entering), ahead.eq(inside - given)]
    with m.Elif(marked & given):
        with m.If(ahead == 0):
            m.d.comb += Assert(leaving == value)
            m.d.sync += marked.eq(0)
        with m.Else():
            m.d.sync += ahead.eq(ahead - 1)
    return marked


class InOrder(wiring.Component):
    """A buffer gives what it took, in that order, and what it offers stays until it is taken.

    Parameters
    ----------
    part : Component
        With streams `i` and `o` of ``WIDTH`` bits.
    places : int
        The most it may hold.
    """

    def __init__(self, part: wiring.Component, places: int) -> None:
        self._part, self._places = part, places
        super().__init__({"valid": In(1), "payload": In(WIDTH), "ready": In(1), "mark": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Count, compare."""
        m = Module()
        m.submodules.part = part = self._part
        m.d.comb += [
            part.i.valid.eq(self.valid),
            part.i.payload.eq(self.payload),
            part.o.ready.eq(self.ready),
        ]
        taken, given = Signal(), Signal()
        m.d.comb += [
            taken.eq(part.i.valid & part.i.ready),
            given.eq(part.o.valid & part.o.ready),
        ]
        in_order(
            m,
            self._places,
            taken=taken,
            entering=self.payload,
            mark=self.mark,
            given=given,
            leaving=part.o.payload,
        )

        waited, offered = Signal(), Signal(WIDTH)
        m.d.sync += [waited.eq(part.o.valid & ~part.o.ready), offered.eq(part.o.payload)]
        with m.If(waited):
            m.d.comb += Assert(part.o.valid & (part.o.payload == offered))
        return m


class Fair(wiring.Component):
    """An arbiter grants one of those that ask, keeps to it, and passes nobody over for long.

    Parameters
    ----------
    count : int
        How many ask.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        super().__init__({"requests": In(count), "taken": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Assume what the arbiter may, assert what it promises."""
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(self._count)
        granted = Signal()
        m.d.comb += [
            arbiter.requests.eq(self.requests),
            arbiter.taken.eq(self.taken & arbiter.grant.any()),
            granted.eq(arbiter.taken),
        ]
        before, served = Signal(self._count), Signal(self._count)
        m.d.sync += [before.eq(self.requests), served.eq(Mux(granted, arbiter.grant, 0))]
        # A request stays until it has been granted and taken.
        m.d.comb += Assume((before & ~served & ~self.requests) == 0)

        grant = arbiter.grant
        m.d.comb += [
            Assert((grant & (grant - 1)) == 0),
            Assert((grant & ~self.requests) == 0),
            Assert(grant.any() == self.requests.any()),
        ]
        held, kept = Signal(), Signal(self._count)
        m.d.sync += [held.eq(grant.any() & ~granted), kept.eq(grant)]
        with m.If(held):
            m.d.comb += Assert(grant == kept)
        for index in range(self._count):
            others = Signal(range(self._count + 1), name=f"others_{index}")
            with m.If(~self.requests[index] | (granted & grant[index])):
                m.d.sync += others.eq(0)
            with m.Elif(granted):
                m.d.sync += others.eq(others + 1)
            m.d.comb += Assert(others <= Const(self._count - 1, 4))
        return m
