"""What landing must do with each flit, one source at a time, from the table of `hw.noc.flit`."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hw.noc.flit import Buffer, Form, Kind
from kohakutpu.numerics.scalar import mx

MASK = (1 << 14) - 1


@dataclass(frozen=True)
class Write:
    """One write of an entry; `elements` and `scales` are lanes, data of other lanes is 0."""

    in_b: bool
    entry: int
    elements: int
    scales: int
    block: int
    scale: int


@dataclass(frozen=True)
class Landed:
    """An acknowledgement that is due."""

    requester: int
    tag: int


@cache
def quantised(first: int, second: int, residual: bool) -> tuple[int, int]:
    """Return block and scale of two words."""
    words = first | second << 256
    codes = [words >> 16 * n & 0xFFFF for n in range(32)]
    elements, scale = mx.quantise_block(codes, residual)
    return sum((e & 0xFF) << 8 * n for n, e in enumerate(elements)), scale


def lane_write(landing: dict[str, int], entry: int, lane: int, first: int, second: int) -> Write:
    block, scale = quantised(first, second, bool(landing["residual"]))
    in_b = landing["buffer"] == Buffer.L1B.value
    return Write(in_b, entry & MASK, 1 << lane, 1 << lane, block, scale << 8 * lane)


@dataclass
class Source:
    """Whatever one node sent so far."""

    held: dict[int, int] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    entry: int = 0  # of packed entries, whose scales came

    def events(self, flit: dict[str, Any]) -> list[Write | Landed]:
        """Return what a flit of this source does, in order."""
        fields, landing = flit["fields"]["data"], flit["fields"]["data"]["landing"]
        if flit["kind"] == Kind.CLEAR.value:
            events = self._clear(landing, flit["word"]["clear"])
        else:
            form = Form(landing["form"])
            events = getattr(self, f"_{form.name.lower()}")(fields, landing, flit["word"]["raw"])
        if fields["ack"]:
            events.append(Landed(fields["requester"], fields["tag"]))
        return events

    def _clear(self, landing: dict[str, int], clear: dict[str, int]) -> list[Write | Landed]:
        in_b, lanes = landing["buffer"] == Buffer.L1B.value, clear["lanes"]
        return [
            Write(in_b, landing["offset"] + row * landing["stride"] + w & MASK, lanes, lanes, 0, 0)
            for row in range(clear["rows"])
            for w in range(clear["words"])
        ]

    def _rows(self, fields: Any, landing: Any, word: int) -> list[Write | Landed]:
        lane, half = landing["detail"] & 3, landing["detail"] >> 2 & 1
        if half:
            return [lane_write(landing, landing["offset"], lane, self.held.pop(lane), word)]
        if fields["row_last"]:
            return [lane_write(landing, landing["offset"], lane, word, 0)]
        self.held[lane] = word
        return []

    def _columns(self, fields: Any, landing: Any, word: int) -> list[Write | Landed]:
        assert landing["detail"] == len(self.rows)
        self.rows.append(word)
        if not fields["last"]:
            return []
        rows, self.rows = self.rows + [0] * (32 - len(self.rows)), []
        events: list[Write | Landed] = []
        for e in range(4 * (fields["last_element"] // 4) + 4):
            column = [row >> 16 * e & 0xFFFF for row in rows]
            first = sum(code << 16 * n for n, code in enumerate(column[:16]))
            second = sum(code << 16 * n for n, code in enumerate(column[16:]))
            entry = landing["offset"] + e // 4 * landing["stride"]
            events.append(lane_write(landing, entry, e % 4, first, second))
        return events

    def _elements(self, fields: Any, landing: Any, word: int) -> list[Write | Landed]:
        in_b = landing["buffer"] == Buffer.L1B.value
        return [Write(in_b, landing["offset"], 1 << landing["detail"], 0, word, 0)]

    def _scales(self, fields: Any, landing: Any, word: int) -> list[Write | Landed]:
        if fields["first"]:
            self.entry = 0
        in_b, nk = landing["buffer"] == Buffer.L1B.value, landing["detail"]
        events: list[Write | Landed] = []
        for n in range(fields["last_element"] // 2 + 1):
            group, block = divmod(self.entry, nk)
            entry = landing["offset"] + group * landing["stride"] + block & MASK
            events.append(Write(in_b, entry, 0, 15, 0, word >> 32 * n & 0xFFFFFFFF))
            self.entry += 1
        return events
