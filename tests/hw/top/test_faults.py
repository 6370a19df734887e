"""The same fault on both machines, with the same unit, pc and cause; then a good program."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hw.sim import model
from kohakuaccel.runtime.device import DeviceFault, Program
from kohakutpu import isa
from kohakutpu.config import WORD_BYTES, preset
from kohakutpu.isa import Address, Destination, Extent, Flag, Post, Source, Wait
from tests.hw.top.twin import WORDS, Twin

pytestmark = pytest.mark.cocotb

TINY = preset("tiny")
C, V = 0, 1
DATA = 4096  # word
ORIGIN, NONE = Address(0, 0), Extent(0, 0)
OFF = Flag(False, 0)
MANY = 1 << 14


@pytest.fixture(scope="module")
def twin() -> Iterator[Twin]:
    device = Twin(TINY, model.build(TINY))
    device.write(DATA * WORD_BYTES, np.random.default_rng(1).bytes(64 * WORD_BYTES))
    yield device
    device.close()


def run(twin: Twin, programs: Mapping[int, Sequence[Any]]) -> None:
    kinds = {node.id: node.kind for node in TINY.nodes}
    table, address = [], 0
    for node, program in programs.items():
        words = b"".join(i if isinstance(i, bytes) else isa.encode(i) for i in program)
        twin.write(address, words)
        table.append(Program(node, kinds[node], address, len(words) // WORD_BYTES))
        address += len(words)
    twin.load(table)
    twin.run()


def fill(l1: int = 0, mem: int = 4 * DATA, g: int = 2, nk: int = 2, **more: Any) -> Any:
    return isa.FILL("A", Address(0, l1), nk, Address(0, mem), 4, g, nk, Extent(4 * g, 0),
                    Extent(32 * nk, 0), "fp16", **more)  # fmt: skip


def gemm(a: int = 0, acc: int = 0, gm: int = 1, **more: Any) -> Any:
    return isa.GEMM(Address(0, a), ORIGIN, Address(0, acc), gm, 1, 1, 1, 1, OFF, **more)


def drain(mem: int = 4 * DATA, order: str = "row", gm: int = 1, **more: Any) -> Any:
    extents = (NONE, NONE) if order == "tile" else (Extent(4 * gm, 0), Extent(4, 0))
    return isa.DRAIN(ORIGIN, gm, 1, "memory", Address(0, mem), 1, *extents, "fp16", order,
                     **more)  # fmt: skip


def vfill(l1: int = 0, mem: int = 4 * DATA, rows: int = 2, **more: Any) -> Any:
    return isa.VFILL(Address(0, mem), 1, Address(0, l1), 1, rows, Extent(rows, 0), 16,
                     Extent(16, 0), "fp16", **more)  # fmt: skip


def vdrain(l1: int = 0, mem: int = 4 * DATA + 400, rows: int = 2, **more: Any) -> Any:
    return isa.VDRAIN(Address(0, l1), 1, rows, Extent(rows, 0), 16, Extent(16, 0), "fp16", "row",
                      "memory", Address(0, mem), 1, **more)  # fmt: skip


def execute(a: Source, dst: Destination, rows: int = 2, cols: int = 4) -> Any:
    return isa.EXEC(rows, cols, "mac", a, dst=dst)


def reg(base: int, stride: int = 1) -> Source:
    return Source.reg(Address(0, base), stride)


def to_reg(base: int, stride: int = 1) -> Destination:
    return Destination.reg(Address(0, base), stride)


GOOD = {
    C: [fill(posts=(Post(C, 0),)), isa.SYNC(2, waits=(Wait(0),)), isa.HALT()],
    V: [vfill(posts=(Post(V, 0),)), vdrain(waits=(Wait(0),)), isa.HALT()],
}
SET = isa.SETA(1, 1)

FAULTS: dict[str, tuple[dict[int, list[Any]], str]] = {
    "illegal opcode": ({C: [SET, b"\xff" * 32], V: [isa.HALT()]}, "ILLEGAL"),
    "an instruction of the other kind": ({C: [SET, isa.encode(vfill())]}, "ILLEGAL"),
    "a receiver of the wrong kind": ({C: [fill(nodes=1 << V), isa.HALT()]}, "ILLEGAL"),
    "past the end": ({V: [SET, SET]}, "LOOP_DEPTH"),
    "fill past L1": ({C: [SET, fill(l1=TINY.l1_entries - 3), isa.HALT()]}, "L1_RANGE"),
    "fill at a far address": ({C: [isa.SETA(1, MANY), isa.FILL(
        "B", Address(1, 5), 1, Address(0, 4 * DATA), 1, 1, 1, NONE, NONE, "fp16"),
        isa.HALT()]}, "L1_RANGE"),
    "gemm past L1": ({C: [gemm(a=TINY.l1_entries - 1, gm=2), isa.HALT()]}, "L1_RANGE"),
    "gemm past accumulator": ({C: [gemm(acc=TINY.acc_subtiles), isa.HALT()]}, "ACC_RANGE"),
    "drain past accumulator": ({C: [drain(gm=TINY.acc_subtiles + 1), isa.HALT()]}, "ACC_RANGE"),
    "misaligned fill": ({C: [fill(mem=4 * DATA + 1), isa.HALT()]}, "MISALIGNED"),
    "misaligned tile": ({C: [drain(mem=4 * DATA + 2, order="tile"), isa.HALT()]}, "MISALIGNED"),
    "fill past memory": ({C: [fill(mem=4 * TINY.dram_words - 4), isa.HALT()]}, "MEMORY"),
    "drain past memory": ({C: [SET, drain(mem=4 * TINY.dram_words - 4), isa.HALT()]}, "MEMORY"),
    "vfill past L1": ({V: [vfill(l1=TINY.vl1_words - 1), isa.HALT()]}, "L1_RANGE"),
    "vfill past memory": ({V: [SET, vfill(mem=4 * TINY.dram_words - 4), isa.HALT()]}, "MEMORY"),
    "vdrain past L1": ({V: [SET, vdrain(l1=TINY.vl1_words - 1), isa.HALT()]}, "L1_RANGE"),
    "vdrain past memory": ({V: [vdrain(mem=4 * TINY.dram_words - 4), isa.HALT()]}, "MEMORY"),
    "source past registers": (
        {V: [execute(reg(TINY.registers - 1), to_reg(0)), isa.HALT()]}, "REG_RANGE"),
    "result past registers": (
        {V: [execute(reg(0), to_reg(TINY.registers)), isa.HALT()]}, "REG_RANGE"),
    "source past L1": (
        {V: [execute(Source.l1h(Address(0, TINY.vl1_words), 0), to_reg(0)), isa.HALT()]},
        "L1_RANGE"),
    "overlap": ({V: [SET, execute(reg(0), to_reg(1)), isa.HALT()]}, "OVERLAP"),
    "rows of a result overlap": (
        {V: [SET, SET, execute(reg(8), to_reg(0, 0)), isa.HALT()]}, "OVERLAP"),
    "overflow": ({V: [isa.LOOP(Address(0, 256)), isa.SYNC(0, posts=(Post(V, 1),)), isa.END(),
                      isa.HALT()]}, "SEM_OVERFLOW"),
    "overflow next door": ({V: [isa.LOOP(Address(0, 300)), isa.SYNC(1, posts=(Post(C, 1),)),
                                isa.END(), isa.HALT()]}, "SEM_OVERFLOW"),
    "left": ({C: [isa.SYNC(0, posts=(Post(C, 7),)), isa.HALT()], V: [isa.HALT()]}, "SEM_LEFT"),
    "posted to one that halted": (
        {V: [isa.HALT()], C: [fill(posts=(Post(V, 2),)), isa.HALT()]}, "SEM_LEFT"),
    "deadlock of an engine": (
        {C: [SET, isa.SYNC(1, waits=(Wait(3),)), isa.HALT()], V: [isa.HALT()]}, "WATCHDOG"),
    "deadlock of a front end": ({C: [isa.HALT()], V: [SET, isa.SETA(2, 1, waits=(Wait(3),))]},
                                "WATCHDOG"),
    "deadlock at the barrier": ({C: [isa.BARRIER(), isa.HALT()], V: [isa.HALT()]}, "WATCHDOG"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_fault_on_both(twin: Twin, name: str) -> None:
    programs, cause = FAULTS[name]
    for _ in range(2):
        with pytest.raises(DeviceFault, match=f"{cause} at unit"):
            run(twin, programs)
        twin.reset_memory()
        run(twin, GOOD)


def test_ten_runs_are_alike(twin: Twin) -> None:
    twin.outcomes.clear()
    for _ in range(10):
        run(twin, GOOD)
    assert all(outcome == twin.outcomes[0] for outcome in twin.outcomes)


def test_a_difference_is_found(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    right = twin.host.run

    def wrong(*arguments: Any) -> Any:
        outcome = right(*arguments)
        twin.memory[WORD_BYTES * 4200 + 5] ^= 1
        return outcome

    monkeypatch.setattr(twin.host, "run", wrong)
    with pytest.raises(AssertionError, match="1 bytes of memory differ, the first at word 4200"):
        run(twin, GOOD)
    twin.reset_memory()
    assert WORDS > 4200
