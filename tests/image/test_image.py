"""Image files: there and back, equal bytes for equal images, every kind of damage noticed."""

import hashlib
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohakuaccel.image import (
    MAGIC,
    OPERAND_KINDS,
    DebugEntry,
    Image,
    ImageError,
    OperandInfo,
    Relocation,
    UnitProgram,
)

SAMPLE = Image(
    machine_hash="0123456789abcdef",
    units=(UnitProgram(0, "C", bytes(range(96))), UnitProgram(1, "V", b"\xff" * 32)),
    data=b"\7" * 64,
    operands=(OperandInfo("x", "in", 640), OperandInfo("y", "out", 0)),
    relocations=(Relocation(1, 0, 1), Relocation(0, 2, 0)),
    debug=(
        DebugEntry(1, 0, "b.py", 4, "g", "y = x"),
        DebugEntry(0, 1, "é.py", 9, "f", "x += 1"),
    ),
    meta={"kernel": "silu", "b": "\ud800", "a": ""},
)


def test_there_and_back() -> None:
    file = SAMPLE.to_bytes()
    assert Image.from_bytes(file) == SAMPLE
    assert Image.from_bytes(file).to_bytes() == file
    empty = Image("", ())
    assert Image.from_bytes(empty.to_bytes()) == empty


def test_entries_are_kept_in_order() -> None:
    assert SAMPLE.relocations == (Relocation(0, 2, 0), Relocation(1, 0, 1))
    assert [entry.unit for entry in SAMPLE.debug] == [0, 1]
    shuffled = replace(
        SAMPLE,
        relocations=SAMPLE.relocations[::-1],
        debug=SAMPLE.debug[::-1],
        meta=dict(sorted(SAMPLE.meta.items())),
    )
    assert shuffled.to_bytes() == SAMPLE.to_bytes()


def test_the_meta_is_a_copy() -> None:
    meta = {"a": "1"}
    image = Image("", (), meta=meta)
    meta["a"] = "2"
    assert image.meta == {"a": "1"}


def test_pinned_bytes() -> None:
    image = Image("ab", (UnitProgram(3, "C", b"\1" * 32),), data=b"\2" * 32)
    manifest = (
        b'{"debug":[],"machine_hash":"ab","meta":{},"operands":[],"relocations":[],'
        b'"units":[[3,"C",32]]}'
    )
    assert len(manifest) == 0x5E
    header = (
        bytes.fromhex("89 4b 41 49 0d 0a 1a 0a 01 00 00 00 00 00 00 00")
        + bytes.fromhex("5e 00 00 00 00 00 00 00 20 00 00 00 00 00 00 00")
        + bytes.fromhex("20 00 00 00 00 00 00 00")
    )
    body = manifest + b"\1" * 32 + b"\2" * 32
    assert image.to_bytes() == header + hashlib.sha256(header + body).digest() + body


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    script = "from tests.image.test_image import SAMPLE; print(end=SAMPLE.to_bytes().hex())"
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout == SAMPLE.to_bytes().hex()


def test_every_flipped_byte_is_noticed() -> None:
    file = SAMPLE.to_bytes()
    for position in range(len(file)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(file)
            damaged[position] ^= mask
            with pytest.raises(ImageError):
                Image.from_bytes(bytes(damaged))


def test_every_truncation_is_noticed() -> None:
    file = SAMPLE.to_bytes()
    for length in range(len(file)):
        with pytest.raises(ImageError, match=f"truncated image: {length} bytes"):
            Image.from_bytes(file[:length])


def test_what_follows_the_end_is_noticed() -> None:
    file = SAMPLE.to_bytes()
    with pytest.raises(ImageError, match=f"corrupted image: {len(file) + 1} bytes, not"):
        Image.from_bytes(file + b"\0")


def test_other_files_are_refused() -> None:
    for file in (b"\x7fELF" + bytes(100), b"hello", MAGIC.replace(b"\r\n", b"\n") + bytes(99)):
        with pytest.raises(ImageError, match="not an image: it begins with"):
            Image.from_bytes(file)


def resealed(header: bytes, body: bytes) -> bytes:
    return header + hashlib.sha256(header + body).digest() + body


def test_other_versions_are_refused() -> None:
    file = bytearray(SAMPLE.to_bytes())
    file[8] = 2
    with pytest.raises(ImageError, match="image of format version 2; this reader knows 1"):
        Image.from_bytes(bytes(file))
    file[8], file[12] = 1, 1
    with pytest.raises(ImageError, match="corrupted"):
        Image.from_bytes(resealed(bytes(file[:40]), bytes(file[72:])))


MANIFEST: dict[str, Any] = {
    "machine_hash": "x",
    "units": [[0, "C", 32]],
    "operands": [],
    "relocations": [],
    "debug": [],
    "meta": {},
}


@pytest.mark.parametrize(
    "change",
    [
        {"machine_hash": 5},
        {"units": [[0, "C"]]},
        {"units": [[0, "C", "32"]]},
        {"units": [[0, "C", 64]]},
        {"units": [[0, "C", 64], [1, "C", -32]]},
        {"units": [[True, "C", 32]]},
        {"units": 3},
        {"units": [3]},
        {"operands": [["x", "in"]]},
        {"operands": [["x", "both", 3]]},
        {"operands": [["x", "in", -1]]},
        {"relocations": [[0, 0, 0]]},
        {"debug": [[0, 1, "f", 1, "g", "s"]]},
        {"debug": [[0, 0, "f", "1", "g", "s"]]},
        {"meta": {"a": 1}},
        {"meta": ["a"]},
        {"meta": None},
    ],
)
def test_manifests_that_make_no_sense(change: dict[str, Any]) -> None:
    def file(manifest: object) -> bytes:
        text = json.dumps(manifest).encode()
        header = struct.pack("<8sIIQQQ", MAGIC, 1, 0, len(text), 32, 0)
        return resealed(header, text + bytes(32))

    assert Image.from_bytes(file(MANIFEST)).units == (UnitProgram(0, "C", bytes(32)),)
    with pytest.raises(ImageError):
        Image.from_bytes(file(MANIFEST | change))
    for name in change:
        with pytest.raises(ImageError, match="makes no sense"):
            Image.from_bytes(file({k: v for k, v in MANIFEST.items() if k != name}))
    for manifest in ([], 3, "x"):
        with pytest.raises(ImageError, match="makes no sense"):
            Image.from_bytes(file(manifest))


def test_a_manifest_that_is_no_json() -> None:
    for text in (b"{", b"\xff", b""):
        header = struct.pack("<8sIIQQQ", MAGIC, 1, 0, len(text), 0, 0)
        with pytest.raises(ImageError, match="makes no sense"):
            Image.from_bytes(resealed(header, text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": b"\0" * 33}, "the data has 33 bytes, no whole words of 32"),
        ({"units": (UnitProgram(0, "C", b"\0"),)}, "program of unit 0 has 1 bytes"),
        ({"units": (UnitProgram(4, "C", b""),) * 2}, "node 4 is there twice"),
        ({"operands": (OperandInfo("x", "in", 1),) * 2}, "operand 'x' is there twice"),
        ({"operands": (OperandInfo("x", "inout", 1),)}, "not one of in, out, temp, data"),
        ({"relocations": (Relocation(2, 0, 0),)}, "relocation for unit 2: there are 2"),
        ({"relocations": (Relocation(-1, 0, 0),)}, "relocation for unit -1"),
        ({"relocations": (Relocation(0, 3, 0),)}, "unit 0, pc 3: its program has 3 words"),
        ({"relocations": (Relocation(0, 0, 2),)}, "names one of 2 operands"),
        ({"relocations": (Relocation(0, 0, -1),)}, "names one of 2 operands"),
        (
            {"relocations": (Relocation(0, 0, 0), Relocation(0, 0, 1))},
            r"relocation \(0, 0\) is there twice",
        ),
        ({"debug": (DebugEntry(1, 1, "", 1, "", ""),)}, "debug entry at unit 1, pc 1"),
    ],
)
def test_contradictions(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ImageError, match=message):
        replace(SAMPLE, **change)


def test_an_entry_holds_up_to_the_next() -> None:
    words = bytes(32 * 8)
    first, second, other = (
        DebugEntry(0, 2, "f", 1, "", ""),
        DebugEntry(0, 5, "f", 2, "", ""),
        DebugEntry(2, 0, "f", 3, "", ""),
    )
    units = tuple(UnitProgram(node, "C", words) for node in range(3))
    image = Image("", units, debug=(other, second, first))
    assert [image.locate(0, pc) for pc in range(8)] == [None] * 2 + [first] * 3 + [second] * 3
    assert [image.locate(1, pc) for pc in (0, 7)] == [None, None]
    assert [image.locate(2, pc) for pc in (0, 7)] == [other, other]
    assert Image("", units).locate(0, 0) is None


@st.composite
def images(draw: st.DrawFn) -> Image:
    text = st.text(max_size=8)
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    units = tuple(
        UnitProgram(node, draw(text), draw(st.binary(min_size=32, max_size=32)) * length)
        for node, length in enumerate(lengths)
    )
    names = draw(st.lists(text, min_size=1, max_size=4, unique=True))
    operands = tuple(
        OperandInfo(name, draw(st.sampled_from(OPERAND_KINDS)), draw(st.integers(0, 1 << 40)))
        for name in names
    )
    places = [(unit, pc) for unit, length in enumerate(lengths) for pc in range(length)]
    operand = st.integers(0, len(operands) - 1)
    subset = st.lists(st.sampled_from(places), unique=True)
    return Image(
        draw(text),
        units,
        draw(st.sampled_from((b"", b"\5" * 32, bytes(64)))),
        operands,
        tuple(Relocation(*place, draw(operand)) for place in draw(subset)),
        tuple(DebugEntry(*place, draw(text), 1, draw(text), draw(text)) for place in draw(subset)),
        draw(st.dictionaries(text, text, max_size=3)),
    )


@settings(max_examples=50)
@given(image=images())
def test_any_image_comes_back(image: Image) -> None:
    file = image.to_bytes()
    assert Image.from_bytes(file) == image
    assert Image.from_bytes(file).to_bytes() == file


@settings(max_examples=100)
@given(noise=st.binary(max_size=200), magic=st.booleans())
def test_noise_is_no_image(noise: bytes, magic: bool) -> None:
    with pytest.raises(ImageError):
        Image.from_bytes(MAGIC + b"\1\0\0\0" + noise if magic else noise)
