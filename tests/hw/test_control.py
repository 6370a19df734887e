"""The register map in the page is the one that is built."""

import re
from pathlib import Path

import pytest

from hw.common.counters import COUNT_BITS, NAMES
from hw.control.node import Entry
from hw.control.registers import (
    COUNTER_BITS,
    COUNTERS,
    VERSION,
    FaultReport,
    Register,
    Status,
)
from hw.noc.flit import Cause
from kohakutpu.config import QUARTER_BYTES
from kohakutpu.control import CAUSES, fault, unit_table

PAGE = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text()


def test_registers() -> None:
    rows = re.findall(r"^\| 0x([0-9a-f]+) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert [(int(address, 16), name) for address, name in rows] == [
        (register.value, register.name) for register in Register
    ]
    assert f"of this map: {VERSION}" in PAGE
    assert f"0x{COUNTERS:x} | counters" in PAGE
    assert COUNTERS > max(Register)


def test_layouts() -> None:
    places = {
        name: (field.offset, field.offset + field.width - 1)
        for struct in (Entry, Status, FaultReport)
        for name, field in struct.as_shape()
    }
    assert places == {
        "address": (0, 33), "instructions": (34, 53), "node": (54, 57),
        "busy": (0, 0), "done": (1, 1), "fault": (2, 2),
        "pc": (0, 19), "cause": (20, 23), "unit": (24, 27),
    }  # fmt: skip


def test_counters_fit_what_a_node_has() -> None:
    assert len(NAMES) == 14
    assert len(NAMES) <= 1 << COUNTER_BITS
    assert "64 bytes a node" in PAGE
    assert COUNT_BITS // 8 << COUNTER_BITS == 64


def test_the_host_writes_the_unit_table_that_is_read() -> None:
    entry = Entry.const({"address": 0x3_1234_5678, "instructions": 0xABCDE, "node": 13})
    table = unit_table([(13, 0x3_1234_5678 * QUARTER_BYTES, 0xABCDE)])
    assert table == entry.as_bits().to_bytes(32, "little")


def test_the_host_reads_the_faults_that_are_reported() -> None:
    assert [cause.name for cause in Cause][1:] == list(CAUSES)
    report = FaultReport.const({"pc": 0xABCDE, "cause": Cause.WATCHDOG, "unit": 13})
    assert fault(report.as_bits()) == (13, 0xABCDE, "WATCHDOG")
    with pytest.raises(ValueError, match="cause 12"):
        fault(12 << 20)
