"""How many instructions a program will take, read off its loops."""

from __future__ import annotations

from kohakuaccel.runtime.device import Bytes
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
