"""Frames of the host link: what a request and a reply look like on the line.

A frame is a sequence of bytes between two ``END``; inside it, ``END`` and ``ESC`` are each sent as
``ESC`` and a substitute, so that whoever has lost his place finds it again at the next ``END``.
"""

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kohakutpu.config import WORD_BYTES

VERSION = 1
IDENTITY = b"KTPU"

END, ESC = 0xC0, 0xDB
ESCAPED: Final = {END: 0xDC, ESC: 0xDD}
"""What follows ``ESC`` in place of a byte."""

FRAME_WORDS = 32
"""Words of memory that one frame carries at most."""

REQUEST = struct.Struct("<BBIB")
"""Sequence, command, address, count; then data, then the checksum."""

REPLY = struct.Struct("<BB")
"""Sequence, command; then data, one byte of status, the checksum."""

HELLO = struct.Struct("<4sIII")
"""Data of the reply to ``HELLO``: identity, version, words of memory, clock in Hz."""

CHECKSUM = struct.Struct("<I")
REGISTER = struct.Struct("<I")
LONGEST = REQUEST.size + FRAME_WORDS * WORD_BYTES + CHECKSUM.size
"""Bytes of the longest frame, before escapes."""


class Command(enum.IntEnum):
    """What a request asks for."""

    HELLO = 0
    READ = 1  # `count` words of memory from word `address`
    WRITE = 2  # the same, with the words as data
    GET = 3  # the register at byte `address`; count is 1
    SET = 4  # the same, with 4 bytes of data


class Status(enum.IntEnum):
    """How a request went. Nothing was done unless it is ``DONE`` or ``BUS``."""

    DONE = 0
    COMMAND = 1  # there is no such command
    LENGTH = 2  # the frame is not as long as its command and count say
    RANGE = 3  # a count of 0 or above `FRAME_WORDS`, or an address past the end
    BUS = 4  # memory or a register answered with an error


@dataclass(frozen=True)
class Request:
    """What the host says."""

    sequence: int
    command: int
    address: int = 0
    count: int = 0
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame, as it goes on the line."""
        head = REQUEST.pack(self.sequence, self.command, self.address, self.count)
        return stuffed(sealed(head + self.data))


@dataclass(frozen=True)
class Reply:
    """What the machine says."""

    sequence: int
    command: int
    data: bytes
    status: int

    @classmethod
    def decode(cls, frame: bytes) -> "Reply | None":
        """Return the reply in a frame that was taken from the line, or None if it is none."""
        body = opened(frame)
        if body is None or len(body) <= REPLY.size:
            return None
        sequence, command = REPLY.unpack_from(body)
        return cls(sequence, command, body[REPLY.size : -1], body[-1])


def sealed(body: bytes) -> bytes:
    """Return `body` with its checksum, CRC-32 as in Ethernet and zlib."""
    return body + CHECKSUM.pack(zlib.crc32(body))


def opened(frame: bytes) -> bytes | None:
    """Return what a checksum belongs to, or None if it does not fit."""
    body, checksum = frame[: -CHECKSUM.size], frame[-CHECKSUM.size :]
    if len(checksum) < CHECKSUM.size or checksum != CHECKSUM.pack(zlib.crc32(body)):
        return None
    return body


def stuffed(frame: bytes) -> bytes:
    """Return a frame between two ``END``, with escapes."""
    result = bytearray([END])
    for byte in frame:
        result += bytes((ESC, ESCAPED[byte])) if byte in ESCAPED else bytes((byte,))
    result.append(END)
    return bytes(result)


class Deframer:
    """Takes frames from a line that may lose, change and invent bytes.

    Attributes
    ----------
    dropped : int
        Frames that were too long or held an impossible escape.
    """

    def __init__(self) -> None:
        self._originals = {substitute: byte for byte, substitute in ESCAPED.items()}
        self.dropped = 0
        self.clear()

    def clear(self) -> None:
        """Forget a frame that has not ended."""
        self._frame = bytearray()
        self._escape = False
        self._bad = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each frame that ends in `data`; what belongs to no whole frame yet is kept."""
        for byte in data:
            if byte == END:
                frame, bad = bytes(self._frame), self._bad or self._escape
                self.clear()
                if bad:
                    self.dropped += 1
                elif frame:
                    yield frame
            elif self._escape:
                original = self._originals.get(byte)
                self._escape = False
                self._bad |= original is None
                self._keep(original or 0)
            elif byte == ESC:
                self._escape = True
            else:
                self._keep(byte)

    def _keep(self, byte: int) -> None:
        if len(self._frame) < LONGEST:
            self._frame.append(byte)
        else:
            self._bad = True
