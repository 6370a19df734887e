"""How many instructions a program will take, read off its loops, and how far a run is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kohakuaccel.runtime.device import Bytes
from kohakuaccel.runtime.progress import Progress
from kohakutpu import isa
from kohakutpu.config import WORD_BYTES


def instructions(words: Bytes, kind: str) -> int:
    """Return how many instructions a unit of `kind` takes, or 0 if only running it can tell.

    Parameters
    ----------
    words : bytes
        The program.
    kind : str
        ``"C"`` or ``"V"``.
    """
    total, times = 0, [1]
    for start in range(0, len(words), WORD_BYTES):
        try:
            instruction = isa.decode(kind, bytes(words[start : start + WORD_BYTES]))
        except isa.IllegalInstruction:
            return 0
        name = instruction.record.name
        total += times[-1]
        if name == "LOOP":
            count = instruction.count
            if count.reg:
                return 0
            times.append(times[-1] * count.imm)
        elif name == "END":
            times.pop()
            if not times:
                return 0
    return total


class RunProgress(Progress):
    """One line about a run.

    Parameters
    ----------
    expected : callable
        How many instructions the run will take, 0 if nobody knows; asked once, and only if the
        run takes so long that anything is said of it.
    """

    def __init__(self, expected: Callable[[], int] = lambda: 0) -> None:
        super().__init__(lambda seconds: describe(*self._far, seconds, self._total))
        self._expected = expected
        self._far = (0, 0)

    @cached_property
    def _total(self) -> int:
        return self._expected()

    def update(self, cycles: int = 0, instructions: int = 0) -> None:
        """Say how far it is, if it is time to."""
        self._far = (cycles, instructions)
        super().update()


def describe(cycles: int, instructions: int, seconds: float, total: int) -> str:
    """Return cycles, rate and, where it can be known, the time left, as text."""
    text = f"{cycles:,} cycles, {cycles / seconds / 1000:.0f} k/s"
    if 0 < instructions <= total:
        text += f", about {seconds * (total - instructions) / instructions:.0f} s left"
    return text
