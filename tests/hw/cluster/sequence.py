"""Random instructions of a cluster, and which of them may overlap."""

from random import Random
from typing import Any

from kohakutpu.config import Machine
from kohakutpu.isa import DRAIN, FILL, GEMM, Address, Extent, Flag

READABLE = 4096  # words of memory from 0 on that nobody writes
KINDS = [FILL, FILL, GEMM, GEMM, DRAIN]

Resources = set[tuple[Any, ...]]


def image(random: Random, words: int) -> bytearray:
    """Return memory full of FP16 numbers of one magnitude a word, a few specials among them."""
    data = bytearray()
    for _ in range(words):
        top = random.randint(8, 22)
        special = random.random() < 0.002
        for element in range(16):
            code = random.getrandbits(1) << 15 | (top - random.randint(0, 6)) << 10
            code |= random.getrandbits(10)
            if special and element == 3:
                code = 0x7C00
            data += code.to_bytes(2, "little")
    return data


class Sequence:
    """Draw instructions.

    Parameters
    ----------
    machine : Machine
        With clusters and vector cores besides `node`.
    node : int
        The cluster whose instructions they are.
    """

    def __init__(self, random: Random, machine: Machine, node: int) -> None:
        self.random, self.machine, self.node = random, machine, node
        self.clusters = [n.id for n in machine.of_kind("C")]
        self.vectors = [n.id for n in machine.of_kind("V")]

    def draw(self) -> Any:
        record = self.random.choice(KINDS)
        return {"FILL": self.fill, "GEMM": self.gemm, "DRAIN": self.drain}[record.name]()

    def _subset(self, nodes: list[int]) -> int:
        chosen = [node for node in nodes if self.random.getrandbits(1)]
        return sum(1 << node for node in chosen or [self.random.choice(nodes)])

    def _base(self, last: int, size: int) -> int:
        """Return a base so that `last` more fit; often so that they just do."""
        free = size - last
        return self.random.choice([0, free, self.random.randint(0, free)])

    def fill(self) -> Any:
        random = self.random
        g, nk = random.choice([1, 2, 4, random.randint(1, 7)]), random.randint(1, 4)
        l1_stride = random.choice([nk, nk, nk + random.randint(0, 5), random.randint(0, nk)])
        mode = random.choice(["fp16", "fp16", "residual", "packed"])
        transpose = mode != "packed" and random.random() < 0.4
        rows = random.choice([4 * g, random.randint(0, 4 * g), 4 * g + 3])
        k = random.choice([32 * nk, random.randint(0, 32 * nk), 32 * nk + 1])
        row_words = -(-(4 * g if transpose else 32 * nk) // 16)
        stride = random.choice([0, row_words, row_words + random.randint(0, 5)])
        if mode == "packed":
            stride = rows = k = 0
        lines = 1 + max(4 * g, 32 * nk)
        needed = lines * stride + 8 * g * nk + row_words + 2
        return FILL(
            buffer=random.choice("AB"),
            l1=Address(0, self._base((g - 1) * l1_stride + nk, self.machine.l1_entries)),
            l1_stride=l1_stride,
            mem=Address(0, 4 * random.randint(0, READABLE - needed)),
            stride=stride, g=g, nk=nk, rows=Extent(rows, 0), k=Extent(k, 0), mode=mode,
            transpose=transpose,
            nodes=random.choice([0, 0, self._subset(self.clusters)]),
        )  # fmt: skip

    def gemm(self) -> Any:
        random = self.random
        gm, gn, nk = (random.choice([1, 1, 2, random.randint(1, 6)]) for _ in range(3))
        a_stride = random.choice([0, nk, random.randint(0, 9)])
        b_stride = random.choice([0, nk, random.randint(0, 9)])
        entries = self.machine.l1_entries
        acc = random.choice([0, 1, self._base(gm * gn, self.machine.acc_subtiles)])
        return GEMM(
            a=Address(0, self._base((gm - 1) * a_stride + nk, entries)),
            b=Address(0, self._base((gn - 1) * b_stride + nk, entries)),
            acc=Address(0, acc), gm=gm, gn=gn, nk=nk, a_stride=a_stride, b_stride=b_stride,
            accumulate=Flag(random.random() < 0.7, 0),
        )  # fmt: skip

    def drain(self) -> Any:
        random = self.random
        gm, gn = random.randint(1, 5), random.choice([random.randint(1, 9), 4, 8])
        if random.random() < 0.25:  # several windows of a row
            gm, gn = random.randint(1, 2), random.randint(15, 40)
        form = random.choice(["fp16", "fp16", "fp32"])
        order = random.choice(["row", "row", "tile"])
        to = random.choice(["memory", "memory", "node"])
        rows = random.choice([4 * gm, random.randint(0, 4 * gm), 4 * gm + 9])
        cols = random.choice([4 * gn, random.randint(0, 4 * gn), 4 * gn + 9])
        size, per_tile = (2, 1) if form == "fp16" else (4, 2)
        buffer, nodes, residual = "vector", 0, False
        if to == "memory":
            words = -(-4 * gn * size // 32) + 1 if order == "row" else per_tile * gn
            stride = words + random.randint(0, 3)
            lines = 4 * gm if order == "row" else gm
            low, high = 4 * READABLE, 4 * (self.machine.dram_words - lines * stride - 1)
            mem = random.randint(low, high)
            if order == "tile":
                mem, rows, cols = mem // 4 * 4, 0, 0
        else:
            buffer = random.choice(["vector", "l1a", "l1b"])
            if buffer == "vector":
                nodes = self._subset(self.vectors)
                words = -(-4 * gn * size // 32) if order == "row" else per_tile * gn
                lines, room = (4 * gm if order == "row" else gm), self.machine.vl1_words
            else:
                form, order = "fp16", "row"
                nodes, residual = self._subset(self.clusters), bool(random.getrandbits(1))
                words, lines, room = -(-gn // 8), gm, self.machine.l1_entries
            stride = words + random.choice([0, 0, random.randint(0, 3)])
            mem = self._base((lines - 1) * stride + words, room)
        return DRAIN(
            acc=Address(0, self._base(gm * gn, self.machine.acc_subtiles)), gm=gm, gn=gn, to=to,
            mem=Address(0, mem), stride=stride, rows=Extent(rows, 0), cols=Extent(cols, 0),
            format=form, order=order, nodes=nodes, buffer=buffer, residual=residual,
        )  # fmt: skip

    def uses(self, i: Any) -> tuple[Resources, Resources]:
        """Return what an instruction reads and what it writes."""
        own = self.node
        if i.name == "FILL":
            nodes = i.nodes or 1 << own
            written = {
                (node, i.buffer, i.l1.imm + g * i.l1_stride + kb)
                for node in self.clusters if nodes >> node & 1
                for g in range(i.g) for kb in range(i.nk)
            }  # fmt: skip
            return set(), written
        tile = {("acc", i.acc.imm + n) for n in range(i.gm * i.gn)}
        if i.name == "GEMM":
            read: Resources = set(tile) if i.accumulate.imm else set()
            for buffer, base, stride, count in (
                ("A", i.a.imm, i.a_stride, i.gm), ("B", i.b.imm, i.b_stride, i.gn)
            ):  # fmt: skip
                read |= {
                    (own, buffer, base + g * stride + kb)
                    for g in range(count)
                    for kb in range(i.nk)
                }
            return read, set(tile)
        written = set()
        if i.buffer != "vector":
            written = {
                (node, i.buffer[2:].upper(), i.mem.imm + g * i.stride + n)
                for node in self.clusters if i.nodes >> node & 1
                for g in range(i.gm) for n in range(-(-i.gn // 8))
            }  # fmt: skip
        return set(tile), written
