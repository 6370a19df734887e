"""Frames as bytes: pinned, checked against zlib and through a hostile line."""

import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohakutpu.link.frames import (
    END,
    ESC,
    LONGEST,
    Command,
    Deframer,
    Reply,
    Request,
    opened,
    sealed,
    stuffed,
)


def test_a_request_as_bytes() -> None:
    frame = Request(0xC0, Command.WRITE, 0x01DB, 1, bytes(32)).encode()
    body = bytes.fromhex("c002db01000001") + bytes(32)
    checksum = zlib.crc32(body).to_bytes(4, "little")
    escaped = bytes.fromhex("dbdc02dbdd01000001") + bytes(32)
    assert not {END, ESC} & set(checksum)
    assert frame == b"\xc0" + escaped + checksum + b"\xc0"


def test_the_checksum_is_the_one_everybody_knows() -> None:
    assert sealed(b"123456789")[-4:] == bytes.fromhex("2639f4cb")


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=5), st.integers(1, 7))
def test_frames_come_back_however_they_are_cut(frames: list[bytes], step: int) -> None:
    line = b"".join(map(stuffed, frames))
    deframer = Deframer()
    found = [f for at in range(0, len(line), step) for f in deframer.feed(line[at : at + step])]
    assert found == frames
    assert deframer.dropped == 0


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=40))
def test_a_frame_behind_noise_is_found(noise: bytes, frame: bytes) -> None:
    assert list(Deframer().feed(noise + stuffed(frame)))[-1] == frame


def test_noise_takes_no_memory_and_is_counted() -> None:
    deframer = Deframer()
    list(deframer.feed(b"\x01" * 100 * LONGEST))
    assert len(deframer._frame) == LONGEST
    assert list(deframer.feed(bytes((END, 1, END, ESC, 7, END, 2, ESC, END)))) == [b"\x01"]
    assert deframer.dropped == 3


@pytest.mark.parametrize("bit", range(8 * 15))
def test_a_changed_bit_is_noticed(bit: int) -> None:
    frame = bytearray(sealed(bytes(range(11))))
    frame[bit // 8] ^= 1 << bit % 8
    assert opened(bytes(frame)) is None


def test_a_reply_needs_its_status() -> None:
    assert Reply.decode(sealed(b"\x05\x01")) is None
    assert Reply.decode(sealed(b"\x05\x01\x00")) == Reply(5, 1, b"", 0)
    assert Reply.decode(sealed(b"\x05\x01ab\x04")) == Reply(5, 1, b"ab", 4)
    assert Reply.decode(b"\x05") is None


def test_random_bytes_are_no_replies() -> None:
    random = Random(1)
    line = random.randbytes(100_000)
    assert [f for f in Deframer().feed(line) if Reply.decode(f)] == []
