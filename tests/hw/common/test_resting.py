"""Parts at rest: no clock, and nobody can tell."""

from functools import cache

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.pipeline import delayed
from hw.common.resting import resting
from hw.sim.simulator import Simulator

pytestmark = pytest.mark.cocotb

LATENCY = 5
CYCLES = 4000


class Squares(wiring.Component):
    """Squares of numbers, later; and the clock edges that it saw."""

    def __init__(self, latency: int) -> None:
        self.latency = latency
        super().__init__(
            {"valid": In(1), "i": In(8), "o_valid": Out(1), "o": Out(16), "edges": Out(16)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.edges.eq(self.edges + 1)
        m.d.comb += [
            self.o_valid.eq(delayed(m, self.valid, LATENCY, reset=True)),
            self.o.eq(delayed(m, self.i * self.i, LATENCY)),
        ]
        return m


class Bench(wiring.Component):
    """Squares that may rest, below a domain with a reset of its own as in `hw.top`."""

    def __init__(self, latency: int = LATENCY) -> None:
        self.part = Squares(latency)
        super().__init__({"clear": In(1), **dict(self.part.signature.members)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.cleared = ClockDomain(local=True)
        m.d.comb += [
            ClockSignal("cleared").eq(ClockSignal()),
            ResetSignal("cleared").eq(ResetSignal() | self.clear),
        ]
        m.submodules.inner = DomainRenamer("cleared")(Inner(self.part))
        for name, member in self.part.signature.members.items():
            outer, inner = getattr(self, name), getattr(self.part, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m


class Inner(wiring.Component):
    """Where the part is put to rest."""

    def __init__(self, part: Squares) -> None:
        self.part = part
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.part = resting(m, platform, self.part, "part", self.part.valid)
        return m


@cache
def simulator(gated: bool, latency: int) -> Simulator:
    return Simulator(Bench(latency), gated=gated)


def outputs(
    gated: bool, rate: float, clears: float, latency: int = LATENCY
) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return simulator(gated, latency).cycles(
        valid=random.random(CYCLES) < rate,
        i=random.integers(0, 256, CYCLES),
        clear=random.random(CYCLES) < clears,
    )


@pytest.mark.parametrize("clears", [0, 0.05])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 1])
def test_nobody_can_tell(rate: float, clears: float) -> None:
    plain, gated = (outputs(gated, rate, clears) for gated in (False, True))
    assert plain["o_valid"].any()
    np.testing.assert_array_equal(gated["o_valid"], plain["o_valid"])
    there = plain["o_valid"] != 0
    np.testing.assert_array_equal(gated["o"][there], plain["o"][there])


def test_the_clock_rests() -> None:
    plain, gated = (outputs(gated, 0.02, 0)["edges"][-1] for gated in (False, True))
    assert plain == CYCLES - 1
    random = np.random.default_rng(3)
    valid = random.random(CYCLES) < 0.02
    awake = np.convolve(valid, np.ones(LATENCY + 1))[: CYCLES - 1] > 0
    awake[0] = True  # no falling edge yet
    assert gated == awake.sum()


def test_too_short_a_latency_shows() -> None:
    plain, gated = (outputs(gated, 0.02, 0, LATENCY - 1) for gated in (False, True))
    assert (plain["o_valid"] != gated["o_valid"]).any()
