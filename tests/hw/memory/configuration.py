"""The machine around the memory port under test: the memory is small, so that its end is near."""

from kohakutpu.config import Machine

MACHINE = Machine("bench", "C V\nM H", dram_words=1 << 14)
PORT = 2
REQUESTERS = (0, 1, 3)
