"""The transfer engines of a vector core: VFILL and VDRAIN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu import costs
from kohakutpu.config import LANES, Machine
from kohakutpu.costs import Work
from kohakutpu.isa import Instruction
from kohakutpu.model.operation import Operation, address_of, extent_of, receivers
from kohakutpu.model.storage import DTYPES
from kohakutpu.model.transfer import SUBTILE, Target
from kohakutpu.model.window import Window

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit

SIZES = {"fp16": 2, "fp32": 4}


class VFill(Operation):
    """``VFILL``: rows of memory into the L1 of some vector cores."""

    __slots__ = ("cols", "l1_stride", "nodes", "own", "rows", "size", "stride")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.latency = costs.READ
        self.rows: int = instruction.rows
        self.cols: int = instruction.cols
        self.stride: int = instruction.stride
        self.l1_stride: int = instruction.l1_stride
        self.size = SIZES[instruction.format]
        self.own = instruction.nodes == 0
        self.nodes = () if self.own else receivers(instruction.nodes, "V", machine, None)
        l1, mem = address_of(instruction.l1), address_of(instruction.mem)
        rows = extent_of(instruction.row_extent, self.rows)
        cols = extent_of(instruction.col_extent, self.cols)
        self.resolve = lambda a: (l1(a), mem(a), rows(a), cols(a))

    def run(self, unit: Unit, args: tuple[int, int, int, int]) -> Work:
        """See `Operation.run`."""
        l1, mem, rows, cols = args
        window = Window(l1, self.l1_stride, self.rows, self.cols, self.size)
        targets = [unit] if self.own else [unit.network[node] for node in self.nodes]
        for target in targets:
            target.l1.check(window)
        dtype = DTYPES[self.size]
        fetched = 0
        if rows and cols:
            found = unit.memory.load(mem, rows, self.stride, cols * self.size).view(dtype)
            fetched = rows * costs.span(mem, cols, self.size)
        else:
            found = np.zeros((rows, cols), dtype)
        if (rows, cols) == (self.rows, self.cols):
            values = found.copy()
        else:
            values = np.zeros((self.rows, self.cols), dtype)
            values[:rows, :cols] = found
        for target in targets:
            target.l1.put(window, values)
        unit.read_words += fetched
        unit.noc_words += fetched
        return costs.vfill(self.rows * costs.words(self.cols, self.size), fetched)


class VDrain(Operation):
    """``VDRAIN``: a window of L1 to memory or to other units."""

    __slots__ = ("cols", "l1_stride", "rows", "target", "tile_order")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.rows: int = instruction.rows
        self.cols: int = instruction.cols
        self.l1_stride: int = instruction.l1_stride
        self.tile_order: bool = instruction.order == "tile"
        self.target = Target(instruction, machine)
        self.latency = self.target.latency
        l1, mem = address_of(instruction.l1), address_of(instruction.mem)
        rows = extent_of(instruction.row_extent, self.rows)
        cols = extent_of(instruction.col_extent, self.cols)
        self.resolve = lambda a: (l1(a), mem(a), rows(a), cols(a))

    def run(self, unit: Unit, args: tuple[int, int, int, int]) -> Work:
        """See `Operation.run`."""
        l1, mem, rows, cols = args
        target = self.target
        data: NDArray[Any]
        if self.tile_order:
            gm, gn = self.rows // LANES, self.cols // LANES
            window = Window(l1, self.l1_stride, gm, gn * SUBTILE, target.size)
            unit.l1.check(window)
            target.check_rows(unit, mem, self.rows, self.cols)
            held = unit.l1.get(window, -(-rows // LANES), -(-cols // LANES) * SUBTILE)
            parts = held.reshape(gm, gn, LANES, LANES).transpose(0, 2, 1, 3)
            data = parts.reshape(self.rows, self.cols)
        else:
            # To memory, the elements that complete the last quarter go along.
            whole = 8 // target.size if target.to_memory else 1
            width = -(-self.cols // whole) * whole
            window = Window(l1, self.l1_stride, self.rows, width, target.size)
            unit.l1.check(window)
            target.check_rows(unit, mem, self.rows, self.cols)
            data = unit.l1.get(window, rows, cols)
        sent = target.send_rows(unit, mem, data, rows, cols)
        window_words = self.rows * costs.words(self.cols, target.size)
        return costs.vdrain(window_words, sent, target.to_memory)
