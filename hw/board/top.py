"""What is between a system and the pins of a board."""

from collections.abc import Callable

from amaranth.hdl import ClockDomain, Elaboratable, Module
from amaranth.lib import io, wiring


class BoardTop(Elaboratable):
    """A system on a board: its clock, its serial line, and a light for each thing worth knowing.

    Parameters
    ----------
    system : amaranth.lib.wiring.Component
        With the ports ``receive``, ``transmit``, ``listening`` and ``finished``.
    oscillator, frequency : int
        Hz of the board's oscillator, and of the system.
    clock : callable
        Returns what makes the latter from the former, as `hw.board.vendor.Vendor.clock`.
    lights : int
        LEDs of the board, as far as there is a use for them.

    Raises
    ------
    ValueError
        If nothing makes that frequency.
    """

    def __init__(
        self,
        system: wiring.Component,
        oscillator: int,
        frequency: int,
        clock: Callable[[int, int], wiring.Component],
        lights: int,
    ) -> None:
        self._system, self._lights = system, lights
        self._clock = clock(oscillator, frequency) if frequency != oscillator else None

    def elaborate(self, platform) -> Module:
        """Ask the platform for pins; if nothing has to be made its clock is the system's."""
        m = Module()
        if self._clock is not None:
            m.domains.sync = ClockDomain("sync")
            m.submodules.pll = pll = self._clock
            m.submodules.clock = clock = io.Buffer(
                "i", platform.request(platform.default_clk, dir="-")
            )
            m.d.comb += pll.clock.eq(clock.i)
        m.submodules.system = system = self._system
        serial = platform.request("uart", dir={"rx": "-", "tx": "-", "rts": "-", "dtr": "-"})
        m.submodules.receive = receive = io.Buffer("i", serial.rx)
        m.submodules.transmit = transmit = io.Buffer("o", serial.tx)
        m.d.comb += [system.receive.eq(receive.i), transmit.o.eq(system.transmit)]
        for number, value in enumerate((system.listening, system.finished)[: self._lights]):
            port = platform.request("led", number, dir="-")
            m.submodules[f"light_{number}"] = light = io.Buffer("o", port)
            m.d.comb += light.o.eq(value)
        return m
