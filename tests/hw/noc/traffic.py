"""A mesh with a generator and a checker at every node, all of it hardware.

A generator numbers what it sends, for every receiver apart: lane ``d`` of the word is the number
that node ``d`` is to see next from this node. The lanes of nodes outside the set are noise. The
fields are a hash of the word, so a checker sees any bit that changed.
"""

from functools import reduce
from operator import and_, xor

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from hw.noc.flit import FIELD_BITS, WORD_BITS, Flit, Kind
from hw.noc.mesh import UNITS, Mesh
from kohakutpu.config import MAX_NODES, Machine

NUMBERS = ArrayLayout(16, MAX_NODES)


class Pattern(enum.Enum, shape=2):
    """Whom the generators send to."""

    ONE = 0
    SET = 1
    ALL = 2
    MIXED = 3  # half of it to one node, a quarter to sets, a quarter to one node from everybody


class Noise(wiring.Component):
    """64 bits that look random, new every cycle."""

    def __init__(self, seed: int) -> None:
        self._seed = (seed * 0x9E3779B97F4A7C15 + 0x1234567) % (1 << 64)
        super().__init__({"o": Out(64)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = Signal(64, init=self._seed)
        x = (state ^ (state << 13))[:64]
        x ^= x >> 7
        m.d.sync += state.eq((x ^ (x << 17))[:64])
        m.d.comb += self.o.eq(state)
        return m


def fields_of(word: Value, source: int | Value) -> Value:
    parts = [word[low : low + FIELD_BITS] for low in range(0, WORD_BITS, FIELD_BITS)]
    return (reduce(xor, parts) ^ (source * Const(0x11111111111111)))[:FIELD_BITS]


class Generator(wiring.Component):
    """Send to random sets: a new flit in ``rate / 256`` of the cycles, if the last one has left."""

    def __init__(self, node: int, nodes: list[int]) -> None:
        self._node, self._nodes = node, nodes
        super().__init__(
            {
                "rate": In(9),
                "pattern": In(Pattern),
                "o": Out(stream.Signature(Flit)),
                "sent": Out(NUMBERS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.noise = noise = Noise(self._node)
        r = noise.o
        full = sum(1 << node for node in self._nodes)
        one = Signal(MAX_NODES)
        index = (r[8:16] * len(self._nodes)) >> 8
        with m.Switch(index):
            for position, node in enumerate(self._nodes):
                with m.Case(position):
                    m.d.comb += one.eq(1 << node)
        several = Mux((r[16:32] & full).any(), r[16:32] & full, full)
        hot = 1 << self._nodes[len(self._nodes) // 2]
        mixed = Mux(r[32], one, Mux(r[33], several, hot))
        dest, scramble, waiting = Signal(MAX_NODES), Signal(16), Signal()
        with m.If(~waiting | self.o.ready):
            m.d.sync += waiting.eq(r[:8] < self.rate)
            m.d.sync += scramble.eq(r[40:56])
            with m.Switch(self.pattern):
                for pattern, choice in ((0, one), (1, several), (2, full), (3, mixed)):
                    with m.Case(pattern):
                        m.d.sync += dest.eq(choice)
        word = Cat(
            (self.sent[d] ^ Mux(dest[d], 0, scramble + d * 0x1357))[:16] for d in range(MAX_NODES)
        )
        m.d.comb += [
            self.o.valid.eq(waiting),
            self.o.payload.dest.eq(dest),
            self.o.payload.source.eq(self._node),
            self.o.payload.kind.eq(Kind.DATA),
            self.o.payload.word.raw.eq(word),
            self.o.payload.fields.raw.eq(fields_of(word, self._node)),
        ]
        with m.If(self.o.valid & self.o.ready):
            for d in self._nodes:
                m.d.sync += self.sent[d].eq(self.sent[d] + dest[d])
        return m


class Checker(wiring.Component):
    """Take a flit in ``rate / 256`` of the cycles, compare it with what must come next."""

    def __init__(self, node: int) -> None:
        self._node = node
        super().__init__(
            {
                "rate": In(9),
                "i": In(stream.Signature(Flit)),
                "received": Out(NUMBERS),
                "error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.noise = noise = Noise(self._node + 100)
        m.d.comb += self.i.ready.eq(noise.o[:8] < self.rate)
        flit = self.i.payload
        number = flit.word.raw.word_select(self._node, 16)
        right = [
            number == self.received[flit.source],
            flit.dest == 1 << self._node,
            flit.kind == Kind.DATA,
            flit.fields.raw == fields_of(flit.word.raw, flit.source),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += self.received[flit.source].eq(self.received[flit.source] + 1)
            m.d.sync += self.error.eq(self.error | ~reduce(and_, right))
        # What is offered stays until it is taken.
        offered, waited = Signal(Flit), Signal()
        m.d.sync += [offered.eq(flit), waited.eq(self.i.valid & ~self.i.ready)]
        with m.If(waited & (~self.i.valid | (offered.as_value() != flit.as_value()))):
            m.d.sync += self.error.eq(1)
        return m


class Traffic(wiring.Component):
    """The mesh of a machine under fire.

    Members
    -------
    rate, pattern : In
        Of all generators.
    accept : In(9)
        How often the checkers take a flit, in 256ths of the cycles.
    slow : In(16)
        Nodes whose checkers take one flit in 16 cycles.
    moved : Out(5)
        Checkers that take one in this cycle.
    error : Out(1)
        Something arrived that was not to come next. Stays.
    balanced : Out(1)
        As many have arrived as were sent, for each pair of nodes.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "rate": In(9),
                "pattern": In(Pattern),
                "accept": In(9),
                "slow": In(MAX_NODES),
                "moved": Out(5),
                "error": Out(1),
                "balanced": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.mesh = mesh = Mesh(self._machine)
        nodes = [node.id for node in self._machine.nodes]
        generators = {
            node.id: Generator(node.id, [to for to in nodes if to != node.id or node.kind in UNITS])
            for node in self._machine.nodes
        }
        checkers = {node: Checker(node) for node in nodes}
        taking = []
        for node in nodes:
            m.submodules[f"generator_{node}"] = generator = generators[node]
            m.submodules[f"checker_{node}"] = checker = checkers[node]
            wiring.connect(m, generator.o, getattr(mesh, f"i_{node}"))
            wiring.connect(m, getattr(mesh, f"o_{node}"), checker.i)
            m.d.comb += [
                generator.rate.eq(self.rate),
                generator.pattern.eq(self.pattern),
                checker.rate.eq(Mux(self.slow[node], 16, self.accept)),
            ]
            taking.append(checker.i.valid & checker.i.ready)
        pairs = [generators[s].sent[d] == checkers[d].received[s] for s in nodes for d in nodes]
        m.d.comb += [
            self.moved.eq(sum(taking)),
            self.error.eq(Cat(checker.error for checker in checkers.values()).any()),
            self.balanced.eq(Cat(*pairs).all()),
        ]
        return m
