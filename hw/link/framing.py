"""Frames on a stream of bytes: escapes and checksums, as in :mod:`kohakutpu.link.frames`."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from kohakutpu.link.frames import END, ESC, ESCAPED

POLYNOMIAL = 0xEDB88320
"""CRC-32, lowest bit first."""

RESIDUE = 0xDEBB20E3
"""What is left of a frame whose checksum fits, before the last inversion."""

CRC_INIT = 0xFFFFFFFF


def checksum_step(crc: Value, byte: Value) -> Value:
    """Return a CRC-32 after one more byte."""
    bits = [crc[n] ^ byte[n] if n < 8 else crc[n] for n in range(32)]
    for _ in range(8):
        low, rest = bits[0], [*bits[1:], None]
        bits = [
            (low if bit is None else bit ^ low) if POLYNOMIAL >> n & 1 else bit
            for n, bit in enumerate(rest)
        ]
    return Cat(*bits)


class Deframer(wiring.Component):
    """Undoes escapes.

    Members
    -------
    byte, strobe : In(8), In(1)
        From the line.
    data, valid : Out(8), Out(1)
        A byte of a frame, in the same cycle.
    end : Out(1)
        A frame has ended, or begins.
    bad : Out(1)
        An escape of nothing that is escaped.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "byte": In(8),
                "strobe": In(1),
                "data": Out(8),
                "valid": Out(1),
                "end": Out(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Remember that an escape came before."""
        m = Module()
        escaped = Signal()
        m.d.comb += self.data.eq(self.byte)
        with m.If(self.strobe):
            m.d.sync += escaped.eq(~escaped & (self.byte == ESC))
            with m.If(self.byte == END):
                m.d.comb += [self.end.eq(1), self.bad.eq(escaped)]
                m.d.sync += escaped.eq(0)
            with m.Elif(escaped):
                m.d.comb += [self.valid.eq(1), self.bad.eq(1)]
                for original, substitute in ESCAPED.items():
                    with m.If(self.byte == substitute):
                        m.d.comb += [self.data.eq(original), self.bad.eq(0)]
            with m.Elif(self.byte != ESC):
                m.d.comb += self.valid.eq(1)
        return m


class Piece(data.Struct):
    """A byte of a frame, or the mark around it."""

    byte: 8
    mark: 1


class Framer(wiring.Component):
    """Puts escapes.

    Members
    -------
    i : In(stream of Piece)
        A frame between two marks.
    o : Out(stream of 8)
        To the line.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(Piece)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        """Hold a byte back while its escape is sent."""
        m = Module()
        piece, second = self.i.payload, Signal()
        special = ~piece.mark & ((piece.byte == END) | (piece.byte == ESC))
        substitute = Mux(piece.byte == END, ESCAPED[END], ESCAPED[ESC])
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & (second | ~special)),
            self.o.payload.eq(piece.byte),
        ]
        with m.If(piece.mark):
            m.d.comb += self.o.payload.eq(END)
        with m.Elif(special):
            m.d.comb += self.o.payload.eq(Mux(second, substitute, ESC))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(special & ~second)
        return m
