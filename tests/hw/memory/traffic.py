"""Random requesters that keep to their credits and read back what was acknowledged."""

import itertools
from collections import deque
from collections.abc import Callable
from random import Random

from hw.noc.flit import ACKED_WRITES, READ_CREDITS, Buffer, Form
from tests.hw.memory.bench import SIZE, Bench
from tests.hw.memory.reference import Read

WORDS = SIZE // 32
FORMS = {
    Buffer.VECTOR: [Form.LINEAR],
    Buffer.INSTRUCTION: [Form.LINEAR],
    Buffer.L1A: [Form.ROWS, Form.COLUMNS, Form.ELEMENTS, Form.SCALES],
    Buffer.L1B: [Form.ROWS, Form.COLUMNS, Form.ELEMENTS, Form.SCALES],
}
BACK = 7  # tag of what a requester reads back


def random_read(random: Random, low: int, high: int) -> Read:
    """Return a READ of words `low` to `high`, often of the very last ones."""
    buffer = random.choice([*Buffer])
    form = random.choice(FORMS[buffer])
    rows = random.choice([1, 1, 2, 3, random.randint(4, 32 if form is Form.COLUMNS else 70)])
    elements = random.choice([1, 4, 16, 17, random.randint(1, 64), random.randint(1, 900)])
    stride = random.choice([0, 1, elements // 16 + 1, random.randint(0, 300)])
    length = -(-elements // 4)  # quarters
    span = 4 * stride * (rows - 1) + length
    if span > 4 * (high - low):
        rows, span = 1, length
    last = 4 * high - span
    address = last if random.random() < 0.1 else random.randint(4 * low, last)
    return Read(
        address=address,
        rows=rows,
        elements=elements,
        stride=stride,
        nodes=random.randint(1, 15),
        form=form,
        buffer=buffer,
        residual=bool(random.getrandbits(1)),
        offset=random.getrandbits(14),
        l1_stride=random.getrandbits(14),
        ack=bool(random.getrandbits(1)),
        tag=random.randrange(BACK),
        pc=random.getrandbits(20),
    )


class Requester:
    """One node that reads what nobody writes, and writes and reads back words of its own."""

    def __init__(self, bench: Bench, node: int, image: bytearray, own: range, jobs: int) -> None:
        self.bench, self.node, self.image, self.own, self.jobs = bench, node, image, own, jobs
        self.queue: deque[tuple[str, Callable[[], None]]] = deque()
        self.used = {False: 0, True: 0}  # READs sent, by class
        self.acked = 0  # WRITEs with ack that were sent
        self.back: list[Read] = []  # to read when all of those have been answered
        self.backs = 0

    @property
    def done(self) -> bool:
        return not (self.jobs or self.queue or self.back) and self._answered

    @property
    def _answered(self) -> bool:
        return self._acks == self.acked and self.bench.finished[self.node, BACK] == self.backs

    @property
    def _acks(self) -> int:
        return sum(count for (node, _), count in self.bench.acks.items() if node == self.node)

    def step(self) -> bool:
        """Send one flit if there is one that may be sent."""
        bench, random = self.bench, self.bench.random
        if not self.queue:
            if self.back:
                if not self._answered:
                    return False
                for read in self.back:
                    self._read(read)
                self.backs += len(self.back)
                self.back = []
            elif self.jobs and (self._answered or random.random() < 0.01):
                self.jobs -= 1
                if self._answered and random.random() < 0.5:
                    self._write()
                else:
                    regions = [(0, 8192), (14336, WORDS)]  # what nobody writes
                    self._read(random_read(random, *random.choice(regions)))
        if not self.queue:
            return False
        kind, send = self.queue[0]
        if kind == "ack" and self.acked - self._acks >= ACKED_WRITES:
            return False
        if kind in ("bulk", "instruction"):
            mine = kind == "instruction"
            if self.used[mine] - bench.credits[self.node, mine] >= READ_CREDITS:
                return False
            self.used[mine] += 1
        self.acked += kind == "ack"
        self.queue.popleft()
        send()
        return True

    def _read(self, read: Read) -> None:
        kind = "instruction" if read.buffer is Buffer.INSTRUCTION else "bulk"
        self.queue.append((kind, lambda: self.bench.read(read, self.node, self.image)))

    def _write(self) -> None:
        """Write rows with random masks, ACKs now and then and at the end; read them back then."""
        random, own = self.bench.random, self.own
        for _ in range(random.randint(1, 4)):
            length = random.choice([1, 2, random.randint(1, 40)])
            first = random.randrange(own.start, own.stop - length + 1)
            for address in range(first, first + length):
                mask = random.choice([15, 15, random.randrange(16)])
                ack = address == first + length - 1 or random.random() < 0.03
                self.queue.append(("ack" if ack else "write", self._store(address, mask, ack)))
            self.back.append(Read(4 * first, 1, 16 * length, 0, nodes=1 << self.node, tag=BACK))

    def _store(self, address: int, mask: int, ack: bool) -> Callable[[], None]:
        random = self.bench.random
        word, tag = random.getrandbits(256), random.randrange(BACK)

        def send() -> None:
            for quarter in range(4):
                if mask >> quarter & 1:
                    at = 32 * address + 8 * quarter
                    self.image[at : at + 8] = word.to_bytes(32, "little")[8 * quarter :][:8]
            self.bench.write(self.node, address, mask, word, ack=ack, tag=tag, pc=address)

        return send


async def random_traffic(bench: Bench, image: bytearray, nodes: tuple[int, ...], jobs: int) -> None:
    """Let every requester do its jobs, mixed at random."""
    size = 2048
    requesters = [
        Requester(bench, node, image, range(8192 + i * size, 8192 + (i + 1) * size), jobs)
        for i, node in enumerate(nodes)
    ]
    for cycle in itertools.count():
        if all(requester.done for requester in requesters):
            break
        assert cycle < 100_000, f"still to come {bench.expected}"
        if len(bench.sending) < 2:
            bench.random.shuffle(requesters)
            any(requester.step() for requester in requesters)
        await bench.step()
    await bench.settle()
    for requester in requesters:
        for kind in (False, True):
            assert bench.credits[requester.node, kind] == requester.used[kind]
    assert not bench.reports
