"""The page on area is what was measured, with the machine of today."""

import json
from pathlib import Path

import pytest

from hw.synth.document import largest
from hw.synth.ecp5 import ECP5
from hw.synth.utilisation import Row, Utilisation
from kohakutpu.config import preset

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "synthesis.json"


@pytest.fixture(scope="module")
def measured() -> Utilisation:
    return Utilisation.from_json(json.loads(MEASURED.read_text()))


def test_the_machine_is_that_of_today(measured: Utilisation) -> None:
    machine = preset(measured.machine)
    update = "run: ktpu synth --machine tiny --json docs/synthesis.json"
    assert (measured.machine, measured.hash) == ("tiny", machine.hash), update
    parts = {row.path for row in measured.rows if row.depth == 1}
    units = {f"top/unit_{node.id}" for kind in "CV" for node in machine.of_kind(kind)}
    ports = {f"top/memory_{node.id}" for node in machine.of_kind("M")}
    assert parts == units | ports | {"top/control", "top/mesh"}


def test_every_row_is_the_sum_of_its_parts(measured: Utilisation) -> None:
    rows = measured.rows
    for index, row in enumerate(rows):
        total = dict(row.own)
        for below in rows[index + 1 :]:
            if not below.path.startswith(f"{row.path}/"):
                break
            if below.depth == row.depth + 1:
                for kind, count in below.total.items():
                    total[kind] += below.copies * count
        assert total == row.total, row.path


def test_the_largest_rows_count_every_copy() -> None:
    def row(path: str, copies: int, luts: int) -> Row:
        cells = dict.fromkeys(ECP5.kinds, 0) | {"LUT4": luts}
        return Row(path, copies, cells, cells)

    rows = [row("top", 1, 5), row("top/a", 2, 1), row("top/a/b.c", 3, 7), row("top/d", 1, 8)]
    used = Utilisation("m", "h", "ulx3s-85f", "d", {}, {}, {}, rows)
    assert largest(used, 3) == [
        ("a/b.c", "42", "0", "0", "0"),
        ("d", "8", "0", "0", "0"),
        ("top", "5", "0", "0", "0"),
    ]
