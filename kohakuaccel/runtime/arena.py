"""Memory of a device, given out in blocks: first fit, neighbours joined again when freed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kohakuaccel.errors import Diagnostic
from kohakuaccel.source import caller


class OutOfMemory(Diagnostic, MemoryError):
    """A device has no free block that is large enough; the notes say who holds what.

    Attributes
    ----------
    wanted : int
        Bytes asked for.
    largest : int
        Bytes of the largest free block.
    """

    def __init__(self, message: str, holders: Sequence[str], wanted: int, largest: int) -> None:
        super().__init__(
            message,
            loc=caller(),
            fix="drop or unpin tensors that are no longer needed, or use smaller ones",
            notes=[(None, holder) for holder in holders],
        )
        self.wanted = wanted
        self.largest = largest


@dataclass(eq=False, slots=True)
class Block:
    """A run of bytes that has an owner: ``address`` and ``nbytes`` are whole granules."""

    address: int
    nbytes: int
    owner: str
    freed: bool = field(default=False, repr=False)


class Arena:
    """Blocks of one device's memory.

    Parameters
    ----------
    nbytes : int
        Bytes there are, from address `base`.
    granule : int
        Blocks start at, and take, whole multiples of it.
    base : int
        First address given out; a multiple of `granule`.

    Attributes
    ----------
    live : int
        Bytes in blocks that have an owner.
    peak : int
        The most `live` has been since the last `reset_peak`.
    """

    def __init__(self, nbytes: int, granule: int, base: int = 0) -> None:
        if granule <= 0 or base < 0 or base % granule or nbytes < granule or nbytes % granule:
            raise ValueError(
                f"an arena needs base and size in multiples of {granule}, not {base} and {nbytes}"
            )
        self.granule = granule
        self.capacity = nbytes
        self.live = 0
        self.peak = 0
        # Free blocks in order of address; no two touch.
        self._starts: list[int] = [base]
        self._sizes: list[int] = [nbytes]
        self._blocks: dict[int, Block] = {}

    def allocate(self, nbytes: int, owner: str) -> Block:
        """Give out a block of at least `nbytes` bytes.

        Parameters
        ----------
        nbytes : int
            At least 1.
        owner : str
            Who it is for, as an error message shall say it.

        Raises
        ------
        OutOfMemory
            If no free block is large enough.
        """
        if nbytes < 1:
            raise ValueError(f"a block has at least 1 byte, not {nbytes}")
        size = -(-nbytes // self.granule) * self.granule
        place = next((i for i, free in enumerate(self._sizes) if free >= size), None)
        if place is None:
            raise self._exhausted(nbytes, owner)
        block = Block(self._starts[place], size, owner)
        if self._sizes[place] == size:
            del self._starts[place], self._sizes[place]
        else:
            self._starts[place] += size
            self._sizes[place] -= size
        self._blocks[block.address] = block
        self.live += size
        self.peak = max(self.peak, self.live)
        return block

    def free(self, block: Block) -> None:
        """Take a block back and join it with the free blocks that touch it.

        Raises
        ------
        ValueError
            If the block is not of this arena or was freed before.
        """
        if self._blocks.get(block.address) is not block:
            state = "was freed before" if block.freed else "is not of this arena"
            raise ValueError(f"the block of {block.owner!r} at {block.address} {state}")
        del self._blocks[block.address]
        block.freed = True
        self.live -= block.nbytes
        start, size = block.address, block.nbytes
        place = bisect_left(self._starts, start)
        if place < len(self._starts) and start + size == self._starts[place]:
            size += self._sizes[place]
            del self._starts[place], self._sizes[place]
        if place and self._starts[place - 1] + self._sizes[place - 1] == start:
            self._sizes[place - 1] += size
        else:
            self._starts.insert(place, start)
            self._sizes.insert(place, size)

    @property
    def largest_free(self) -> int:
        """Bytes of the largest block that could be given out."""
        return max(self._sizes, default=0)

    @property
    def free_blocks(self) -> tuple[tuple[int, int], ...]:
        """Address and bytes of each free block, in order of address."""
        return tuple(zip(self._starts, self._sizes, strict=True))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks that have an owner, in order of address."""
        return tuple(self._blocks[address] for address in sorted(self._blocks))

    def reset_peak(self) -> None:
        """Let `peak` start again from what is live now."""
        self.peak = self.live

    def _exhausted(self, nbytes: int, owner: str) -> OutOfMemory:
        totals: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for block in self._blocks.values():
            totals[block.owner] += block.nbytes
            counts[block.owner] += 1
        top = totals.most_common(8)
        holders = [f"{counts[name]} x {name}: {size} bytes" for name, size in top]
        if len(totals) > len(top):
            rest = self.live - sum(size for _, size in top)
            holders.append(f"{len(totals) - len(top)} other owners: {rest} bytes")
        return OutOfMemory(
            f"{owner} needs {nbytes} bytes, and the largest free block has {self.largest_free}: "
            f"{self.live} of {self.capacity} bytes are taken",
            holders,
            nbytes,
            self.largest_free,
        )
