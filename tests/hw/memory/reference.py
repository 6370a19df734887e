"""What a memory port must answer, from bytes and the table of `hw.noc.flit`."""

from dataclasses import dataclass

from hw.noc import flit as noc
from hw.noc.flit import Form, Kind
from tests.hw.flits import flit


@dataclass(frozen=True)
class Read:
    """A descriptor."""

    address: int
    rows: int
    elements: int
    stride: int
    nodes: int
    form: Form = Form.LINEAR
    buffer: noc.Buffer = noc.Buffer.VECTOR
    residual: bool = False
    offset: int = 0
    l1_stride: int = 0
    nk: int = 0
    ack: bool = False
    tag: int = 0
    pc: int = 0

    def landing(self, offset: int, detail: int) -> dict[str, object]:
        return {
            "buffer": self.buffer,
            "form": self.form,
            "residual": self.residual,
            "offset": offset % (1 << 14),
            "stride": self.l1_stride,
            "detail": detail,
        }

    def flit(self, source: int, dest: int) -> int:
        """Return the READ."""
        word = {
            "address": self.address,
            "rows": self.rows,
            "elements": self.elements,
            "stride": self.stride,
            "landing": self.landing(self.offset, self.nk),
            "nodes": self.nodes,
            "ack": self.ack,
            "tag": self.tag,
            "pc": self.pc,
        }
        return flit(dest=1 << dest, source=source, kind=Kind.READ, word={"read": word})

    def bytes_of(self, row: int) -> tuple[int, int]:
        """Return the first byte of a row in memory, and how many are data."""
        return 8 * self.address + 32 * self.stride * row, 2 * self.elements

    def place(self, row: int, word: int) -> tuple[int, int]:
        """Return offset and detail, by the table."""
        match self.form:
            case Form.LINEAR:
                return self.offset + row * self.l1_stride + word, 0
            case Form.ROWS:
                entry = self.offset + row // 4 * self.l1_stride + word // 2
                return entry, row % 4 + 4 * (word % 2)
            case Form.COLUMNS:
                return self.offset, row
            case Form.ELEMENTS:
                return self.offset + row * self.l1_stride + word // 4, word % 4
            case Form.SCALES:
                return self.offset, self.nk
        raise AssertionError(self.form)

    def answer(self, memory: bytearray, port: int, requester: int) -> list[int]:
        """Return the DATA flits that `memory` gives."""
        flits = []
        words = -(-self.elements // 16)
        for row in range(self.rows):
            start, length = self.bytes_of(row)
            line = bytes(memoryview(memory)[start : start + length]).ljust(32 * words, b"\0")
            for word in range(words):
                offset, detail = self.place(row, word)
                row_last = word == words - 1
                last = row_last and row == self.rows - 1
                fields = {
                    "landing": self.landing(offset, detail),
                    "last_element": (self.elements - 1) % 16 if row_last else 15,
                    "first": row == 0 and word == 0,
                    "row_last": row_last,
                    "last": last,
                    "ack": last and self.ack,
                    "requester": requester,
                    "tag": self.tag,
                }
                flits.append(
                    flit(
                        dest=self.nodes,
                        source=port,
                        kind=Kind.DATA,
                        fields={"data": fields},
                        word={"raw": int.from_bytes(line[32 * word : 32 * word + 32], "little")},
                    )
                )
        return flits
