"""Cutting a design into modules, and adding up what they take."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.synth import boards
from hw.synth.ecp5 import ECP5
from hw.synth.family import Family
from hw.synth.gw5a import GW5A
from hw.synth.netlist import Netlist, canonical, read
from hw.synth.utilisation import CellError, Row, Utilisation, survey


class Leaf(wiring.Component):
    """One gate, or another where it is `odd`."""

    def __init__(self, odd: bool = False) -> None:
        self.odd = odd
        super().__init__({"a": In(1), "b": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(self.a ^ self.b if self.odd else self.a & self.b)
        return m


class Chain(wiring.Component):
    """Components one behind the other."""

    def __init__(self, *parts: wiring.Component) -> None:
        self.parts = parts
        super().__init__({"a": In(1), "b": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value = self.a
        for number, part in enumerate(self.parts):
            m.submodules[f"part_{number}"] = part
            m.d.comb += [part.a.eq(value), part.b.eq(self.b)]
            value = part.o
        m.d.comb += self.o.eq(value)
        return m


def netlist(component: wiring.Component, depth: int) -> Netlist:
    return read(rtlil.convert(component, name="top", emit_src=False), depth)


def test_copies_are_one_module() -> None:
    design = netlist(Chain(Leaf(), Leaf(odd=True), Leaf()), 0)
    _, below = design.parts(design.top)
    assert [name for name, _ in below] == ["part_0", "part_2"]
    assert below[0][1].digest == below[1][1].digest
    assert len(design.modules()) == 2


def test_what_is_alone_and_deep_belongs_to_the_module_above() -> None:
    inner = Chain(Leaf(odd=True))
    design = netlist(Chain(inner), 1)
    chain = design.parts(design.top)[1][0][1]
    assert [m.path for m in design.parts(chain)[0]] == ["top.part_0", "top.part_0.part_0"]
    assert "cell $xor" in design.text(chain)
    text = design.text(design.top)
    assert "cell $xor" not in text
    assert f"attribute \\blackbox 1\nmodule {chain.synonym}\n" in text
    for port in ("input 0 \\a", "input 1 \\b", "output 2 \\o"):
        box = text.split("blackbox")[1]
        assert " ".join(box.split()).count(port) == 1


def test_the_text_depends_on_contents_alone() -> None:
    once = netlist(Chain(Leaf(), Leaf()), 1)
    design = netlist(Chain(Leaf(odd=True), Chain(Leaf(), Leaf())), 2)
    deeper = design.parts(design.top)[1][1][1]
    leaf, same = once.modules()[1], design.parts(deeper)[1][0][1]
    assert once.text(leaf) == design.text(same)
    other = design.parts(design.top)[1][0][1]
    assert other.digest != same.digest


def test_ports_in_canonical_form() -> None:
    body = (
        "  wire width 3 \\here\n\n"
        "  wire width 2 input 0  \\port$7$3\n\n"
        "  wire width 21 output 1 signed \\o\n\n"
        "  wire width 1 input 2  \\port$9$0\n\n"
        "  wire width 1 input 3  \\a\n\n"
        "connect \\o { \\port$9$0 [0] \\a \\port$7$3 }\n"
    )
    text, names = canonical(body)
    assert text == (
        "  wire width 1 input 0 \\a\n"
        "  wire width 21 signed output 1 \\o\n"
        "  wire width 1 input 2 \\port.0\n"
        "  wire width 2 input 3 \\port.1\n"
        "  wire width 3 \\here\n\n"
        "connect \\o { \\port.0 [0] \\a \\port.1 }\n"
    )
    assert names == {
        "\\port$7$3": "\\port.1", "\\o": "\\o", "\\port$9$0": "\\port.0", "\\a": "\\a"
    }  # fmt: skip


def fake(family: Family, label: str, top: str, text: str) -> dict[str, int]:
    body = text.split("attribute \\blackbox")[0]
    boxes: dict[str, int] = {}
    for line in body.splitlines():
        if line.startswith("  cell \\m"):
            kind = line.split()[1].removeprefix("\\")
            boxes[kind] = boxes.get(kind, 0) + 1
    return {"LUT4": body.count("cell $and"), "CCU2C": body.count("cell $xor"), **boxes}


def test_rows_add_up() -> None:
    seen: list[tuple[str, int, int]] = []
    inner = Chain(Leaf(), Leaf(), Leaf(odd=True))
    rows = survey(Chain(inner, Leaf()), ECP5, lambda *what: seen.append(what), fake)
    assert seen[0] == ("top", 0, len(seen))
    assert [done for _, done, _ in seen] == list(range(len(seen)))
    table = {row.path: row for row in rows}
    assert list(table) == [
        "top",
        "top/part_0",
        "top/part_0/part_0",
        "top/part_0/part_2",
        "top/part_1",
    ]
    assert table["top/part_0/part_0"].copies == 2
    assert table["top/part_0/part_0"].total["LUT4"] == 1
    assert table["top/part_0"].own["LUT4"] == 0
    assert table["top/part_0"].total["LUT4"] == 2
    assert table["top"].total["LUT4"] == 3
    assert table["top"].total["CCU2C"] == 1
    assert [row.depth for row in rows] == [0, 1, 2, 2, 1]


@pytest.mark.parametrize("left", ["$and", "$mem_v2", "OSCG", "m0123456789abcdef"])
def test_cells_that_are_nothing_of_the_fpgas_are_refused(left: str) -> None:
    cells = {"LUT4": 1, left: 1, "$scopeinfo": 3}
    with pytest.raises(CellError, match="top has cells that are nothing of the FPGA's: ") as error:
        survey(Leaf(), ECP5, lambda *what: None, lambda *what: cells)
    assert str(error.value).endswith(left)


def test_luts_are_sites() -> None:
    cells = {"LUT4": 10, "CCU2C": 3, "DPR16X4": 2, "PFUMX": 9, "FF": 7, "DP16KD": 1}
    assert ECP5.taken(cells) == {"LUT4": 28, "FF": 7, "MULT18X18D": 0, "DP16KD": 1}


def test_cells_of_another_family() -> None:
    """Several names are one kind; a large multiplier takes both small ones of its block."""
    made = {"LUT2": 3, "LUT4": 10, "ALU": 5, "RAM16SDP4": 2, "DFFRE": 6, "DFFSE": 1, "IBUF": 2}
    made |= {"MULT12X12": 7, "MULTALU27X18": 4, "DPX9B": 8, "SPX9": 2, "GND": 1}
    counts = GW5A.count(made)
    assert counts == {
        "LUT4": 13, "ALU": 5, "RAM16": 2, "FF": 7, "MULT12X12": 7, "MULTALU": 4, "BSRAM": 10
    }  # fmt: skip
    assert GW5A.taken(counts) == {"LUT4": 34, "FF": 23, "MULT12X12": 15, "BSRAM": 10}
    assert GW5A.unknown(made) == ["IBUF"]


def used(luts: int, multipliers: int) -> Utilisation:
    board = boards.board("ulx3s-85f")
    cells = {"LUT4": luts, "MULT18X18D": multipliers}
    row = Row("top", 1, cells, cells)
    return Utilisation(
        "tiny", "h", board.name, board.device, dict(board.limits), dict(board.budget), {}, [row]
    )


def test_a_budget_is_met_exactly_or_not() -> None:
    assert used(65_000, 150).over == []
    assert used(65_001, 151).over == ["65,001 LUT4 > 65,000", "151 MULT18X18D > 150"]


def test_json_keeps_everything() -> None:
    assert Utilisation.from_json(used(5, 6).as_json()) == used(5, 6)


def test_an_unknown_board_is_refused() -> None:
    with pytest.raises(boards.BoardError, match="no board is called 'x'; there are ulx3s-85f"):
        boards.board("x")
