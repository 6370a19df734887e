"""The host's end of the link: requests that are repeated until they are answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kohakutpu.config import WORD_BYTES
from kohakutpu.link.frames import (
    FRAME_WORDS,
    HELLO,
    IDENTITY,
    REGISTER,
    VERSION,
    Command,
    Deframer,
    Reply,
    Request,
    Status,
)

RETRIES = 4
PATIENCE = 0.5
"""Seconds for a reply, beside the time that its bytes take."""

BITS = 10
"""Of a byte on the line: one to start and one to stop."""

MEANINGS = {
    Status.COMMAND: "it knows no such command",
    Status.LENGTH: "the frame has another length than its command says",
    Status.RANGE: "the address is past the end",
    Status.BUS: "memory or register answered with an error",
}


class LinkError(ConnectionError):
    """The other end does not answer, or is no machine."""


class Refused(LinkError):
    """The machine has refused a request; `status` says why."""

    def __init__(self, request: Request, status: int) -> None:
        self.status = status
        known = status in MEANINGS
        reason = MEANINGS[Status(status)] if known else f"status {status}"
        super().__init__(
            f"{Command(request.command).name} of {request.count} at {request.address:#x} was "
            f"refused: {reason}"
        )


class Line(Protocol):
    """What carries bytes: a serial port, as pyserial has it."""

    def write(self, data: bytes, /) -> int | None:
        """Send bytes."""
        ...

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; fewer, or none, after a short wait."""
        ...


@dataclass(frozen=True)
class Hello:
    """What the machine says of itself.

    Attributes
    ----------
    memory_words : int
        Words of its memory.
    clock : int
        Its clock in Hz.
    """

    memory_words: int
    clock: int


class Link:
    """A conversation with one machine, one request at a time.

    A request without an answer is sent again under its number; the machine does not do a second
    time what changes a register.

    Parameters
    ----------
    line : Line
        Open, with a read that waits for a fraction of a second at most.
    name : str
        What the line is called, for messages.
    baud : int
        Bits a second, to know how long bytes take.
    patience : float
        Seconds for a reply, beside the time that its bytes take.
    now : callable
        The clock, in seconds.

    Attributes
    ----------
    retries : int
        Requests that were sent again.

    Raises
    ------
    LinkError
        If nobody answers, or somebody who is no machine of this version.
    """

    def __init__(
        self,
        line: Line,
        name: str = "the line",
        baud: int = 115_200,
        *,
        patience: float = PATIENCE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line, self._name, self._baud = line, name, baud
        self._patience, self._now = patience, now
        self._deframer = Deframer()
        self._sequence = 0
        self.retries = 0
        self.hello = self._greet()

    def read(self, word: int, count: int) -> bytes:
        """Return words of memory.

        Raises
        ------
        LinkError
            If the machine refuses or does not answer.
        """
        parts = [
            self._exchange(Command.READ, word + done, min(FRAME_WORDS, count - done))
            for done in range(0, count, FRAME_WORDS)
        ]
        return b"".join(parts)

    def write(self, word: int, data: bytes | memoryview) -> None:
        """Write whole words of memory.

        Raises
        ------
        ValueError
            If they are not whole.
        LinkError
            If the machine refuses or does not answer.
        """
        if len(data) % WORD_BYTES:
            raise ValueError(f"{len(data)} bytes are no whole words of {WORD_BYTES}")
        step = FRAME_WORDS * WORD_BYTES
        for done in range(0, len(data), step):
            part = bytes(data[done : done + step])
            address = word + done // WORD_BYTES
            self._exchange(Command.WRITE, address, len(part) // WORD_BYTES, part)

    def get(self, register: int) -> int:
        """Return a register.

        Raises
        ------
        LinkError
            If the machine refuses or does not answer.
        """
        (value,) = REGISTER.unpack(self._exchange(Command.GET, register, 1))
        return value

    def set(self, register: int, value: int) -> None:
        """Write a register.

        Raises
        ------
        LinkError
            If the machine refuses or does not answer.
        """
        self._exchange(Command.SET, register, 1, REGISTER.pack(value))

    def _greet(self) -> Hello:
        data = self._exchange(Command.HELLO, 0, 0)
        identity, version, words, clock = HELLO.unpack(data)
        if identity != IDENTITY:
            raise LinkError(f"{self._name}: {identity!r} answers, which is no machine")
        if version != VERSION:
            raise LinkError(
                f"{self._name}: the machine's link is of version {version}, this host's of "
                f"{VERSION}; build bitstream and host from the same source"
            )
        return Hello(words, clock)

    def _exchange(self, command: Command, address: int, count: int, data: bytes = b"") -> bytes:
        """Return the data of the reply to a request."""
        self._sequence = self._sequence % 255 + 1
        request = Request(self._sequence, command, address, count, data)
        expected = {
            Command.HELLO: HELLO.size,
            Command.READ: count * WORD_BYTES,
            Command.GET: REGISTER.size,
        }.get(command, 0)
        frame = request.encode()
        for attempt in range(1 + RETRIES):
            self.retries += attempt > 0
            self._line.write(frame)
            reply = self._answer(request, len(frame) + 2 * expected)
            if reply is None:
                continue
            if reply.status != Status.DONE:
                raise Refused(request, reply.status)
            if len(reply.data) == expected:
                return reply.data
        raise LinkError(
            f"{self._name}: no answer to {command.name} at {address:#x}, sent {1 + RETRIES} times; "
            "is the board programmed and powered, and the rate the one it was built for?"
        )

    def _answer(self, request: Request, nbytes: int) -> Reply | None:
        """Return the reply to a request, or None if none comes in time."""
        deadline = self._now() + self._patience + BITS * nbytes / self._baud
        while self._now() < deadline:
            for frame in self._deframer.feed(self._line.read(4096)):
                reply = Reply.decode(frame)
                # What answers an earlier request has come too late.
                if reply and (reply.sequence, reply.command) == (request.sequence, request.command):
                    return reply
        return None
