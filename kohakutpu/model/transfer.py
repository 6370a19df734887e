"""Where `DRAIN` and `VDRAIN` send rows: memory, or a buffer of other units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kohakutpu import costs
from kohakutpu.config import KBLOCK, LANES, QUARTER_BYTES, QUARTERS_PER_WORD, WORD_BYTES, Machine
from kohakutpu.isa import Instruction
from kohakutpu.model.deferred import Deferred
from kohakutpu.model.entries import Region
from kohakutpu.model.faults import Violation
from kohakutpu.model.operation import receivers
from kohakutpu.model.pending import PendingMemory
from kohakutpu.model.window import Window, end
from kohakutpu.numerics import mx

if TYPE_CHECKING:
    from kohakutpu.model.entries import Entries
    from kohakutpu.model.unit import Unit

HALF = WORD_BYTES // 2  # FP16 elements of a word
SUBTILE = LANES * LANES
TO = {"vector": "vector", "l1a": "cluster", "l1b": "cluster"}


class Target:
    """The static part of an instruction that sends rows: `to`, `nodes`, `buffer`, `stride`.

    Attributes
    ----------
    to : str
        Where rows go, as costs tell: ``"memory"``, ``"vector"`` or ``"cluster"``.
    to_memory : bool
        Rows go to memory.
    latency : int
        Cycles from the last word sent to the posts.

    Raises
    ------
    Violation
        ``ILLEGAL`` if a receiver is no unit that has the buffer.
    """

    __slots__ = ("buffer", "latency", "nodes", "residual", "size", "stride", "to", "to_memory")

    def __init__(self, instruction: Instruction, machine: Machine) -> None:
        self.to_memory: bool = instruction.to == "memory"
        self.buffer: str = instruction.buffer
        self.residual: bool = instruction.residual
        self.stride: int = instruction.stride
        self.size = 2 if instruction.format == "fp16" else 4
        self.latency = costs.WRITE if self.to_memory else costs.TRANSFER
        self.to = "memory" if self.to_memory else TO[self.buffer]
        self.nodes: tuple[int, ...] = ()
        if not self.to_memory:
            kind = "V" if self.buffer == "vector" else "C"
            self.nodes = receivers(instruction.nodes, kind, machine, None)

    def check_rows(
        self, unit: Unit, mem: int, rows: int, cols: int, source: Window | None = None
    ) -> None:
        """Check that ``rows x cols`` elements fit the receivers.

        Parameters
        ----------
        unit : Unit
            The sender.
        mem : int
            Where they land.
        rows, cols : int
            How many there are.
        source : Window, optional
            What is read of the sender's vector L1.

        Raises
        ------
        Violation
            ``L1_RANGE`` if they do not, ``OVERLAP`` if they land between the first and the last
            word that is read.
        """
        for node in self.nodes:
            receiver = unit.network[node]
            if self.buffer == "vector":
                window = Window(mem, self.stride, rows, cols, self.size)
                receiver.l1.check(window)
                if receiver is unit and source is not None:
                    _apart(source, window)
            else:
                blocks = -(-cols // KBLOCK)
                self._entries(receiver).check(mem, self.stride, -(-rows // LANES), blocks)

    def send_rows(
        self, unit: Unit, mem: int, data: NDArray[Any] | Deferred, rows: int, cols: int
    ) -> int:
        """Send rows in row order and return how many words left the unit.

        Parameters
        ----------
        unit : Unit
            The sender.
        mem : int
            Memory quarter, L1 word or entry, resolved and checked.
        data : ndarray or Deferred
            The whole window, ``[all rows, all columns]``: FP16 codes or FP32.
        rows, cols : int
            The extents.
        """
        if self.to_memory:
            if rows == 0 or cols == 0:
                return 0
            per_quarter = QUARTER_BYTES // self.size
            kept = -(-cols // per_quarter) * per_quarter
            if type(data) is Deferred:
                assert isinstance(unit.memory, PendingMemory)
                unit.memory.store_later(mem, self.stride, data, rows, kept, self.size)
            else:
                unit.memory.store(mem, self.stride, data[:rows, :kept])
            sent = rows * costs.span(mem, kept, self.size)
            unit.written_words += sent
        else:
            if type(data) is Deferred:
                data = data.force()
            sending = masked(data, rows, cols)
            sent = len(data) * costs.words(data.shape[1], self.size)
            if self.buffer == "vector":
                window = Window(mem, self.stride, len(data), data.shape[1], self.size)
                for node in self.nodes:
                    unit.network[node].l1.put(window, sending)
            else:
                region = quantised(sending, self.residual)
                for node in self.nodes:
                    self._entries(unit.network[node]).write(mem, self.stride, region)
        unit.noc_words += sent
        return sent

    def _entries(self, receiver: Unit) -> Entries:
        return receiver.l1a if self.buffer == "l1a" else receiver.l1b


def _apart(source: Window, target: Window) -> None:
    source_end, target_end = end(source, WORD_BYTES), end(target, WORD_BYTES)
    if target.base < source_end and source.base < target_end:
        raise Violation(
            "OVERLAP",
            f"words {target.base} to {target_end - 1} of the own L1 are written while words "
            f"{source.base} to {source_end - 1} are read",
            written=target.base,
            read=source.base,
        )


def masked(data: NDArray[Any], rows: int, cols: int) -> NDArray[Any]:
    """Return `data` with zeros at and past the extents; itself if there are none."""
    if rows >= data.shape[0] and cols >= data.shape[1]:
        return data
    result = np.zeros_like(data)
    result[:rows, :cols] = data[:rows, :cols]
    return result


def quantised(codes: NDArray[np.uint16], residual: bool) -> Region:
    """Quantise rows of FP16 codes, each completed with zeros to whole blocks of 32."""
    rows, cols = codes.shape
    blocks = -(-cols // KBLOCK)
    if cols != blocks * KBLOCK:
        whole = np.zeros((rows, blocks * KBLOCK), np.uint16)
        whole[:, :cols] = codes
        codes = whole
    return Region(*mx.quantise(codes, residual))


def require_word(mem: int, name: str) -> None:
    """Check that a quarter address is the start of a word.

    Raises
    ------
    Violation
        ``MISALIGNED`` if it is not.
    """
    if mem % QUARTERS_PER_WORD:
        raise Violation(
            "MISALIGNED",
            f"{name} needs a word aligned address, and quarter {mem} is {mem % QUARTERS_PER_WORD} "
            "quarters into a word",
            mem=mem,
        )
