"""Memory on the chip: two ports, random bursts, strobes and stalls, against an array of bytes."""

from random import Random

import pytest

from hw.memory.onchip import OnChipMemory
from hw.sim.session import Session

pytestmark = pytest.mark.cocotb
WORDS, ADDRESS_BITS, PORTS, WORD = 48, 11, 2, 32
OKAY, SLVERR = 0, 2


class Initiator:
    """Reads and writes its own half of memory, and what lies past the end."""

    def __init__(self, session: Session, port: int, random: Random) -> None:
        self.session, self.port, self.random = session, port, random
        self.words = [WORD * bytes((0,))] * (1 << ADDRESS_BITS - 5)
        self.stall = random.choice((0.0, 0.5))
        self.read: tuple[int, int, int] | None = None  # word, beats, done
        self.write: tuple[int, list[tuple[bytes, int]], int, bool] | None = None
        self.beats = 0

    def own(self) -> tuple[int, int]:
        """A burst in every second block of 8 words, so that ports are not in each other's way."""
        block = 2 * self.random.randrange(4) + self.port
        first = 8 * block + self.random.randrange(8)
        return first, self.random.randint(1, 8 * (block + 1) - first)

    def name(self, signal: str) -> str:
        return f"port_{self.port}__{signal}"

    def drive(self) -> None:
        put, random = self.session, self.random
        # Not what is being written: a word read meanwhile is nobody's business.
        if self.read is None and self.write is None:
            first, count = self.own()
            if random.random() < 0.5:
                self.read = (first, count, -1)
            else:
                beats = [
                    (random.randbytes(WORD), random.choice((0, 0xFFFFFFFF, random.getrandbits(32))))
                    for _ in range(count)
                ]
                self.write = (first, beats, -1, False)
        put[self.name("arvalid")] = self.read is not None and self.read[2] < 0
        put[self.name("awvalid")] = self.write is not None and self.write[2] < 0
        sending = self.write is not None and 0 <= self.write[2] < len(self.write[1])
        put[self.name("wvalid")] = sending and random.random() >= self.stall
        if self.read is not None:
            put[self.name("araddr")] = WORD * self.read[0]
            put[self.name("arlen")] = self.read[1] - 1
        if self.write is not None:
            first, beats, done, _ = self.write
            put[self.name("awaddr")] = WORD * first
            put[self.name("awlen")] = len(beats) - 1
            if sending:
                data, strobe = beats[done]
                put[self.name("wdata")] = int.from_bytes(data, "little")
                put[self.name("wstrb")] = strobe
                put[self.name("wlast")] = done == len(beats) - 1
        put[self.name("rready")] = random.random() >= self.stall
        put[self.name("bready")] = random.random() >= self.stall

    def moved(self, channel: str) -> bool:
        get = self.session
        return bool(get[self.name(f"{channel}valid")] and get[self.name(f"{channel}ready")])

    def sample(self) -> None:
        get = self.session
        if self.moved("ar"):
            assert self.read
            self.read = (*self.read[:2], 0)
        elif self.moved("r"):
            assert self.read
            first, count, done = self.read
            word = first + done
            assert get[self.name("rlast")] == (done == count - 1)
            assert get[self.name("rresp")] == (OKAY if word < WORDS else SLVERR)
            if word < WORDS:
                assert get[self.name("rdata")].to_bytes(WORD, "little") == self.words[word]
            self.beats += 1
            self.read = None if done == count - 1 else (first, count, done + 1)
        if self.moved("aw"):
            assert self.write
            self.write = (*self.write[:2], 0, False)
        elif self.moved("w"):
            assert self.write
            first, beats, done, failed = self.write
            data, strobe = beats[done]
            word = first + done
            if word < WORDS:
                old = self.words[word]
                self.words[word] = bytes(
                    data[n] if strobe >> n & 1 else old[n] for n in range(WORD)
                )
            self.beats += 1
            self.write = (first, beats, done + 1, failed or word >= WORDS)
        if self.moved("b"):
            assert self.write
            first, beats, done, failed = self.write
            assert done == len(beats)
            assert get[self.name("bresp")] == (SLVERR if failed else OKAY)
            self.write = None


@pytest.mark.parametrize("seed", range(4))
def test_two_ports(seed: int) -> None:
    random = Random(seed)
    with Session(OnChipMemory(WORDS, [ADDRESS_BITS] * PORTS)) as session:
        ports = [Initiator(session, n, random) for n in range(PORTS)]
        for _ in range(4000):
            for port in ports:
                port.drive()
            session.settle()
            for port in ports:
                port.sample()
            session.advance()
    assert all(port.beats > 800 for port in ports)


def test_a_port_alone_moves_a_word_a_cycle() -> None:
    with Session(OnChipMemory(WORDS, [ADDRESS_BITS])) as session:
        session["port_0__rready"] = 1
        session["port_0__arvalid"], session["port_0__arlen"] = 1, 31
        beats = []
        for cycle in range(40):
            session.settle()
            if session["port_0__rvalid"]:
                beats.append(cycle)
            session.advance()
            session["port_0__arvalid"] = 0
    assert beats == list(range(beats[0], beats[0] + 32))
