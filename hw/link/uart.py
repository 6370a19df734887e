"""Bytes on a serial line: a start bit, eight bits of data, the lowest first, a stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

BITS = 10


class Receiver(wiring.Component):
    """Takes bytes from a line, whatever comes on it.

    Parameters
    ----------
    divisor : int
        Clock cycles of a bit, at least 4.

    Members
    -------
    line : In(1)
        Not synchronous to anything.
    byte, strobe : Out(8), Out(1)
        A byte has come. Nobody can say no to it.
    """

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor
        super().__init__({"line": In(1, init=1), "byte": Out(8), "strobe": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Look at the middle of each bit; a byte without its stop bit is none."""
        m = Module()
        line = Signal(init=1)
        m.submodules.synchroniser = FFSynchronizer(self.line, line, init=1)
        wait = Signal(range(self._divisor))
        left = Signal(range(BITS + 1))
        bits = Signal(BITS - 1)  # without the start bit
        m.d.comb += self.byte.eq(bits)
        m.d.sync += self.strobe.eq(0)
        with m.If(left == 0):
            with m.If(~line):
                m.d.sync += [left.eq(BITS), wait.eq(self._divisor // 2 - 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [wait.eq(self._divisor - 1), left.eq(left - 1)]
            m.d.sync += bits.eq(Cat(bits, line) >> 1)
            with m.If((left == BITS) & line):
                m.d.sync += left.eq(0)  # a glitch, no start bit
            with m.If(left == 1):
                m.d.sync += self.strobe.eq(line)
        return m


class Transmitter(wiring.Component):
    """Sends bytes.

    Parameters
    ----------
    divisor : int
        Clock cycles of a bit.

    Members
    -------
    i : In(stream of 8)
        Bytes.
    line : Out(1)
        High while nothing is sent.
    """

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "line": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        """Shift a byte out, a stop bit after it."""
        m = Module()
        wait = Signal(range(self._divisor))
        left = Signal(range(BITS + 1))
        bits = Signal(BITS - 1, init=(1 << BITS - 1) - 1)
        m.d.comb += self.i.ready.eq(left == 0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                self.line.eq(0),
                bits.eq(Cat(self.i.payload, Const(1, 1))),
                left.eq(BITS),
                wait.eq(self._divisor - 1),
            ]
        with m.Elif(left != 0):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 0):
                m.d.sync += [
                    self.line.eq(bits[0]),
                    bits.eq(Cat(bits[1:], Const(1, 1))),
                    left.eq(left - 1),
                    wait.eq(self._divisor - 1),
                ]
        return m
