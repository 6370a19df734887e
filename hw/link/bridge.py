"""From frames to memory and registers.

A frame is kept until its checksum fits; only then is anything done, and only what it says. The
bridge does one request at a time: what comes on the line meanwhile is not heard, and the frame it
belongs to is dropped. A request that changes a register and comes again under its number, because
its reply was lost, is answered and not done again.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.control.lite import ADDRESS_BITS as REGISTER_BITS
from hw.control.lite import AxiLite
from hw.link.framing import CRC_INIT, RESIDUE, Deframer, Framer, checksum_step
from hw.memory.axi import SIZE, Axi4, Burst
from hw.noc.flit import WORD_BITS
from kohakutpu.config import WORD_BYTES
from kohakutpu.link.frames import (
    CHECKSUM,
    END,
    FRAME_WORDS,
    HELLO,
    IDENTITY,
    LONGEST,
    REGISTER,
    REQUEST,
    VERSION,
    Command,
    Status,
)

BYTE = 8
OVERHEAD = REQUEST.size + CHECKSUM.size


class Head(data.Struct):
    """What a request begins with: `REQUEST`."""

    sequence: BYTE
    command: BYTE
    address: 32
    count: BYTE


class Bridge(wiring.Component):
    """Answers requests.

    Parameters
    ----------
    memory_words : int
        Words of memory that a host may name.
    clock : int
        Frequency in Hz, which the host is told.
    address_bits : int
        Of byte addresses of memory.

    Members
    -------
    byte, strobe : In(8), In(1)
        From the line.
    o : Out(stream of 8)
        To the line.
    memory : Out(Axi4)
        One word at a time.
    registers : Out(AxiLite)
        One transfer at a time.
    idle : Out(1)
        Waits for a request.
    """

    def __init__(self, memory_words: int, clock: int, address_bits: int) -> None:
        self._memory_words = memory_words
        self._hello = HELLO.pack(IDENTITY, VERSION, memory_words, clock)
        super().__init__(
            {
                "byte": In(BYTE),
                "strobe": In(1),
                "o": Out(stream.Signature(BYTE)),
                "memory": Out(Axi4(address_bits)),
                "registers": Out(AxiLite()),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Receive, check, do, reply."""
        m = Module()
        m.submodules.deframer = deframer = Deframer()
        m.submodules.framer = framer = Framer()
        m.submodules.frame = frame = Memory(shape=BYTE, depth=LONGEST, init=[])
        kept, back = frame.write_port(), frame.read_port()
        wiring.connect(m, framer.o, wiring.flipped(self.o))
        memory, registers, piece = self.memory, self.registers, framer.i

        head = Signal(Head)
        length = Signal(range(LONGEST + 2))  # bytes of the frame so far
        crc = Signal(32, init=CRC_INIT)
        deaf = Signal()  # until the frame on the line has ended
        status = Signal(Status)
        set_before = Signal()  # the last request has changed a register,
        sequence = Signal(BYTE)  # and this was its number
        word = Signal(WORD_BITS)  # what goes in or out, its lowest byte first
        filled = Signal(range(WORD_BYTES + 1))  # bytes of it
        place = Signal(range(LONGEST + 1))  # in the frame
        coming = Signal()  # a byte of the frame
        done = Signal(range(FRAME_WORDS + 1))  # words
        pending = Signal(3)  # address, data and answer of a transfer, still to come
        crc_left = Signal(range(CHECKSUM.size))

        address = (head.address + done)[: len(memory.awaddr) - SIZE]
        register = head.address[:REGISTER_BITS]
        m.d.comb += [
            deframer.byte.eq(self.byte),
            deframer.strobe.eq(self.strobe),
            kept.addr.eq(length),
            kept.data.eq(deframer.data),
            back.addr.eq(place),
            back.en.eq(1),
            *(port.eq(Cat(Const(0, SIZE), address)) for port in (memory.awaddr, memory.araddr)),
            *(port.eq(SIZE) for port in (memory.awsize, memory.arsize)),
            *(port.eq(Burst.INCR) for port in (memory.awburst, memory.arburst)),
            memory.wdata.eq(word),
            memory.wstrb.eq(-1),
            memory.wlast.eq(1),
            *(port.eq(register) for port in (registers.awaddr, registers.araddr)),
            registers.wdata.eq(word[-32:]),
            registers.wstrb.eq(-1),
        ]
        # A frame on the line while nobody listens is lost whole.
        with m.If(deframer.valid & ~self.idle):
            m.d.sync += deaf.eq(1)
        with m.If(deframer.bad):
            m.d.sync += deaf.eq(1)
        with m.If(deframer.end):
            m.d.sync += deaf.eq(0)

        with m.FSM():
            with m.State("RECEIVE"):
                m.d.comb += self.idle.eq(1)
                whole = ~deaf & ~deframer.bad & (length >= OVERHEAD) & (length <= LONGEST)
                with m.If(deframer.valid & ~deaf & (length <= LONGEST)):
                    m.d.comb += kept.en.eq(length < LONGEST)
                    m.d.sync += [length.eq(length + 1), crc.eq(checksum_step(crc, deframer.data))]
                    with m.If(length < REQUEST.size):
                        m.d.sync += head.eq(Cat(head.as_value()[BYTE:], deframer.data))
                with m.If(deframer.end):
                    with m.If(whole & (crc == RESIDUE)):
                        m.next = "CHECK"
                    with m.Else():
                        m.d.sync += [length.eq(0), crc.eq(CRC_INIT)]
            with m.State("CHECK"):
                m.d.sync += [
                    crc.eq(CRC_INIT),
                    done.eq(0),
                    filled.eq(0),
                    place.eq(REQUEST.size),
                    coming.eq(0),
                    pending.eq(-1),
                    sequence.eq(head.sequence),
                    set_before.eq(head.command == Command.SET),
                ]
                again = set_before & (head.command == Command.SET) & (sequence == head.sequence)
                with m.If(again):
                    m.next = "BEGIN"
                with m.Else():
                    self._check(m, head, length - OVERHEAD, status, word, filled)
            with m.State("GATHER"):
                size = Mux(head.command == Command.SET, REGISTER.size, WORD_BYTES)
                m.d.sync += [coming.eq(1), place.eq(place + 1)]
                with m.If(coming):
                    m.d.sync += [word.eq(Cat(word[BYTE:], back.data)), filled.eq(filled + 1)]
                    with m.If(filled == size - 1):
                        m.d.sync += [coming.eq(0), place.eq(place), filled.eq(0), pending.eq(-1)]
                        with m.If(head.command == Command.SET):
                            m.next = "SET"
                        with m.Else():
                            m.next = "WRITE"
            with m.State("WRITE"):
                _transfer(m, pending, memory, ("aw", "w"), "b")
                with m.If(memory.bvalid & memory.bready):
                    m.d.sync += done.eq(done + 1)
                    with m.If(memory.bresp.as_value() != 0):
                        m.d.sync += status.eq(Status.BUS)
                        m.next = "BEGIN"
                    with m.Elif(done + 1 == head.count):
                        m.next = "BEGIN"
                    with m.Else():
                        m.next = "GATHER"
            with m.State("SET"):
                _transfer(m, pending, registers, ("aw", "w"), "b")
                with m.If(registers.bvalid & registers.bready):
                    with m.If(registers.bresp != 0):
                        m.d.sync += status.eq(Status.BUS)
                    m.next = "BEGIN"
            with m.State("GET"):
                _transfer(m, pending, registers, ("ar",), "r")
                with m.If(registers.rvalid & registers.rready):
                    m.d.sync += [word.eq(registers.rdata), filled.eq(REGISTER.size)]
                    with m.If(registers.rresp != 0):
                        m.d.sync += status.eq(Status.BUS)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                _send(m, piece, END, mark=True)
                with m.If(piece.ready):
                    m.next = "SEQUENCE"
            with m.State("SEQUENCE"):
                _send(m, piece, head.sequence, crc)
                with m.If(piece.ready):
                    m.next = "COMMAND"
            with m.State("COMMAND"):
                _send(m, piece, head.command, crc)
                with m.If(piece.ready):
                    m.next = "DATA"
            with m.State("DATA"):
                with m.If(filled != 0):
                    _send(m, piece, word[:BYTE], crc)
                    with m.If(piece.ready):
                        m.d.sync += [word.eq(word >> BYTE), filled.eq(filled - 1)]
                more = (head.command == Command.READ) & (done != head.count)
                with m.Elif(more & (status == Status.DONE)):
                    m.d.sync += pending.eq(-1)
                    m.next = "READ"
                with m.Else():
                    m.next = "STATUS"
            with m.State("READ"):
                _transfer(m, pending, memory, ("ar",), "r")
                with m.If(memory.rvalid & memory.rready):
                    m.d.sync += [word.eq(memory.rdata), filled.eq(WORD_BYTES), done.eq(done + 1)]
                    with m.If(memory.rresp.as_value() != 0):
                        m.d.sync += status.eq(Status.BUS)
                    m.next = "DATA"
            with m.State("STATUS"):
                _send(m, piece, status, crc)
                with m.If(piece.ready):
                    m.d.sync += crc_left.eq(CHECKSUM.size - 1)
                    m.next = "CHECKSUM"
            with m.State("CHECKSUM"):
                _send(m, piece, ~crc[:BYTE])
                with m.If(piece.ready):
                    m.d.sync += [crc.eq(crc >> BYTE), crc_left.eq(crc_left - 1)]
                    with m.If(crc_left == 0):
                        m.next = "END"
            with m.State("END"):
                _send(m, piece, END, mark=True)
                with m.If(piece.ready):
                    m.d.sync += [length.eq(0), crc.eq(CRC_INIT)]
                    m.next = "RECEIVE"
        return m

    def _check(
        self,
        m: Module,
        head: data.View,
        payload: Value,
        status: Signal,
        word: Signal,
        filled: Signal,
    ) -> None:
        """Go on with a request that can be done, or with the reply that says why not."""
        m.d.sync += [status.eq(Status.COMMAND), word.eq(int.from_bytes(self._hello, "little"))]
        m.next = "BEGIN"
        in_memory = (
            (head.count != 0)
            & (head.count <= FRAME_WORDS)
            & (head.address + head.count <= self._memory_words)
        )
        in_registers = (head.count == 1) & (head.address < 1 << REGISTER_BITS)
        for command, valid, size, following in (
            (Command.HELLO, head.count == 0, 0, "BEGIN"),
            (Command.READ, in_memory, 0, "BEGIN"),
            (Command.WRITE, in_memory, head.count * WORD_BYTES, "GATHER"),
            (Command.GET, in_registers, 0, "GET"),
            (Command.SET, in_registers, REGISTER.size, "GATHER"),
        ):
            with m.If(head.command == command):
                with m.If(~valid):
                    m.d.sync += status.eq(Status.RANGE)
                with m.Elif(payload != size):
                    m.d.sync += status.eq(Status.LENGTH)
                with m.Else():
                    m.d.sync += status.eq(Status.DONE)
                    if command == Command.HELLO:
                        m.d.sync += filled.eq(HELLO.size)
                    m.next = following


def _transfer(m: Module, pending: Signal, bus: Any, requests: tuple[str, ...], answer: str) -> None:
    """Offer each channel of a transfer once, and take its answer."""
    for n, channel in enumerate(requests):
        valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
        m.d.comb += valid.eq(pending[n])
        with m.If(ready):
            m.d.sync += pending[n].eq(0)
    m.d.comb += getattr(bus, f"{answer}ready").eq(1)


def _send(m: Module, piece: Any, byte: Any, crc: Signal | None = None, mark: bool = False) -> None:
    """Offer a byte of the reply, and count it in its checksum."""
    m.d.comb += [piece.valid.eq(1), piece.payload.byte.eq(byte), piece.payload.mark.eq(mark)]
    if crc is not None:
        with m.If(piece.ready):
            m.d.sync += crc.eq(checksum_step(crc, piece.payload.byte))
