"""What is between a system and the pins of a board."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import io, wiring


class BoardTop(Elaboratable):
    """A system on a board: its serial line, and a light for each thing worth knowing.

    Parameters
    ----------
    system : amaranth.lib.wiring.Component
        With the ports ``receive``, ``transmit``, ``listening`` and ``finished``.
    lights : int
        LEDs of the board that may be used.
    """

    def __init__(self, system: wiring.Component, lights: int = 2) -> None:
        self._system, self._lights = system, lights

    def elaborate(self, platform) -> Module:
        """Ask the platform for pins; its default clock is the system's."""
        m = Module()
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
