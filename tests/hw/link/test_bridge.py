"""The bridge behind its serial pins: right requests, wrong ones, noise."""

import zlib
from collections.abc import Iterator
from random import Random

import pytest

from hw.control.registers import IDENTITY, Register
from hw.sim.serial import SerialModel
from kohakutpu.link import Link, LinkError, Refused
from kohakutpu.link.frames import (
    CHECKSUM,
    END,
    ESC,
    FRAME_WORDS,
    LONGEST,
    REQUEST,
    Command,
    Deframer,
    Reply,
    Request,
    Status,
    sealed,
    stuffed,
)
from tests.hw.link.bench import CLOCK, DIVISOR, MEMORY_WORDS, RAM_WORDS, model

pytestmark = pytest.mark.cocotb
WORD = 32


@pytest.fixture
def line() -> Iterator[SerialModel]:
    with model() as simulated:
        yield simulated


def connect(line: SerialModel) -> Link:
    return Link(line, baud=CLOCK // DIVISOR, patience=20e-3, now=line.now)


def ask(line: SerialModel, *requests: Request | bytes) -> list[Reply]:
    """Send requests, or bytes, and return every reply."""
    deframer, replies = Deframer(), []
    for request in requests:
        line.write(request if isinstance(request, bytes) else request.encode())
        while said := line.read():
            found = [Reply.decode(frame) for frame in deframer.feed(said)]
            assert None not in found
            replies += found
    assert deframer.dropped == 0
    return replies


def test_hello(line: SerialModel) -> None:
    hello = connect(line).hello
    assert (hello.memory_words, hello.clock) == (MEMORY_WORDS, CLOCK)


def test_memory_keeps_what_is_written(line: SerialModel) -> None:
    link, random = connect(line), Random(1)
    data = random.randbytes(MEMORY_WORDS * WORD)
    link.write(0, data)
    assert link.read(0, MEMORY_WORDS) == data
    for _ in range(50):
        first = random.randrange(MEMORY_WORDS)
        count = random.randint(1, MEMORY_WORDS - first)
        if random.random() < 0.5:
            part = bytes(random.choices((0, END, ESC, 0xDC, 0xDD, 0xFF), k=count * WORD))
            link.write(first, part)
            data = data[: first * WORD] + part + data[(first + count) * WORD :]
        else:
            assert link.read(first, count) == data[first * WORD : (first + count) * WORD]
    assert link.read(0, MEMORY_WORDS) == data
    assert link.retries == 0


def test_a_frame_as_bytes(line: SerialModel) -> None:
    body = bytes.fromhex("07 02 05000000 01") + bytes(range(32))
    line.write(b"\xc0" + body + zlib.crc32(body).to_bytes(4, "little") + b"\xc0")
    reply = bytes.fromhex("07 02 00")
    checksum = zlib.crc32(reply).to_bytes(4, "little")
    assert b"".join(iter(line.read, b"")) == b"\xc0" + reply + checksum + b"\xc0"
    assert connect(line).read(5, 1) == bytes(range(32))


def test_registers(line: SerialModel) -> None:
    link = connect(line)
    assert link.get(Register.IDENTITY) == IDENTITY
    link.set(Register.TABLE, 0xDBC0_1234)
    assert link.get(Register.TABLE) == 0xDBC0_1234
    with pytest.raises(Refused, match="answered with an error"):
        link.set(Register.UNITS, 99)
    with pytest.raises(Refused, match="GET of 1 at 0x40"):
        link.get(0x40)
    assert link.get(Register.UNITS) == 0


def test_a_register_is_not_set_twice(line: SerialModel) -> None:
    go = Request(9, Command.SET, Register.COMMAND, 1, b"\1\0\0\0")
    replies = ask(line, go, go, go)
    assert replies == [Reply(9, Command.SET, b"", Status.DONE)] * 3
    link = connect(line)
    assert link.get(Register.CYCLES_LOW) == 1
    ask(line, go)
    assert link.get(Register.CYCLES_LOW) == 2


def test_a_refused_set_is_refused_again(line: SerialModel) -> None:
    wrong = Request(9, Command.SET, Register.UNITS, 1, b"\xff\0\0\0")
    assert [reply.status for reply in ask(line, wrong, wrong)] == [Status.BUS] * 2


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (Request(1, 5), Status.COMMAND),
        (Request(1, 255, 0, 1), Status.COMMAND),
        (Request(1, Command.HELLO, 0, 1), Status.RANGE),
        (Request(1, Command.HELLO, 0, 0, b"x"), Status.LENGTH),
        (Request(1, Command.READ, 0, 0), Status.RANGE),
        (Request(1, Command.READ, 0, FRAME_WORDS + 1), Status.RANGE),
        (Request(1, Command.READ, MEMORY_WORDS, 1), Status.RANGE),
        (Request(1, Command.READ, MEMORY_WORDS - 1, 2), Status.RANGE),
        (Request(1, Command.READ, 0xFFFF_FFFF, 1), Status.RANGE),
        (Request(1, Command.READ, 0, 1, bytes(32)), Status.LENGTH),
        (Request(1, Command.WRITE, MEMORY_WORDS, 1, bytes(32)), Status.RANGE),
        (Request(1, Command.WRITE, 0xFFFF_FFFF, 1, bytes(32)), Status.RANGE),
        (Request(1, Command.WRITE, 0, 1, bytes(31)), Status.LENGTH),
        (Request(1, Command.WRITE, 0, 1, bytes(64)), Status.LENGTH),
        (Request(1, Command.WRITE, 0, 2, bytes(32)), Status.LENGTH),
        (Request(1, Command.GET, 0x1000, 1), Status.RANGE),
        (Request(1, Command.GET, 0, 2), Status.RANGE),
        (Request(1, Command.SET, 0x1010, 1, bytes(4)), Status.RANGE),
        (Request(1, Command.SET, 0x10, 1, bytes(3)), Status.LENGTH),
    ],
)
def test_refused(line: SerialModel, request_: Request, status: Status) -> None:
    link = connect(line)
    data = Random(2).randbytes(MEMORY_WORDS * WORD)
    link.write(0, data)
    (reply,) = ask(line, request_)
    assert reply == Reply(request_.sequence, request_.command, b"", status)
    assert link.read(0, MEMORY_WORDS) == data
    assert link.get(Register.TABLE) == 0


def test_memory_that_fails() -> None:
    with model(RAM_WORDS + 2) as line:
        link = connect(line)
        assert ask(line, Request(1, Command.WRITE, RAM_WORDS, 2, bytes(64))) == [
            Reply(1, Command.WRITE, b"", Status.BUS)
        ]
        with pytest.raises(Refused, match="answered with an error"):
            link.read(RAM_WORDS - 1, 2)
        assert link.read(RAM_WORDS - 1, 1) == bytes(32)


def test_frames_that_are_too_long_or_broken_are_not_answered(line: SerialModel) -> None:
    good = Request(1, Command.WRITE, 0, 1, bytes(range(32)))
    frame = good.encode()
    assert ask(line, stuffed(sealed(bytes(LONGEST)))) == []
    assert ask(line, stuffed(bytes(3 * LONGEST))) == []
    assert ask(line, frame[:-6] + bytes((ESC, 1)) + frame[-6:]) == []
    assert ask(line, frame[:-1] + bytes((ESC, END))) == []
    assert ask(line, frame[: len(frame) // 2]) == []
    assert connect(line).read(0, 1) == bytes(32)
    assert len(ask(line, good)) == 1
    assert connect(line).read(0, 1) == bytes(range(32))


def test_what_comes_while_it_works_is_not_heard(line: SerialModel) -> None:
    first = Request(1, Command.READ, 0, 32).encode()
    second = Request(2, Command.WRITE, 0, 1, b"\1" * 32).encode()
    replies = ask(line, first + second)
    assert [reply.sequence for reply in replies] == [1]
    assert connect(line).read(0, 1) == bytes(32)


def damaged(frame: bytes, random: Random) -> bytes:
    """Return what a bad line makes of a frame."""
    line = bytearray(frame)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        place = random.randrange(len(line))
        match random.randrange(4):
            case 0:
                line[place] ^= 1 << random.randrange(8)
            case 1:
                del line[place : place + random.choice((1, 1, 8))]
            case 2:
                line.insert(place, random.randrange(256))
            case _:
                line[place:place] = random.randbytes(random.randrange(20))
        if not line:
            return b"\0"
    return bytes(line)


def drawn(random: Random) -> Request:
    """Return a request with whatever in it, most of them nearly right."""
    command = random.choice((*Command, *Command, random.randrange(256)))
    count = random.choice((0, 1, 1, 1, 2, 32, 33, random.randrange(256)))
    address = random.choice((0, 4 * random.randrange(16), random.randrange(70), 1 << 31))
    size = {Command.WRITE: 32 * count, Command.SET: 4}.get(command, 0)
    size += random.choice((0, 0, 0, 0, 1, -1))
    data = random.randbytes(max(0, size))
    return Request(random.randrange(256), command, address, count, data)


@pytest.mark.parametrize(
    "frames", [500, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_random_frames(line: SerialModel, frames: int) -> None:
    """None hangs the bridge, and memory and registers hold what the answered ones said."""
    random, memory = Random(3), bytearray(MEMORY_WORDS * WORD)
    deframer = Deframer()
    answered = 0
    for _ in range(frames):
        request = drawn(random)
        frame = request.encode()
        whole = random.random() < 0.6
        line.write(frame if whole else damaged(frame, random))
        replies = []
        while said := line.read():
            replies += [Reply.decode(taken) for taken in deframer.feed(said)]
        # What damage leaves of a frame may end inside of one; END ends it.
        line.write(bytes((END,)))
        while said := line.read():
            replies += [Reply.decode(taken) for taken in deframer.feed(said)]
        if whole:  # one that is too long is nobody's
            assert len(replies) == (REQUEST.size + len(request.data) + CHECKSUM.size <= LONGEST)
        for reply in replies:
            assert (reply.sequence, reply.command) == (request.sequence, request.command)
            answered += 1
            if reply.status == Status.DONE and reply.command == Command.WRITE:
                place = request.address * WORD
                memory[place : place + len(request.data)] = request.data
            if reply.status == Status.DONE and reply.command == Command.READ:
                place = request.address * WORD
                assert reply.data == memory[place : place + request.count * WORD]
    assert answered > 0.5 * frames
    assert connect(line).read(0, MEMORY_WORDS) == bytes(memory)


def test_nobody_answers() -> None:
    class Silence:
        time = 0.0

        def write(self, data: bytes) -> int:
            return len(data)

        def read(self, size: int) -> bytes:
            self.time += 0.1
            return b""

    silence = Silence()
    with pytest.raises(LinkError, match="no answer to HELLO at 0x0, sent 5 times"):
        Link(silence, "/dev/ttyUSB7", now=lambda: silence.time)
