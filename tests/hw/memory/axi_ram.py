"""A memory behind AXI4 that is as awkward as the standard allows, and checks what it is asked.

Called once a cycle, between two clock edges: `drive` before the signals settle, `sample` after.
"""

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

WORD = 32
OKAY, SLVERR, DECERR = 0, 2, 3
INCR, WHOLE_WORDS = 1, 5


@dataclass
class Burst:
    """A burst that is not finished."""

    address: int
    beats: int
    ready_at: int = 0
    done: int = 0
    error: bool = False


class AwkwardRam:
    """Random stalls on every channel, random latencies, error responses.

    Parameters
    ----------
    axi : mapping of str to handle
        Signals by their names in the standard.
    size : int
        Bytes.
    random : Random
        Source of the stalls.
    stall : float
        How often a channel pauses for a cycle, of 1.
    latency : (int, int)
        Cycles from a request to its first answer, least and most.
    errors : range of byte addresses
        A word read from there, or a burst written there, has an error response.
    """

    def __init__(
        self,
        axi: dict[str, Any],
        size: int,
        random: Random,
        *,
        stall: float = 0.0,
        latency: tuple[int, int] = (1, 1),
        errors: range = range(0),
    ) -> None:
        self.axi, self.mem, self.random = axi, bytearray(size), random
        self.stall, self.latency, self.errors = stall, latency, errors
        self.reads: deque[Burst] = deque()
        self.addresses: deque[Burst] = deque()  # of writes without all their words
        self.words: deque[tuple[int, int, bool]] = deque()
        self.answers: deque[Burst] = deque()
        self.now = 0
        self.bursts: list[tuple[str, int, int]] = []  # channel, address, beats: for the tests
        self._held: dict[str, tuple[int, ...]] = {}
        for name in ("awready", "wready", "arready", "bvalid", "rvalid"):
            axi[name].value = 0

    @property
    def owes(self) -> bool:
        """Something was asked for and not answered."""
        return bool(self.reads or self.addresses or self.words or self.answers)

    def drive(self) -> None:
        axi, random = self.axi, self.random
        for name in ("awready", "wready", "arready"):
            axi[name].value = random.random() >= self.stall
        self._offer("b", self.answers, lambda burst: (SLVERR if burst.error else OKAY,))
        self._offer("r", self.reads, self._beat)

    def _beat(self, burst: Burst) -> tuple[int, ...]:
        address = burst.address + WORD * burst.done
        if address in self.errors:
            return DECERR, int(burst.done == burst.beats - 1), random_word(self.random)
        word = int.from_bytes(self.mem[address : address + WORD], "little")
        return OKAY, int(burst.done == burst.beats - 1), word

    def _offer(self, channel: str, queue: deque[Burst], payload: Any) -> None:
        """Offer an answer; what was offered and not taken stays."""
        axi = self.axi
        if channel not in self._held:
            ready = queue and queue[0].ready_at <= self.now
            if not ready or self.random.random() < self.stall:
                axi[f"{channel}valid"].value = 0
                return
            self._held[channel] = payload(queue[0])
        axi[f"{channel}valid"].value = 1
        names = ("bresp",) if channel == "b" else ("rresp", "rlast", "rdata")
        for name, value in zip(names, self._held[channel], strict=True):
            axi[name].value = value

    def sample(self) -> None:
        """Note what this cycle transfers."""
        self.now += 1
        if self._taken("ar"):
            self.reads.append(self._burst("ar"))
        if self._taken("aw"):
            self.addresses.append(self._burst("aw"))
        if self._taken("w"):
            axi = self.axi
            self.words.append(
                (int(axi["wdata"].value), int(axi["wstrb"].value), bool(axi["wlast"].value))
            )
        self._write()
        if self._taken("b"):
            self.answers.popleft()
            del self._held["b"]
        if self._taken("r"):
            burst = self.reads[0]
            burst.done += 1
            if burst.done == burst.beats:
                self.reads.popleft()
            del self._held["r"]

    def _write(self) -> None:
        while self.addresses and self.words:
            burst = self.addresses[0]
            word, strobes, last = self.words.popleft()
            address = burst.address + WORD * burst.done
            burst.done += 1
            assert last == (burst.done == burst.beats), "WLAST is not on the last word"
            if address in self.errors:
                burst.error = True
            else:
                new = word.to_bytes(WORD, "little")
                for byte in range(WORD):
                    if strobes >> byte & 1:
                        self.mem[address + byte] = new[byte]
            if last:
                burst.ready_at = self._later()
                self.answers.append(self.addresses.popleft())

    def _later(self) -> int:
        return self.now + self.random.randint(*self.latency)

    def _taken(self, channel: str) -> bool:
        return bool(self.axi[f"{channel}valid"].value) and bool(self.axi[f"{channel}ready"].value)

    def _burst(self, channel: str) -> Burst:
        get = {
            name: int(self.axi[channel + name].value)
            for name in ("addr", "len", "size", "burst", "id")
        }
        address, beats = get["addr"], get["len"] + 1
        assert get["burst"] == INCR
        assert get["size"] == WHOLE_WORDS
        assert get["id"] == 0
        assert address % WORD == 0
        end = address + WORD * beats
        assert address // 4096 == (end - 1) // 4096, f"{beats} words at {address:#x} cross 4 KiB"
        assert end <= len(self.mem), f"{beats} words at {address:#x} leave memory"
        self.bursts.append((channel, address, beats))
        return Burst(address, beats, self._later())


def random_word(random: Random) -> int:
    return random.getrandbits(8 * WORD)
