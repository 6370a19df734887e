"""Round-robin arbitration."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RoundRobin(wiring.Component):
    """Grant one of several requests; nobody waits for more than ``count - 1`` others.

    A grant that was not taken stays, whoever else asks meanwhile: what is offered downstream does
    not change until it is taken.

    Parameters
    ----------
    count : int
        How many ask.

    Members
    -------
    requests : In(count)
        A request stays until it has been granted and taken.
    taken : In(1)
        The grant is used in this cycle.
    grant : Out(count)
        One of `requests`, or 0 if there is none.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count!r}")
        self._count = count
        super().__init__({"requests": In(count), "taken": In(1), "grant": Out(count)})

    def elaborate(self, platform: object) -> Module:
        """Prefer whoever comes after the last one that was served."""
        m = Module()
        after = Signal(self._count)  # requests behind the last grant
        held = Signal(self._count)  # a grant that was not taken yet
        preferred = self.requests & after
        # Side by side, and without a carry from place to place: mesh and units wait for it.
        first = Mux(preferred.any(), _lowest(preferred), _lowest(self.requests))
        m.d.comb += self.grant.eq(Mux(held.any(), held, first))
        with m.If(self.taken):
            behind = (self.grant[:place].any() for place in range(self._count))
            m.d.sync += [held.eq(0), after.eq(Cat(*behind))]
        with m.Else():
            m.d.sync += held.eq(self.grant)
        return m


def _lowest(requests: Value) -> Value:
    """Return the lowest bit that is set."""
    return Cat(bit & ~requests[:place].any() for place, bit in enumerate(requests))
