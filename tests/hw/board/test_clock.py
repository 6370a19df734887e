"""Frequencies that the PLL of an ECP5 makes, and a divider."""

import pytest
from amaranth.hdl import ClockDomain, ClockSignal, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hw.board.clock import COMPARED, OSCILLATOR, Divider, Dividers


@pytest.mark.parametrize(
    ("source", "wanted", "dividers"),
    [
        # By hand: the oscillator at 600 MHz, or as near as a whole multiple comes.
        (25_000_000, 50_000_000, Dividers(1, 2, 12)),
        (25_000_000, 62_500_000, Dividers(2, 5, 9)),
        (25_000_000, 100_000_000, Dividers(1, 4, 6)),
        (100_000_000, 50_000_000, Dividers(2, 1, 12)),
        (12_000_000, 48_000_000, Dividers(1, 4, 12)),
    ],
)
def test_dividers(source: int, wanted: int, dividers: Dividers) -> None:
    assert Dividers.of(source, wanted) == dividers
    assert source * dividers.feedback == wanted * dividers.reference


def test_every_divider_is_one_that_there_is() -> None:
    made = 0
    for source in (12_000_000, 25_000_000, 50_000_000, 100_000_000):
        for wanted in range(5_000_000, 150_000_000, 500_000):
            try:
                found = Dividers.of(source, wanted)
            except ValueError:
                continue
            made += 1
            assert source * found.feedback == wanted * found.reference
            assert COMPARED[0] <= source / found.reference <= COMPARED[1]
            assert OSCILLATOR[0] <= wanted * found.output <= OSCILLATOR[1]
            assert 1 <= found.feedback <= 80
            assert 1 <= found.output <= 128
    assert made > 50


@pytest.mark.parametrize("wanted", [26_000_001, 33_000_000, 1_000_000, 900_000_000])
def test_a_frequency_that_none_makes(wanted: int) -> None:
    with pytest.raises(ValueError, match=f"no PLL makes {wanted:,} Hz of 25,000,000 Hz"):
        Dividers.of(25_000_000, wanted)


@pytest.mark.parametrize(
    ("wanted", "offered"), [(51_000_000, 50_000_000), (900_000_000, 600_000_000), (1, 12_500_000)]
)
def test_the_frequency_that_is_offered_instead_can_be_made(wanted: int, offered: int) -> None:
    with pytest.raises(ValueError, match=f"as {offered:,}$"):
        Dividers.of(25_000_000, wanted)
    assert Dividers.of(25_000_000, offered)


class Divided(wiring.Component):
    """A divider, its clock, and a register of the domain that has it."""

    source: In(1)
    clock: Out(1)
    edges: Out(8)

    def __init__(self, source: int, wanted: int) -> None:
        super().__init__()
        self.divider = Divider(source, wanted)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain("sync")
        m.submodules.divider = self.divider
        edges = Signal(8)
        m.d.sync += edges.eq(edges + 1)
        m.d.comb += [
            self.divider.clock.eq(self.source),
            self.clock.eq(ClockSignal("sync")),
            self.edges.eq(edges),
        ]
        return m


@pytest.mark.parametrize(("wanted", "half"), [(25_000_000, 1), (12_500_000, 2), (5_000_000, 5)])
def test_a_divider_divides(wanted: int, half: int) -> None:
    top = Divided(50_000_000, wanted)

    async def drive(ctx) -> None:
        levels = []
        for _ in range(40):
            for level in (1, 0):
                ctx.set(top.source, level)
                await ctx.delay(1e-9)
            levels.append(ctx.get(top.clock))
        # As long high as low, whole cycles of the source, from the first edge on.
        start = levels.index(1)
        expected = [1 - (n // half) % 2 for n in range(len(levels) - start)]
        assert start <= half + 1
        assert levels[start:] == expected
        assert ctx.get(top.edges) == sum(
            now > before for before, now in zip([0, *levels], levels, strict=False)
        )

    simulator = Simulator(top)
    simulator.add_testbench(drive)
    simulator.run()


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [(50_000_000, 25_000_000), (30_000_000, 25_000_000), (24_999_999, 12_500_000), (9, 8)],
)
def test_a_frequency_that_no_divider_makes(wanted: int, offered: int) -> None:
    with pytest.raises(ValueError, match=f"no divider makes {wanted:,} Hz .* as {offered:,}$"):
        Divider(50_000_000, wanted)
    Divider(50_000_000, offered)
