"""A board that is simulated: `tiny` with 64 KiB behind its serial pins, plugged in where told."""

import os
from functools import cache
from pathlib import Path
from random import Random

from hw.board.system import System
from hw.sim.serial import SerialModel, Terminal, build
from kohakutpu.config import preset

MACHINE = preset("tiny")
MEMORY_WORDS = 2048
DIVISOR = 4
CLOCK = 12_000_000

BAUD = 9600
"""What the host is told: a simulation is slower than a board, and timeouts follow the rate."""

SLOW_BAUD = 1200
"""Where nothing is lost, and so nobody waits for it: the machine that simulates may be busy."""


@cache
def library() -> Path:
    return build(System(MACHINE, MEMORY_WORDS, CLOCK, CLOCK // DIVISOR))


class BadLine:
    """A model behind a line that damages what crosses it, as often as it is told.

    Each byte is changed, lost, or followed by another one, with probability `rate`, until
    `damages` have been done.
    """

    def __init__(self, model: SerialModel, rate: float, damages: int, seed: int) -> None:
        self.model, self.rate, self.damages = model, rate, damages
        self.random = Random(seed)

    def damaged(self, data: bytes) -> bytes:
        result = bytearray()
        for byte in data:
            if self.damages and self.random.random() < self.rate:
                self.damages -= 1
                match self.random.randrange(3):
                    case 0:
                        result.append(byte ^ 1 << self.random.randrange(8))
                    case 1:
                        result += bytes((byte, self.random.randrange(256)))
                    case _:
                        pass
            else:
                result.append(byte)
        return bytes(result)

    def write(self, data: bytes) -> int:
        return self.model.write(self.damaged(data))

    def read(self, size: int = 4096) -> bytes:
        return self.damaged(self.model.read(size))


class Board:
    """A board with power, and a port that may be unplugged."""

    def __init__(self, folder: Path) -> None:
        self.model = SerialModel(library(), DIVISOR, CLOCK)
        self.port = folder / "ttyBOARD"
        self.terminal: Terminal | None = None

    def plug(self, line: BadLine | None = None) -> None:
        """Connect the port, by another line if that was connected before."""
        self.unplug()
        self.terminal = Terminal(line or self.model)
        self.port.unlink(missing_ok=True)
        self.port.symlink_to(os.path.realpath(self.terminal.path))

    def unplug(self) -> None:
        if self.terminal is not None:
            self.terminal.close()
            self.terminal = None

    def power_off(self) -> None:
        """Lose everything."""
        self.unplug()
        self.model.close()
        self.model = SerialModel(library(), DIVISOR, CLOCK)

    def close(self) -> None:
        self.unplug()
        self.model.close()
