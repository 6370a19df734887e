"""What must not run: the same cause as on the golden machine, and before any effect."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hw.sim.session import Session
from hw.vector.core import VectorCore
from kohakutpu import isa
from kohakutpu.isa import Address, Destination, Instruction, Source
from tests.hw.vector.bench import Bench
from tests.hw.vector.configuration import CLUSTERS, L1_WORDS, OTHER, OWN, bench_of, machine
from tests.hw.vector.test_transfers import drain, fill
from tests.isa.strategies import instructions

pytestmark = pytest.mark.cocotb

MACHINE = machine(4)
VECTORS = 1 << OWN | 1 << OTHER
ELEMENTS = 5000  # more take too long


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(VectorCore(MACHINE, MACHINE.nodes[OWN]))


def outcome(bench: Bench, instruction: Instruction, pc: int) -> str | None:
    """Run one instruction on both and return the cause it ends with."""
    cause = bench.expect(instruction)
    if cause == "MEMORY":  # what memory says is the port's affair
        return cause
    bench.give(instruction, pc)
    bench.settle()
    assert bench.fault == (None if cause is None else (cause, pc))
    return cause


def small_exec(random: Random) -> Instruction:
    """Windows that meet as often as not."""
    rows, cols = random.randint(1, 6), random.randint(1, 40)

    def place(kind: str) -> dict[str, Any]:
        top = 24 if random.random() < 0.9 else (60 if kind == "reg" else 250)
        base = Address(0, random.randint(0, top))
        return {"base": base} | ({} if kind == "row" else {"stride": random.randint(0, 12)})

    def source(kinds: list[str]) -> Source:
        kind = random.choice(kinds)
        return Source.imm(1) if kind == "imm" else Source(kind, **place(kind))

    a = source(["reg", "l1h", "l1f", "row"])
    b = source(["reg", "l1h", "l1f", "row", "imm"])
    c = source(["reg", "row", "imm"])
    kind = random.choice(["reg", "l1h", "l1f", "none"])
    dst = Destination(kind) if kind == "none" else Destination(kind, **place(kind))
    if random.random() < 0.3 and a.kind == kind:
        dst = Destination(kind, a.base, a.stride)
    reduce = random.choice(["none", "sum", "max"])
    red = Address(0, random.randint(0, 24)) if reduce != "none" else Address(0, 0)
    return isa.EXEC(rows=rows, cols=cols, f="mac", a=a, b=b, c=c, dst=dst, reduce=reduce, red=red)


@pytest.mark.parametrize("seed", range(4))
def test_windows_that_meet(session: Session, seed: int) -> None:
    random = Random(seed)
    bench = bench_of(session, seed)
    causes: dict[str | None, int] = {}
    for pc in range(150):
        cause = outcome(bench, small_exec(random), pc)
        causes[cause] = causes.get(cause, 0) + 1
        if cause is not None:
            if pc % 8 == 0:  # other engines still work
                whole = drain(rows=1, cols=16 * L1_WORDS)
                bench.give(whole, pc)
                bench.expect(whole)
                while bench.todo[2] or bench.owed[2]:
                    bench.step()
                bench.check_memory()
            bench = bench_of(session, pc)
    assert set(causes) >= {None, "OVERLAP", "REG_RANGE"}
    assert min(causes[None], causes["OVERLAP"]) > 20


def replace(instruction: Instruction, **changes: Any) -> Instruction:
    record = instruction.record
    operands = {operand.name: getattr(instruction, operand.name) for operand in record.operands}
    return record(**operands | changes)


def settled(instruction: Instruction) -> Instruction:
    """Leave out what the shell does, and name receivers that the decoder lets pass."""
    instruction = replace(instruction, waits=(), posts=())
    if instruction.name == "VFILL":
        return replace(instruction, nodes=instruction.nodes & VECTORS)
    if instruction.name == "VDRAIN" and instruction.to == "node":
        if instruction.buffer == "vector":
            return replace(instruction, nodes=instruction.nodes & VECTORS or 1 << OTHER)
        return replace(instruction, nodes=1 << CLUSTERS[instruction.nodes % 2])
    return instruction


@settings(
    max_examples=200, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(data=st.data())
def test_any_instruction(session: Session, data: st.DataObject) -> None:
    record = data.draw(st.sampled_from((isa.VFILL, isa.EXEC, isa.VDRAIN)))
    instruction = settled(data.draw(instructions(record)))
    bench = bench_of(session, 1)
    if instruction.rows * instruction.cols < ELEMENTS or bench.expect(instruction) is not None:
        outcome(bench_of(session, 1), instruction, 3)


def test_the_ends_of_everything(session: Session) -> None:
    reach: list[tuple[Instruction, str | None]] = [
        (fill(rows=2, cols=16, l1=254, l1_stride=1), None),
        (fill(rows=2, cols=17, l1=254, l1_stride=1), "L1_RANGE"),
        (fill(rows=4095, cols=1, l1=255, l1_stride=0, row_extent=1), None),
        (fill(rows=4095, cols=65535, l1=16383, l1_stride=16383, format="fp32"), "L1_RANGE"),
        (fill(rows=1, cols=1, l1=256), "L1_RANGE"),
        (drain(rows=1, cols=1, l1=255), None),
        (drain(rows=1, cols=1, l1=256), "L1_RANGE"),
        (drain(rows=4, cols=12, l1=253, order="tile"), None),
        (drain(rows=4, cols=12, l1=254, order="tile"), "L1_RANGE"),
        (drain(rows=4, cols=8, l1=252, order="tile", format="fp32"), None),
        (drain(rows=4, cols=8, l1=253, order="tile", format="fp32"), "L1_RANGE"),
        (drain(rows=2, cols=16, to="node", nodes=1 << OTHER, mem=250, stride=5), None),
        (drain(rows=2, cols=16, to="node", nodes=1 << OTHER, mem=250, stride=6), "L1_RANGE"),
        (drain(rows=1, cols=16, to="node", nodes=1 << OTHER, mem=(1 << 34) - 1), "L1_RANGE"),
        *(
            (drain(rows=2, cols=32, to="node", nodes=nodes, l1=8, l1_stride=2, mem=mem, stride=2),
             cause)
            for nodes, mem, cause in (
                (VECTORS, 12, None), (VECTORS, 11, "OVERLAP"), (VECTORS, 5, "OVERLAP"),
                (VECTORS, 4, None), (1 << OTHER, 5, None),
            )
        ),
        (drain(rows=8, cols=16, to="node", nodes=1 << OWN, l1=8, l1_stride=9, mem=10, order="tile",
               stride=0), "OVERLAP"),
    ]  # fmt: skip
    for pc, (instruction, cause) in enumerate(reach):
        assert outcome(bench_of(session, pc), instruction, pc) == cause
    cluster = {"to": "node", "nodes": 1 << CLUSTERS[0], "buffer": "l1b", "rows": 5}
    for cols, mem, cause in ((64, 60, None), (65, 60, "L1_RANGE"), (64, 61, "L1_RANGE")):
        instruction = drain(**cluster, cols=cols, mem=mem, stride=2, l1_stride=5)
        assert outcome(bench_of(session, 0), instruction, 0) == cause


def test_a_fault_waits_for_those_before(session: Session) -> None:
    bench = bench_of(session, 0)
    bench.patience = (1.0, 0.1, 0.1)
    good, bad = drain(rows=4, cols=100, l1_stride=7, stride=7), drain(rows=1, cols=1, l1=256)
    for pc, instruction in enumerate((good, good, bad)):
        bench.give(instruction, pc)
        assert bench.expect(instruction) == (None, None, "L1_RANGE")[pc]
    bench.settle()
    assert bench.fault == ("L1_RANGE", 2)
    assert bench.owed == [0, 0, 1]
    bench.check_memory()
