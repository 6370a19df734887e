"""A whole simulated machine, apart from what its units compute: waves, threads, memory."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hw.sim import cache
from hw.sim.machine import SimulatedMachine, Waves, build
from hw.sim.model import Variant
from kohakutpu import isa
from kohakutpu.config import WORD_BYTES, preset
from kohakutpu.control import unit_table
from kohakutpu.devices.host import Host
from tests.hw.common.dummy import Dummy

TINY = preset("tiny")
CORE = TINY.of_kind("V")[0].id
WORDS = 1 << 10
COPY = """\
vfill mem={source} stride=0 l1=0 l1_stride=0 rows=1 row_extent=1 cols=16 col_extent=16 format=fp16 \
; post n{core}:s0
vdrain l1=0 l1_stride=0 rows=1 row_extent=1 cols=16 col_extent=16 format=fp16 order=row to=memory \
mem={target} stride=0 ; wait s0>=1
halt
"""


@pytest.fixture(scope="module")
def library() -> Path:
    return build(TINY)


def copy(simulated: SimulatedMachine, source: int, target: int) -> int:
    """Copy a word of memory by a program, and return its cycles."""
    text = COPY.format(source=4 * source, target=4 * target, core=CORE)
    words = b"".join(isa.encode(instruction) for instruction in isa.assemble(text, "V"))
    simulated.memory[: len(words)] = np.frombuffer(words, np.uint8)
    outcome = Host(TINY, simulated, 1000).run([(CORE, 0, len(words) // WORD_BYTES)])
    assert outcome.fault is None
    return outcome.cycles


def word(simulated: SimulatedMachine, index: int) -> bytes:
    return simulated.memory[index * WORD_BYTES : (index + 1) * WORD_BYTES].tobytes()


@pytest.mark.cocotb
def test_two_threads_have_two_machines(library: Path) -> None:
    def work(seed: int) -> list[int]:
        rng = np.random.default_rng(seed)
        with SimulatedMachine(TINY, library, memory_words=WORDS, latency=seed) as simulated:
            cycles = []
            for target in range(100, 200):
                content = rng.integers(0, 256, WORD_BYTES, np.uint8)
                simulated.memory[50 * WORD_BYTES : 51 * WORD_BYTES] = content
                cycles.append(copy(simulated, 50, target))
                assert word(simulated, target) == content.tobytes()
            return cycles

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, (10, 30))
    assert len(set(first)) == len(set(second)) == 1
    assert first[0] < second[0]


@pytest.mark.cocotb
@pytest.mark.slow  # a simulator of its own
def test_waves_of_a_scope_and_a_window(tmp_path: Path) -> None:
    path = tmp_path / "run.vcd"
    scope = f"top.top.unit_{CORE}.shell"
    library = build(TINY, Dummy, "dummy", variant=Variant.WAVES)
    waves = Waves(path, scope, 30, 90)
    with SimulatedMachine(TINY, library, memory_words=WORDS, waves=waves) as simulated:
        copy(simulated, 50, 100)
    text = path.read_text()
    where: list[str] = []
    signals = set()
    for line in text.splitlines():
        match line.split():
            case ["$scope", _, name, *_]:
                where.append(name)
            case ["$upscope", *_]:
                where.pop()
            case ["$var", *_]:
                signals.add(".".join(where))
    assert f"TOP.{scope}.semaphores" in signals
    assert all(f"{signal}.".startswith(f"TOP.{scope}.") for signal in signals)
    times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.MULTILINE)]
    assert times
    assert min(times) >= 60
    assert max(times) < 180
    missing = Waves(tmp_path / "no" / "run.vcd")
    with pytest.raises(OSError, match="cannot record waves"):
        SimulatedMachine(TINY, library, memory_words=WORDS, waves=missing)


@pytest.mark.cocotb
def test_a_fast_model_has_no_waves(library: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot record waves"):
        SimulatedMachine(TINY, library, memory_words=WORDS, waves=Waves(tmp_path / "a.vcd"))


@pytest.mark.cocotb
def test_another_configuration_is_refused(library: Path) -> None:
    with SimulatedMachine(TINY, library, memory_words=WORDS) as simulated:
        with pytest.raises(RuntimeError, match="small is 85ee"):
            Host(preset("small"), simulated)


def test_unit_table_by_hand() -> None:
    # Quarter of the program, then its length from bit 34, then the node from bit 54.
    entry = (64 // 8) | 3 << 34 | 5 << 54
    assert unit_table([(5, 64, 3), (0, 0, 1)]) == b"".join(
        value.to_bytes(32, "little") for value in (entry, 1 << 34)
    )


def test_where_builds_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KTPU_CACHE", str(tmp_path / "chosen"))
    assert cache.folder() == tmp_path / "chosen"
    monkeypatch.delenv("KTPU_CACHE")
    assert cache.folder() == cache.ROOT / "build" / "rtl"
    monkeypatch.setattr(cache, "ROOT", tmp_path)  # as installed
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "kohakutpu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "kohakutpu"
