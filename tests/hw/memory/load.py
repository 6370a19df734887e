"""A mesh with its memory ports under more load than they can carry, all of it hardware.

Every unit and the control node asks both ports for as much as its credits allow, for itself and for
others, and writes without pause. Words are counted, not looked at: `tb_port` does that.
"""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from hw.memory.axi import Axi4
from hw.memory.port import MemoryPort
from hw.noc.flit import ACKED_WRITES, READ_CREDITS, Buffer, Flit, Form, Kind
from hw.noc.mesh import Mesh
from kohakutpu.config import MAX_NODES, Machine
from tests.hw.noc.traffic import Noise

COUNTS = ArrayLayout(24, MAX_NODES)


class Load(wiring.Component):
    """One node.

    Members
    -------
    rate : In(9)
        A new request in so many of 256 cycles; 0 to stop.
    accept : In(9)
        A flit is taken in so many of 256 cycles.
    asked, got : Out
        Words that this node asked memory to send to each node, and words that came here, by who
        asked.
    settled : Out(1)
        All credits and ACKs are back, and nothing waits to be sent.
    """

    def __init__(self, node: int, ports: list[int], receivers: int) -> None:
        self._node, self._ports, self._receivers = node, ports, receivers
        super().__init__(
            {
                "i": In(stream.Signature(Flit)),
                "o": Out(stream.Signature(Flit)),
                "rate": In(9),
                "accept": In(9),
                "asked": Out(COUNTS),
                "got": Out(COUNTS),
                "settled": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.noise = noise = Noise(self._node + 1)
        r = noise.o
        credits = Array(
            Signal(range(READ_CREDITS + 1), init=READ_CREDITS, name=f"credit_{n}")
            for n in range(2 * len(self._ports))
        )
        waiting = Array(
            Signal(range(ACKED_WRITES + 1), name=f"waiting_{n}") for n in range(len(self._ports))
        )
        flit = Signal(Flit)
        full = Signal()
        which = Signal(range(len(self._ports)))  # the port of the flit
        instruction = Signal()
        reads = flit.kind == Kind.READ
        class_of = Cat(instruction, which)
        read, write = flit.word.read, flit.fields.write
        may = Mux(reads, credits[class_of] != 0, ~write.ack | (waiting[which] != ACKED_WRITES))
        m.d.comb += [self.o.valid.eq(full & may), self.o.payload.eq(flit)]
        sends = self.o.valid & self.o.ready
        nodes = r[16:32] & self._receivers
        with m.If(~full | sends):
            chosen = r[60]
            m.d.sync += [
                full.eq(r[:8] < self.rate),
                which.eq(chosen),
                instruction.eq(r[9]),
                flit.source.eq(self._node),
                flit.dest.eq(1 << Array(self._ports)[chosen]),
            ]
            # A READ only where a credit is left: WRITEs must not wait for one.
            with m.If((r[10:12] == 0) & (credits[Cat(r[9], chosen)] != 0)):
                m.d.sync += [
                    flit.kind.eq(Kind.READ),
                    flit.fields.raw.eq(0),
                    read.address.eq(r[32:46]),
                    read.rows.eq(r[46:48] + 1),
                    read.elements.eq(r[48:56] + 1),
                    read.stride.eq(r[56:60]),
                    read.landing.buffer.eq(Mux(r[9], Buffer.INSTRUCTION, Buffer.VECTOR)),
                    read.landing.form.eq(Form.LINEAR),
                    read.nodes.eq(Mux(nodes.any(), nodes, self._receivers)),
                ]
            with m.Else():
                m.d.sync += [
                    flit.kind.eq(Kind.WRITE),
                    write.address.eq(Mux(r[12], write.address + 1, r[32:42])),
                    write.mask.eq(15),
                    write.ack.eq((r[13:15] == 0) & (waiting[chosen] < ACKED_WRITES - 1)),
                ]
        words = (read.elements + 15) >> 4
        with m.If(sends & reads):
            for node in range(MAX_NODES):
                grown = self.asked[node] + read.rows[:3] * words
                m.d.sync += self.asked[node].eq(Mux(read.nodes[node], grown, self.asked[node]))

        m.d.comb += self.i.ready.eq(r[56:64] < self.accept)
        arrived = self.i.payload
        takes = self.i.valid & self.i.ready
        with m.If(takes & (arrived.kind == Kind.DATA)):
            who = arrived.fields.data.requester
            m.d.sync += self.got[who].eq(self.got[who] + 1)
        for index, port in enumerate(self._ports):
            mine = takes & (arrived.source == port)
            acked = mine & (arrived.kind == Kind.ACK)
            m.d.sync += waiting[index].eq(
                waiting[index] + (sends & (which == index) & ~reads & write.ack) - acked
            )
            for kind in range(2):
                credit = credits[2 * index + kind]
                back = (
                    mine
                    & (arrived.kind == Kind.CREDIT)
                    & (arrived.fields.credit.instruction == kind)
                )
                m.d.sync += credit.eq(
                    credit + back - (sends & reads & (class_of == 2 * index + kind))
                )
        m.d.comb += self.settled.eq(
            ~full
            & Cat(credit == READ_CREDITS for credit in credits).all()
            & Cat(count == 0 for count in waiting).all()
        )
        return m


class SlowRam(wiring.Component):
    """A memory without contents. One busy bit stops all its channels, as a real one's bank does."""

    def __init__(self, address_bits: int, seed: int) -> None:
        self._seed = seed
        super().__init__({"axi": In(Axi4(address_bits)), "rate": In(9)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.noise = noise = Noise(self._seed)
        m.submodules.reads = reads = SyncFIFO(width=8, depth=16)
        axi = self.axi
        beat = Signal(8)
        offers = Signal()
        addresses, words = Signal(8), Signal(8)  # bursts without an answer, with all words
        works = noise.o[:8] < self.rate
        stuck = axi.rvalid & ~axi.rready  # then nothing else goes on either
        m.d.comb += [
            axi.arready.eq(reads.w_rdy & works & ~stuck),
            reads.w_en.eq(axi.arvalid & axi.arready),
            reads.w_data.eq(axi.arlen),
            axi.rvalid.eq(reads.r_rdy & offers),
            axi.rlast.eq(beat == reads.r_data),
            axi.awready.eq(works & ~stuck & (addresses < 100)),
            axi.wready.eq(works & ~stuck & (words < 100)),
            axi.bvalid.eq((addresses != 0) & (words != 0)),
        ]
        moves = axi.rvalid & axi.rready
        m.d.comb += reads.r_en.eq(moves & axi.rlast)
        m.d.sync += offers.eq(works | stuck)
        with m.If(moves):
            m.d.sync += beat.eq(Mux(axi.rlast, 0, beat + 1))
        answered = axi.bvalid & axi.bready
        m.d.sync += [
            addresses.eq(addresses + (axi.awvalid & axi.awready) - answered),
            words.eq(words + (axi.wvalid & axi.wready & axi.wlast) - answered),
        ]
        return m


class LoadedMachine(wiring.Component):
    """The mesh of a machine, its memory ports, a `Load` at every other node.

    Members
    -------
    rate, accept, memory : In(9)
        Requests, flits taken, and how often memory works, in 256ths of the cycles.
    moved : Out(4)
        Nodes that take a flit in this cycle.
    settled : Out(1)
        Every word, credit and ACK has come, and the ports are idle.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "rate": In(9),
                "accept": In(9),
                "memory": In(9),
                "moved": Out(4),
                "settled": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        machine = self._machine
        m.submodules.mesh = mesh = Mesh(machine)
        ports = [node.id for node in machine.of_kind("M")]
        others = [node.id for node in machine.nodes if node.kind != "M"]
        conditions, taking, loads = [], [], {}
        for node in ports:
            m.submodules[f"port_{node}"] = port = MemoryPort(machine, node)
            m.submodules[f"ram_{node}"] = ram = SlowRam(port.address_bits, node + 50)
            wiring.connect(m, getattr(mesh, f"o_{node}"), port.i)
            wiring.connect(m, port.o, getattr(mesh, f"i_{node}"))
            wiring.connect(m, port.axi, ram.axi)
            m.d.comb += ram.rate.eq(self.memory)
            conditions.append(port.idle)
        for node in others:
            load = Load(node, ports, sum(1 << other for other in others))
            m.submodules[f"load_{node}"] = loads[node] = load
            wiring.connect(m, getattr(mesh, f"o_{node}"), load.i)
            wiring.connect(m, load.o, getattr(mesh, f"i_{node}"))
            m.d.comb += [load.rate.eq(self.rate), load.accept.eq(self.accept)]
            conditions.append(load.settled)
            taking.append(load.i.valid & load.i.ready)
        conditions += [loads[s].asked[d] == loads[d].got[s] for s in others for d in others]
        m.d.comb += [self.moved.eq(sum(taking)), self.settled.eq(Cat(*conditions).all())]
        return m
