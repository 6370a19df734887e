"""Counters of a device, as attributes and as a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kohakuaccel.runtime.device import EngineReport


@dataclass(frozen=True)
class Memory:
    """Device memory in bytes.

    Attributes
    ----------
    live : int
        Held by tensors.
    used : int
        Held by tensors, programs and constants.
    peak : int
        The most that was used at once, temporaries of running kernels included.
    pinned : int
        Held by pinned tensors; part of `live`.
    capacity : int
        What there is.
    """

    live: int
    used: int
    peak: int
    pinned: int
    capacity: int


@dataclass(frozen=True)
class Stats:
    """What a device has done since its counters were last reset.

    Attributes
    ----------
    device, machine : str
        Which one.
    dispatches : int
        Kernels run.
    fused : int
        Operations of tensors that ran as part of another's kernel.
    instructions, cycles, macs : int
        Executed by all units; of the machine from start to end of each run; multiply-accumulates,
        padding included.
    memory_read, memory_written, noc : int
        Words (32 bytes) read from device memory, written to it, carried by the network.
    engines : mapping of str to EngineReport
        Busy and stalled cycles of each kind of engine, all units together.
    memory : Memory
        Bytes of device memory.
    compiles, cache_hits : int
        Kernels compiled, and calls that found theirs compiled, in the whole process.
    """

    device: str
    machine: str
    dispatches: int
    instructions: int
    cycles: int
    macs: int
    memory_read: int
    memory_written: int
    noc: int
    engines: Mapping[str, EngineReport]
    memory: Memory
    compiles: int
    cache_hits: int
    fused: int = 0

    def __str__(self) -> str:
        rows = [
            ("device", f"{self.device}, machine {self.machine}"),
            ("dispatches", f"{self.dispatches:,}"),
            ("fused into them", f"{self.fused:,} operations"),
            ("instructions", f"{self.instructions:,}"),
            ("cycles", f"{self.cycles:,}"),
            ("MACs", f"{self.macs:,}"),
            ("memory read", words(self.memory_read)),
            ("memory written", words(self.memory_written)),
            ("over the NoC", words(self.noc)),
        ]
        for name, engine in self.engines.items():
            rows.append((name, f"{engine.busy:,} cycles busy, {engine.stalled:,} stalled"))
        memory = self.memory
        rows += [
            ("memory live", f"{size(memory.live)} in tensors, {size(memory.pinned)} of it pinned"),
            ("memory used", f"{size(memory.used)} of {size(memory.capacity)}"),
            ("memory peak", size(memory.peak)),
            ("compiled", f"{self.compiles:,}, found compiled {self.cache_hits:,} times"),
        ]
        column = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{column}}  {text}" for name, text in rows)


def words(count: int) -> str:
    """Return a number of words as people read it."""
    return f"{count:,} words ({size(32 * count)})"


def size(nbytes: int) -> str:
    """Return a number of bytes as people read it."""
    amount, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{nbytes} B" if unit == "B" else f"{amount:.1f} {unit}"
