"""A datapath that stands for a real one: it moves one word and takes its time."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from hw.common.interfaces import Datapath, tag
from hw.noc.flit import WORD_BITS, Buffer, Cause, Form, Kind
from kohakutpu.config import Machine, Node


class Dummy(wiring.Component):
    """Engine 0 reads the word at `mem` into every receiver's one register; engine 2 writes it.

    Engine 1 takes as many cycles as its first operand of counts says; 1000 or more is a fault.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._kind = node.kind
        super().__init__(Datapath(self._kind))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = Signal(WORD_BITS)
        landing = self.landing.payload.fields.data
        m.d.comb += [
            self.landing.ready.eq(1),
            self.landed.valid.eq(self.landing.valid & landing.ack),
            self.landed.requester.eq(landing.requester),
            self.landed.tag.eq(landing.tag),
        ]
        with m.If(self.landing.valid):
            m.d.sync += word.eq(self.landing.payload.word.raw)
        self._read(m)
        self._count(m)
        self._write(m, word)
        return m

    def _read(self, m: Module) -> None:
        engine, sent, heard = self.engine_0, Signal(), Signal(16)
        i, flit = engine.i.payload, engine.o.payload
        request = flit.word.read
        m.d.comb += [
            engine.o.valid.eq(engine.i.valid & ~sent),
            flit.kind.eq(Kind.READ),
            request.address.eq(i.mem),
            request.rows.eq(1),
            request.elements.eq(16),
            request.landing.buffer.eq(Buffer.VECTOR if self._kind == "V" else Buffer.L1A),
            request.landing.form.eq(Form.LINEAR),
            request.nodes.eq(i.nodes),
            request.ack.eq(1),
            request.tag.eq(tag(0, 1)),
            request.pc.eq(i.pc),
            engine.done.eq(sent & (heard == i.nodes)),
            engine.i.ready.eq(engine.done),
            engine.step.eq(engine.o.valid & engine.o.ready),
        ]
        with m.If(engine.o.valid & engine.o.ready):
            m.d.sync += sent.eq(1)
        with m.If(engine.ack.valid & engine.ack.tag):
            m.d.sync += heard.eq(heard | 1 << engine.ack.source)
        with m.If(engine.done):
            m.d.sync += [sent.eq(0), heard.eq(0)]

    def _count(self, m: Module) -> None:
        engine, left = self.engine_1, Signal(12)
        i = engine.i.payload
        count = i.rows if self._kind == "V" else i.gm
        running = Signal()
        m.d.comb += engine.i.ready.eq(~running & (count < 1000))
        m.d.comb += engine.fault.valid.eq(engine.i.valid & (count >= 1000) & ~running)
        m.d.comb += [engine.fault.cause.eq(Cause.L1_RANGE), engine.fault.pc.eq(i.pc)]
        m.d.comb += engine.done.eq(running & (left == 0))
        m.d.comb += engine.step.eq(running)
        m.d.sync += left.eq(Mux(engine.i.valid & engine.i.ready, count - 1, left - 1))
        with m.If(engine.i.valid & engine.i.ready):
            m.d.sync += running.eq(1)
        with m.Elif(engine.done):
            m.d.sync += running.eq(0)

    def _write(self, m: Module, word: Signal) -> None:
        engine, sent = self.engine_2, Signal()
        i, flit = engine.i.payload, engine.o.payload
        fields = flit.fields.write
        m.d.comb += [
            engine.o.valid.eq(engine.i.valid & ~sent),
            flit.kind.eq(Kind.WRITE),
            fields.address.eq(i.mem >> 2),
            fields.mask.eq(15),
            fields.ack.eq(1),
            fields.tag.eq(tag(2, 0)),
            fields.pc.eq(i.pc),
            flit.word.raw.eq(word),
            engine.done.eq(engine.ack.valid & ~engine.ack.tag),
            engine.i.ready.eq(engine.done),
            engine.step.eq(engine.o.valid & engine.o.ready),
        ]
        with m.If(engine.o.valid & engine.o.ready):
            m.d.sync += sent.eq(1)
        with m.If(engine.done):
            m.d.sync += sent.eq(0)
