import re
from pathlib import Path
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data

from hw.noc import flit
from tests.hw.flits import pack, parts, unpack

PAGE = Path(__file__).parents[3] / "docs" / "hardware.md"
TABLES: dict[str, Any] = {
    "flit": flit.Flit,
    "fields of DATA, CLEAR": flit.DataFields,
    "landing": flit.Landing,
    "fields of WRITE": flit.WriteFields,
    "fields of POST": flit.PostFields,
    "fields of ACK": flit.AckFields,
    "fields of CREDIT": flit.CreditFields,
    "fields of KICK": flit.KickFields,
    "fields of REPORT": flit.ReportFields,
    "word of READ": flit.ReadWord,
    "word of CLEAR": flit.ClearWord,
    "word of KICK": flit.KickWord,
}


def documented(title: str) -> dict[str, tuple[int, int]]:
    """Return first and last bit of each field in the table of that title."""
    text = PAGE.read_text()
    table = text[text.index(f"| {title} | bits |") :].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d+)(?:-(\d+))? \|", table, re.MULTILINE)
    return {name: (int(low), int(high or low)) for name, low, high in rows}


def test_the_page_shows_the_layout() -> None:
    for title, shape in TABLES.items():
        expected = {
            name: (field.offset, field.offset + Shape.cast(field.shape).width - 1)
            for name, field in data.Layout.cast(shape)
        }
        assert documented(title) == expected, title


def test_the_page_lists_the_kinds() -> None:
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| `kind` |"))
    listed = {name: int(number) for number, name in re.findall(r"(\d+) ([A-Z]+)", row)}
    assert listed == {kind.name: kind.value for kind in flit.Kind}


def test_members_do_not_touch_each_other() -> None:
    for shape in TABLES.values():
        layout = data.Layout.cast(shape)
        taken = 0
        for name, field in layout:
            ones = pack(shape, {name: (1 << Shape.cast(field.shape).width) - 1})
            assert not taken & ones
            taken |= ones
        assert taken.bit_length() <= layout.size


def test_a_read_by_hand() -> None:
    landing = {
        "buffer": flit.Buffer.L1B, "form": flit.Form.COLUMNS, "residual": 1, "offset": 5,
        "stride": 3, "detail": 0,
    }  # fmt: skip
    word = {
        "address": 0x2_0000_0001, "rows": 32, "elements": 16, "stride": 7, "landing": landing,
        "nodes": 0b1001, "ack": 1, "tag": 6, "pc": 9,
    }  # fmt: skip
    bits = pack(flit.Flit, {"dest": 4, "source": 3, "kind": flit.Kind.READ, "word": {"read": word}})
    by_hand = 4 | 3 << 16
    by_hand |= (0x2_0000_0001 | 32 << 34 | 16 << 46 | 7 << 63) << 84
    by_hand |= (2 | 2 << 2 | 1 << 5 | 5 << 6 | 3 << 20) << 84 + 87
    by_hand |= (0b1001 << 131 | 1 << 147 | 6 << 148 | 9 << 151) << 84
    assert bits == by_hand
    assert parts(bits)["word"]["read"]["rows"] == 32
    assert unpack(flit.ReadWord, bits >> 84)["landing"]["stride"] == 3
