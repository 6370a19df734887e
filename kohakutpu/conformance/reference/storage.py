"""Memory and the storages of a unit. A cell that nobody wrote holds None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from kohakutpu.config import QUARTER_BYTES, WORD_BYTES
from kohakutpu.conformance.reference.faults import Undefined

Cell = TypeVar("Cell")
Block = tuple[tuple[int, ...], int]
"""The elements and the scale of a lane of an entry."""


class Store(Generic[Cell]):
    """Cells by address, and which of them were written.

    Attributes
    ----------
    size : int
        Cells.
    written : set of int
        Addresses written since somebody last cleared it.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.written: set[int] = set()
        self._cells: dict[int, Cell | None] = {}

    def peek(self, address: int) -> Cell | None:
        """Return a cell, None if nobody knows what it holds."""
        return self._cells.get(address)

    def read(self, address: int) -> Cell:
        """Return a cell.

        Raises
        ------
        Undefined
            If nobody wrote it.
        """
        cell = self._cells.get(address)
        if cell is None:
            raise Undefined(f"{self.name} {address} is read and was never written")
        return cell

    def write(self, address: int, cell: Cell | None) -> None:
        """Set a cell; None makes it unknown."""
        assert 0 <= address < self.size, f"{self.name} {address} is out of range, unchecked"
        self._cells[address] = cell
        self.written.add(address)

    def outside(self, addresses: Iterable[int]) -> bool:
        """Return whether an address is not one of this store."""
        return any(not 0 <= address < self.size for address in addresses)


class Memory:
    """Memory: what a test says it holds, unknown elsewhere.

    Parameters
    ----------
    words : int
        Its size.
    regions : mapping of int to bytes
        Contents by byte address; only these places may be written.

    Attributes
    ----------
    reach : int
        One past the last byte that instructions asked for, where memory has it.
    """

    def __init__(self, words: int, regions: Mapping[int, bytes]) -> None:
        self.nbytes = words * WORD_BYTES
        self.reach = 0
        self.regions = {start: bytearray(content) for start, content in regions.items()}

    def holds(self, address: int, nbytes: int) -> bool:
        """Return whether bytes from a byte address on are all within memory."""
        end = address + nbytes
        if end > self.nbytes:
            return False
        self.reach = max(self.reach, end)
        return True

    def read(self, address: int, nbytes: int) -> bytes | None:
        """Return bytes; None if a test does not say what they are."""
        for start, content in self.regions.items():
            if start <= address and address + nbytes <= start + len(content):
                return bytes(content[address - start : address - start + nbytes])
        return None

    def write_quarter(self, address: int, quarter: bytes) -> None:
        """Write the quarter at a byte address.

        Raises
        ------
        Undefined
            If the place is none of the test's: nobody would look whether it is right.
        """
        assert len(quarter) == QUARTER_BYTES, quarter
        for start, content in self.regions.items():
            if start <= address and address + QUARTER_BYTES <= start + len(content):
                content[address - start : address - start + QUARTER_BYTES] = quarter
                return
        raise Undefined(f"byte {address:#x} is written and belongs to no region of the test")
