"""The transfer engines of a vector core: VFILL and VDRAIN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu import costs
from kohakutpu.config import LANES, QUARTER_BYTES, Machine
from kohakutpu.costs import Work
from kohakutpu.isa import Instruction
from kohakutpu.model.deferred import Deferred
from kohakutpu.model.held import HeldStorage
from kohakutpu.model.operation import Operation, address_of, extent_of, receivers
from kohakutpu.model.storage import DTYPES, Storage
from kohakutpu.model.transfer import SUBTILE, Target
from kohakutpu.model.window import Window

if TYPE_CHECKING:
    from kohakutpu.model.unit import Unit

SIZES = {"fp16": 2, "fp32": 4}


class Windows:
    """The L1 windows of an instruction at its various bases, checked once each."""

    __slots__ = ("_at", "_shape")

    def __init__(self, stride: int, rows: int, cols: int, size: int) -> None:
        self._shape = stride, rows, cols, size
        self._at: dict[int, Window] = {}

    def at(self, base: int, storage: Storage) -> Window:
        """Return the window at `base`.

        Raises
        ------
        Violation
            ``L1_RANGE`` if it leaves `storage`; all vector cores are alike.
        """
        window = self._at.get(base)
        if window is None:
            window = Window(base, *self._shape)
            storage.check(window)
            if len(self._at) >= 64:  # a ring of buffers has few places
                self._at.clear()
            self._at[base] = window
        return window


class VFill(Operation):
    """``VFILL``: rows of memory into the L1 of some vector cores."""

    __slots__ = ("nodes", "own", "stride", "windows")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.latency = costs.READ
        self.stride: int = instruction.stride
        self.windows = Windows(
            instruction.l1_stride, instruction.rows, instruction.cols, SIZES[instruction.format]
        )
        self.own = instruction.nodes == 0
        self.nodes = () if self.own else receivers(instruction.nodes, "V", machine, None)
        l1, mem = address_of(instruction.l1), address_of(instruction.mem)
        rows = extent_of(instruction.row_extent, instruction.rows)
        cols = extent_of(instruction.col_extent, instruction.cols)
        self.resolve = lambda a: (l1(a), mem(a), rows(a), cols(a))

    def run(self, unit: Unit, args: tuple[int, int, int, int]) -> Work:
        """See `Operation.run`."""
        l1, mem, rows, cols = args
        window = self.windows.at(l1, unit.l1)
        shape, size = (window.rows, window.cols), window.size
        fetched = 0
        if rows and cols:
            found = unit.memory.load(mem, rows, self.stride, cols * size).view(DTYPES[size])
            fetched = rows * costs.span(mem, cols, size)
            if (rows, cols) == shape:
                values = found.copy()
            else:
                values = np.zeros(shape, found.dtype)
                values[:rows, :cols] = found
        else:
            values = np.zeros(shape, DTYPES[size])
        targets = [unit] if self.own else [unit.network[node] for node in self.nodes]
        for target in targets:
            target.l1.put(window, values)
        if unit in targets and rows and cols:
            landed = rows * costs.words(cols, size)
            unit.read_words += landed
            unit.noc_words += landed
        return costs.vfill(window.rows * costs.words(window.cols, size), fetched)


class VDrain(Operation):
    """``VDRAIN``: a window of L1 to memory or to other units."""

    __slots__ = ("cols", "rows", "target", "tile_order", "windows")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        super().__init__(instruction, machine)
        self.rows: int = instruction.rows
        self.cols: int = instruction.cols
        self.tile_order: bool = instruction.order == "tile"
        self.target = Target(instruction, machine)
        self.latency = self.target.latency
        size, stride = self.target.size, instruction.l1_stride
        if self.tile_order:
            self.windows = Windows(stride, self.rows // LANES, self.cols * LANES, size)
        else:
            # To memory, the elements that complete the last quarter go along.
            whole = QUARTER_BYTES // size if self.target.to_memory else 1
            self.windows = Windows(stride, self.rows, -(-self.cols // whole) * whole, size)
        l1, mem = address_of(instruction.l1), address_of(instruction.mem)
        rows = extent_of(instruction.row_extent, self.rows)
        cols = extent_of(instruction.col_extent, self.cols)
        self.resolve = lambda a: (l1(a), mem(a), rows(a), cols(a))

    def run(self, unit: Unit, args: tuple[int, int, int, int]) -> Work:
        """See `Operation.run`."""
        l1, mem, rows, cols = args
        target = self.target
        window = self.windows.at(l1, unit.l1)
        target.check_rows(unit, mem, self.rows, self.cols, window)
        data: NDArray[Any] | Deferred
        if self.tile_order:
            tile = unit.l1.get(window, -(-rows // LANES), -(-cols // LANES) * SUBTILE)
            parts = tile.reshape(window.rows, -1, LANES, LANES).transpose(0, 2, 1, 3)
            data = parts.reshape(self.rows, self.cols)
        else:
            held = unit.l1.peek(window) if isinstance(unit.l1, HeldStorage) else None
            if target.to_memory and type(held) is Deferred and held.value is None:
                data = held  # worked out with others, on its way
            else:
                data = unit.l1.get(window, rows, cols)
        sent = target.send_rows(unit, mem, data, rows, cols)
        window_words = self.rows * costs.words(self.cols, target.size)
        return costs.vdrain(unit.machine, window_words, sent, target.to)
