"""The engines of a cluster: FILL, GEMM, DRAIN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from kohakutpu import costs
from kohakutpu.config import KBLOCK, LANES, Machine
from kohakutpu.costs import Work
from kohakutpu.isa import Extent, Flag, Instruction
from kohakutpu.model.loader import Pattern
from kohakutpu.model.operation import Operation, address_of, extent_of, receivers
from kohakutpu.model.transfer import SUBTILE, Target, masked, require_word
from kohakutpu.numerics import fp16, fp32, mx

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit


class Fill(Operation):
    """``FILL``: a region of memory into L1A or L1B of some clusters."""

    __slots__ = ("in_a", "l1_stride", "nodes", "own", "pattern")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.latency = costs.latency(machine, costs.READ)
        self.in_a: bool = instruction.buffer == "A"
        self.l1_stride: int = instruction.l1_stride
        self.pattern = pattern = Pattern(
            instruction.mode, instruction.transpose, instruction.stride, instruction.g,
            instruction.nk,
        )  # fmt: skip
        self.own = instruction.nodes == 0
        self.nodes = () if self.own else receivers(instruction.nodes, "C", machine, None)
        l1, mem = address_of(instruction.l1), address_of(instruction.mem)
        rows = extent_of(instruction.rows, pattern.g * LANES)
        k = extent_of(instruction.k, pattern.nk * KBLOCK)
        self.resolve = lambda a: (l1(a), mem(a), rows(a), k(a))

    def run(self, unit: Unit, args: tuple[int, int, int, int]) -> Work:
        """See `Operation.run`."""
        l1, mem, rows, k = args
        pattern = self.pattern
        require_word(mem, self.name)
        targets = [unit] if self.own else [unit.network[node] for node in self.nodes]
        buffers = [target.l1a if self.in_a else target.l1b for target in targets]
        for buffer in buffers:
            buffer.check(l1, self.l1_stride, pattern.g, pattern.nk)
        region = unit.loader.load(unit.memory, pattern, mem, rows, k)
        for buffer in buffers:
            buffer.write(l1, self.l1_stride, region)
        work = costs.fill(
            unit.machine, pattern.g, pattern.nk, rows, k, pattern.mode, pattern.transpose
        )
        if unit in targets:
            unit.read_words += work.port
            unit.noc_words += work.port
        return work


class Gemm(Operation):
    """``GEMM``: two regions into a tile."""

    __slots__ = ("a_stride", "b_stride", "gm", "gn", "macs", "nk", "work")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.latency = costs.latency(machine, costs.GEMM)
        self.gm: int = instruction.gm
        self.gn: int = instruction.gn
        self.nk: int = instruction.nk
        self.a_stride: int = instruction.a_stride
        self.b_stride: int = instruction.b_stride
        self.work = costs.gemm(machine, self.gm, self.gn, self.nk)
        self.macs = self.gm * self.gn * self.nk * SUBTILE * KBLOCK
        a, b = address_of(instruction.a), address_of(instruction.b)
        acc = address_of(instruction.acc)
        flag: Flag = instruction.accumulate
        self.resolve = lambda r: (a(r), b(r), acc(r), flag.imm or r[flag.reg] != 0)

    def run(self, unit: Unit, args: tuple[int, int, int, bool]) -> Work:
        """See `Operation.run`."""
        a, b, acc, accumulate = args
        gm, gn, nk = self.gm, self.gn, self.nk
        unit.l1a.check(a, self.a_stride, gm, nk)
        unit.l1b.check(b, self.b_stride, gn, nk)
        unit.acc.check(acc, gm, gn)
        left = unit.l1a.read(a, self.a_stride, gm, nk)
        right = unit.l1b.read(b, self.b_stride, gn, nk)
        tile = unit.acc.read(acc, gm, gn) if accumulate else None
        unit.acc.write(acc, gm, gn, mx.gemm(left, right, tile))
        unit.macs += self.macs
        return self.work


class Drain(Operation):
    """``DRAIN``: a tile to memory or to other units."""

    __slots__ = ("gm", "gn", "target", "tile_order")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.gm: int = instruction.gm
        self.gn: int = instruction.gn
        self.tile_order: bool = instruction.order == "tile"
        self.target = Target(instruction, machine)
        self.latency = costs.latency(machine, self.target.latency)
        acc, mem = address_of(instruction.acc), address_of(instruction.mem)
        rows, cols = instruction.rows, instruction.cols
        if self.target.to_memory and self.tile_order:  # no extents: the whole tile
            rows, cols = Extent(self.gm * LANES, 0), Extent(self.gn * LANES, 0)
        down, across = extent_of(rows, self.gm * LANES), extent_of(cols, self.gn * LANES)
        self.resolve = lambda a: (acc(a), mem(a), down(a), across(a))

    def run(self, unit: Unit, args: tuple[int, int, int, int]) -> Work:
        """See `Operation.run`."""
        acc, mem, rows, cols = args
        gm, gn, target = self.gm, self.gn, self.target
        unit.acc.check(acc, gm, gn)
        if self.tile_order:
            if target.to_memory:
                require_word(mem, self.name)
            target.check_rows(unit, mem, gm, gn * SUBTILE)
        else:
            target.check_rows(unit, mem, gm * LANES, gn * LANES)
        data: NDArray[Any] = unit.acc.read(acc, gm, gn, -(-rows // LANES), -(-cols // LANES))
        data = fp16.from_fp32(data) if target.size == 2 else fp32.canonical(data)
        if self.tile_order:
            if not target.to_memory:
                data = masked(data, rows, cols)
            parts = data.reshape(gm, LANES, gn, LANES).transpose(0, 2, 1, 3)
            data = parts.reshape(gm, gn * SUBTILE)
            rows, cols = data.shape
        sent = target.send_rows(unit, mem, data, rows, cols)
        return costs.drain(unit.machine, gm, gn, target.size, sent, target.to)
