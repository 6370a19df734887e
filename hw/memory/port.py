"""The memory port: a node of the mesh on one side, an AXI4 initiator on the other.

It takes READ and WRITE. To a READ it answers with DATA to the nodes of the descriptor, and with
CREDIT to the requester as soon as the READ has left its queue. To a WRITE with ``ack`` it answers
with ACK when memory has answered it, and with it all that the same unit wrote before. The first
error of memory, or the first address past its end, becomes one REPORT to the control node, with the
unit and the instruction that asked; after it the port goes on, but what failed is not acknowledged.

**Order.** READs of one class are answered in the order of their arrival, each whole. A READ that
is sent after the ACK of a WRITE has arrived sees what was written. Nothing else is promised: a
WRITE without ACK may still wait for another one to complete its burst.

**Never stuck.** Taking a flit never depends on sending one (the argument of `hw.noc.router`): READs
have places for all credits, words from memory are asked for only when there is room for them,
ACKs have places for all WRITEs that may wait for one, and one fault is remembered, not queued.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.axi import SIZE, Axi4, Burst, Response
from hw.memory.read import PLACES, Reader
from hw.memory.request import Blame
from hw.memory.write import Writer
from hw.noc.buffer import Register
from hw.noc.flit import Cause, Event, Flit, Kind
from kohakutpu.config import QUARTER_BYTES, WORD_BYTES, Machine

NOT_BUFFERABLE = 0b0010


class MemoryPort(wiring.Component):
    """A memory port; its contract is that of this module.

    Parameters
    ----------
    machine : Machine
        Says how large memory is, who may send, and where the control node is.
    node : int
        The node of this port.

    Members
    -------
    i : In(stream of Flit)
        From the mesh.
    o : Out(stream of Flit)
        To the mesh.
    axi : Out(Axi4)
        To memory; byte 0 is word 0.
    stop : In(1)
        Ask memory for nothing more; what it was asked for is still finished.
    idle : Out(1)
        Memory owes nothing and is owed nothing: with `stop`, the port may be reset.

    Raises
    ------
    ValueError
        If the node is no memory port of the machine.
    """

    def __init__(self, machine: Machine, node: int) -> None:
        ports = [port.id for port in machine.of_kind("M")]
        if node not in ports:
            raise ValueError(f"node must be one of the memory ports {ports}, not {node!r}")
        self._machine, self._node = machine, node
        self.address_bits = (machine.dram_words * WORD_BYTES - 1).bit_length()
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "o": Out(stream.Signature(Flit)),
                "axi": Out(Axi4(self.address_bits)),
                "stop": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Tell READ from WRITE, and merge what goes back."""
        m = Module()
        requesters = sum(len(self._machine.of_kind(kind)) for kind in "CVH")
        words = self._machine.dram_words
        m.submodules.reader = reader = Reader(self._node, requesters, words)
        m.submodules.writer = writer = Writer(requesters, words)
        flit = self.i.payload
        is_read, is_write = flit.kind == Kind.READ, flit.kind == Kind.WRITE
        write, fields = writer.i.payload, flit.fields.write
        m.d.comb += [
            reader.i.valid.eq(self.i.valid & is_read),
            reader.i.payload.read.eq(flit.word.read),
            reader.i.payload.requester.eq(flit.source),
            writer.i.valid.eq(self.i.valid & is_write),
            write.address.eq(fields.address),
            write.mask.eq(fields.mask),
            write.word.eq(flit.word.raw),
            write.ack.eq(fields.ack),
            write.tag.eq(fields.tag),
            write.pc.eq(fields.pc),
            write.requester.eq(flit.source),
            # Whatever else comes is not for a memory port, and must not block the mesh.
            self.i.ready.eq(Mux(is_read, reader.i.ready, Mux(is_write, writer.i.ready, 1))),
            reader.stop.eq(self.stop),
            writer.stop.eq(self.stop),
        ]
        self._send(m, reader, writer)
        self._connect_memory(m, reader, writer)
        return m

    def _send(self, m: Module, reader: Reader, writer: Writer) -> None:
        """Offer, in this order: the fault, ACKs, CREDITs, DATA."""
        m.submodules.output = output = Register(Flit)
        wiring.connect(m, output.o, wiring.flipped(self.o))
        reported = Signal()
        pending = Signal()
        blame = Signal(Blame)
        with m.If((reader.fault | writer.fault) & ~pending & ~reported):
            m.d.sync += pending.eq(1)
            m.d.sync += blame.eq(
                Mux(reader.fault, reader.blame.as_value(), writer.blame.as_value())
            )
        # What a flit of its kind does not have may be anything: it is what DATA has there.
        flit = output.i.payload
        m.d.comb += [flit.eq(reader.o.payload), output.i.valid.eq(1)]
        with m.If(pending & ~reported):
            m.d.comb += [
                flit.dest.eq(1 << self._machine.of_kind("H")[0].id),
                flit.kind.eq(Kind.REPORT),
                flit.fields.report.event.eq(Event.FAULT),
                flit.fields.report.unit.eq(blame.requester),
                flit.fields.report.pc.eq(blame.pc),
                flit.fields.report.cause.eq(Cause.MEMORY),
            ]
            m.d.sync += reported.eq(output.i.ready)
        with m.Elif(writer.ack.valid):
            m.d.comb += [
                flit.dest.eq(1 << writer.ack.payload.requester),
                flit.kind.eq(Kind.ACK),
                flit.fields.ack.tag.eq(writer.ack.payload.tag),
                writer.ack.ready.eq(output.i.ready),
            ]
        with m.Elif(reader.credit.valid):
            m.d.comb += [
                flit.dest.eq(1 << reader.credit.payload.requester),
                flit.kind.eq(Kind.CREDIT),
                flit.fields.credit.instruction.eq(reader.credit.payload.instruction),
                reader.credit.ready.eq(output.i.ready),
            ]
        with m.Else():
            m.d.comb += [
                output.i.valid.eq(reader.o.valid),
                reader.o.ready.eq(output.i.ready),
            ]
        m.d.comb += flit.source.eq(self._node)

    def _connect_memory(self, m: Module, reader: Reader, writer: Writer) -> None:
        axi = self.axi
        asked = Signal(range(PLACES + 1))  # words that memory still owes
        word_bits = self.address_bits - SIZE
        for channel, burst in (("ar", reader.burst), ("aw", writer.burst)):
            m.d.comb += [
                getattr(axi, f"{channel}addr").eq(burst.payload.word[:word_bits] << SIZE),
                getattr(axi, f"{channel}len").eq(burst.payload.beats),
                getattr(axi, f"{channel}size").eq(SIZE),
                getattr(axi, f"{channel}burst").eq(Burst.INCR),
                getattr(axi, f"{channel}cache").eq(NOT_BUFFERABLE),
                getattr(axi, f"{channel}valid").eq(burst.valid),
                burst.ready.eq(getattr(axi, f"{channel}ready")),
            ]
        quarters = [bit.replicate(QUARTER_BYTES) for bit in writer.word.payload.mask]
        beat = axi.rvalid & axi.rready
        m.d.comb += [
            axi.wdata.eq(writer.word.payload.word),
            axi.wstrb.eq(Cat(*quarters)),
            axi.wlast.eq(writer.word.payload.last),
            axi.wvalid.eq(writer.word.valid),
            writer.word.ready.eq(axi.wready),
            axi.bready.eq(1),
            writer.done.eq(axi.bvalid),
            writer.failed.eq(axi.bresp != Response.OKAY),
            reader.beat.valid.eq(axi.rvalid),
            reader.beat.payload.word.eq(axi.rdata),
            reader.beat.payload.error.eq(axi.rresp != Response.OKAY),
            axi.rready.eq(reader.beat.ready),
            self.idle.eq(~reader.burst.valid & (asked == 0) & writer.idle),
        ]
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += asked.eq(asked + axi.arlen + 1 - beat)
        with m.Else():
            m.d.sync += asked.eq(asked - beat)
