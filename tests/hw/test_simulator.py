import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Fragment, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arithmetic.pipeline import Stages
from hw.sim import cache, toolchain
from hw.sim.simulator import Simulator


class Accumulator(wiring.Component):
    """Ports of every size, a nested one, state."""

    def __init__(self) -> None:
        super().__init__(
            {
                "wide": In(data.ArrayLayout(signed(8), 32)),
                "pair": In(wiring.Signature({"left": Out(33), "right": In(33)})),
                "bit": In(1),
                "sum": Out(signed(24)),
                "turned": Out(256),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(24)
        m.d.sync += count.eq(count + self.bit)
        m.d.sync += self.sum.eq(sum(self.wide[i] for i in range(32)) + count)
        m.d.comb += self.pair.right.eq(~self.pair.left)
        m.d.comb += self.turned.eq(self.wide.as_value().rotate_left(32))
        return m


class Inverter(wiring.Component):
    """Nothing to clock."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(~self.i)
        return m


cocotb = pytest.mark.cocotb


@cocotb
def test_values_pass_through() -> None:
    rng = np.random.default_rng(1)
    wide = rng.integers(0, 1 << 32, (50, 8), np.uint32)
    left = rng.integers(0, 1 << 33, 50, np.uint64)
    out = Simulator(Accumulator()).cycles(bit=1, wide=wide, pair__left=left)
    assert out.keys() == {"pair__right", "sum", "turned"}
    assert (out["turned"] == np.roll(wide, 1, axis=1)).all()
    assert (out["pair__right"] == left ^ ((1 << 33) - 1)).all()
    sums = wide.view(np.int8).sum(axis=1, dtype=np.int64) + np.arange(50)
    assert (out["sum"] == np.insert(sums[:-1], 0, 0) % (1 << 24)).all()


@cocotb
def test_a_run_starts_afresh_and_pads_with_zeros() -> None:
    simulator = Simulator(Accumulator())
    for _ in range(2):
        out = simulator.cycles(6, wide=np.zeros((1, 8), np.uint32), pair__left=[7], bit=[1, 1, 1])
        assert out["sum"].tolist() == [0, 0, 1, 2, 3, 3]
        assert out["pair__right"].tolist() == [(1 << 33) - 8] + [(1 << 33) - 1] * 5


@cocotb
def test_combinational() -> None:
    assert Simulator(Inverter()).stream(0, i=np.arange(16))["o"].tolist() == list(range(16))[::-1]


@cocotb
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": [1]}, r"inputs must be \['i'\], not \['x'\]"),
        ({"i": [[1, 2]]}, r"i must have shape \(1,\), not \(1, 2\)"),
        ({"i": [16]}, r"i holds 16, above its 4 bits"),
    ],
)
def test_wrong_inputs(inputs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Simulator(Inverter()).cycles(**inputs)


def test_stages_count_and_keep_shapes() -> None:
    m = Module()
    stage = Stages(m)
    first = stage(x=Signal(3), y=Signal(signed(5)))
    stage(z=first.x + first.y)
    assert stage.count == 2
    assert first.y.shape() == signed(5)
    assert first.x.name == "x_1"
    Fragment.get(m, None)


def build(log: Path, name: str, work: Path) -> None:
    time.sleep(0.2)
    with log.open("a") as file:
        file.write("built\n")
    (work / "result").write_text(name)


def ask(log: Path) -> str:
    return (cache.obtain("thing", ["a", "b"], partial(build, log, "x")) / "result").read_text()


def test_processes_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path / "cache"))
    log = tmp_path / "log"
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(ask, [log] * 3) == ["x"] * 3
    assert log.read_text() == "built\n"
    assert ask(log) == "x"
    assert cache.obtain("thing", ["ab"], partial(build, log, "y")) != cache.obtain(
        "thing", ["a", "b"], partial(build, log, "x")
    )


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path))

    def fail(work: Path) -> None:
        (work / "half").write_text("done")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.obtain("thing", ["a"], fail)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path))
    target = cache.obtain("thing", ["a"], lambda work: None)
    target.rmdir()
    left = tmp_path / f".{target.name}-x"
    left.mkdir()
    assert cache.obtain("thing", ["a"], lambda work: None) == target
    assert not left.exists()


@pytest.fixture
def uncached() -> Iterator[None]:
    toolchain.find.cache_clear()
    yield
    toolchain.find.cache_clear()


@pytest.mark.usefixtures("uncached")
class TestTools:
    def test_missing_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(toolchain.REQUIRED, "no-such-simulator", ((1, 2), (2,)))
        with pytest.raises(toolchain.ToolError, match=r"no-such-simulator >= 1\.2, < 2; it is not"):
            toolchain.find()

    def test_old_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(toolchain.REQUIRED, "numpy", ((999,), (1000,)))
        with pytest.raises(
            toolchain.ToolError, match=r"numpy >= 999, < 1000, not .*kohakutpu\[rtl"
        ):
            toolchain.find()

    def test_no_compiler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        with pytest.raises(toolchain.ToolError, match=r"compiler called g\+\+"):
            toolchain.find()

    def test_a_command_that_fails(self) -> None:
        with pytest.raises(toolchain.ToolError, match=r"false\nfailed with status 1"):
            toolchain.run(["false"])
