"""A clock of another frequency than the oscillator's: the PLL of an ECP5, or a divider."""

from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In

OSCILLATOR = (400_000_000, 800_000_000)
"""Hz that the oscillator of the PLL can make."""

COMPARED = (10_000_000, 400_000_000)
"""Hz that its phase detector can compare."""


@dataclass(frozen=True)
class Dividers:
    """How a PLL is set.

    The oscillator runs at ``source / reference * feedback * output`` Hz, and the clock at that
    over ``output``.

    Parameters
    ----------
    reference : int
        What the source is divided by.
    feedback : int
        What the clock is divided by before it is compared with that.
    output : int
        What the oscillator is divided by.
    """

    reference: int
    feedback: int
    output: int

    @classmethod
    def of(cls, source: int, wanted: int) -> "Dividers":
        """Return those that make exactly `wanted` Hz from `source` Hz.

        Raises
        ------
        ValueError
            If there are none; the message has the next frequency below that there are some for.
        """
        possible = {found.feedback * source // found.reference: found for found in cls._all(source)}
        if wanted not in possible:
            near = max((f for f in possible if f < wanted), default=min(possible))
            raise ValueError(
                f"no PLL makes {wanted:,} Hz of {source:,} Hz exactly: choose another frequency, "
                f"as {near:,}"
            )
        return possible[wanted]

    @classmethod
    def _all(cls, source: int) -> Iterator["Dividers"]:
        """Yield every setting that makes whole Hz, those that compare the slowest first."""
        for reference in range(source // COMPARED[0], 0, -1):
            for feedback in range(1, 81):
                wanted, rest = divmod(source * feedback, reference)
                output = sum(OSCILLATOR) // 2 // wanted
                in_range = OSCILLATOR[0] <= wanted * output <= OSCILLATOR[1]
                if not rest and in_range and 1 <= output <= 128:
                    yield cls(reference, feedback, output)


class Pll(wiring.Component):
    """The clock of the domain ``sync``, from another frequency; reset until that is stable.

    Parameters
    ----------
    source, wanted : int
        Hz of both.

    Members
    -------
    clock : In(1)
        The source.

    Raises
    ------
    ValueError
        If the frequency cannot be made.
    """

    def __init__(self, source: int, wanted: int) -> None:
        self.dividers = Dividers.of(source, wanted)
        super().__init__({"clock": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Close the loop over the output, so that no other is needed."""
        m = Module()
        locked, clock = Signal(), Signal()
        m.submodules.pll = Instance(
            "EHXPLLL",
            # What Lattice's own tools give to every PLL.
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=self.dividers.reference,
            p_CLKFB_DIV=self.dividers.feedback,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=self.dividers.output,
            p_CLKOP_CPHASE=self.dividers.output - 1,
            p_CLKOP_FPHASE=0,
            i_CLKI=self.clock,
            i_CLKFB=clock,
            i_RST=0,
            i_STDBY=0,
            i_PHASESEL0=0,
            i_PHASESEL1=0,
            i_PHASEDIR=1,
            i_PHASESTEP=1,
            i_PHASELOADREG=1,
            i_PLLWAKESYNC=0,
            i_ENCLKOP=0,
            o_CLKOP=clock,
            o_LOCK=locked,
        )
        m.d.comb += ClockSignal("sync").eq(clock)
        m.submodules.reset = ResetSynchronizer(~locked, domain="sync")
        return m


class Divider(wiring.Component):
    """The clock of the domain ``sync``, from one of twice the frequency or another even multiple.

    It has no reset: all that is clocked by it starts as the FPGA is loaded.

    Parameters
    ----------
    source, wanted : int
        Hz of both.

    Members
    -------
    clock : In(1)
        The source.

    Raises
    ------
    ValueError
        If one is no even multiple of the other; the message has the next frequency below that is.
    """

    def __init__(self, source: int, wanted: int) -> None:
        half, rest = divmod(source, 2 * wanted)
        if rest or not half:
            slower = range(half + 1, source // 2 + 1)
            near = next((source // (2 * n) for n in slower if source % (2 * n) == 0), 1)
            raise ValueError(
                f"no divider makes {wanted:,} Hz of {source:,} Hz exactly: choose another "
                f"frequency, as {near:,}"
            )
        self.half = half
        super().__init__({"clock": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Toggle, once in half a period; what toggles is no clock, or it would be data as well."""
        m = Module()
        m.domains.source = ClockDomain("source", local=True, reset_less=True)
        # The attribute brings it to the clock network.
        phase, clock = Signal(), Signal(attrs={"CLOCK": "YES"})
        m.d.comb += [ClockSignal("source").eq(self.clock), ClockSignal("sync").eq(clock)]
        m.d.source += clock.eq(phase)
        if self.half == 1:
            m.d.source += phase.eq(~phase)
        else:
            count = Signal(range(self.half))
            m.d.source += count.eq(count + 1)
            with m.If(count == self.half - 1):
                m.d.source += [count.eq(0), phase.eq(~phase)]
        return m
