"""Cycles, counters and the timeline of the default scheduler."""

from dataclasses import replace
from itertools import pairwise

import pytest

from kohakutpu import costs, isa
from kohakutpu.config import Machine, preset
from kohakutpu.isa import Instruction, Post, Wait
from kohakutpu.model import GoldenMachine, Report
from tests.model.programs import Matmul
from tests.model.support import at, chain, put, row_words, run
from tests.model.test_cluster import OUT, A, B, fill, gaussian, gemm
from tests.model.test_execute import vdrain, vfill

pytestmark = pytest.mark.golden
TINY, SMALL = preset("tiny"), preset("small")
C, V = 0, 1
WORDS = 1 << 17


def report(machine: Machine, programs: dict[int, list[Instruction]], **options: bool) -> Report:
    return run(GoldenMachine(machine, memory_words=WORDS), programs, **options)


def test_an_empty_program_takes_the_launch() -> None:
    assert report(TINY, {V: [isa.HALT()]}).cycles == costs.LAUNCH


def test_one_instruction_to_the_cycle() -> None:
    # Front end: one cycle before SYNC is reached. VFILL: 4 words. VDRAIN after it: 4 words.
    got = report(
        TINY,
        {V: [
            vfill(A, 0, 4, 16).replace(posts=(Post(V, 0),)),
            vdrain(0, OUT, 4, 16).replace(waits=(Wait(0),)),
            isa.HALT(),
        ]},
    )  # fmt: skip
    move, send = costs.START + 4, costs.START + 5 * 4  # quarters of words leave one by one
    assert got.cycles == costs.LAUNCH + move + costs.READ + send + costs.WRITE
    vfills, execs, vdrains = got.unit(V).engines
    assert (vfills.name, vfills.instructions, vfills.busy, vfills.stalled) == ("VFILL", 1, move, 0)
    assert (execs.instructions, execs.busy) == (0, 0)
    assert vdrains.busy == send
    assert vdrains.stalled == move + costs.READ - 1  # it was at the head one cycle later


def test_an_engine_waits_for_the_front_end() -> None:
    got = report(TINY, {V: [*[isa.SETA(1, 1)] * 100, vfill(A, 0, 4, 16), isa.HALT()]})
    assert got.cycles == costs.LAUNCH + 100 + costs.START + 4 + costs.READ
    assert got.units[0].engines[0].stalled == 0


def test_a_full_queue_holds_the_front_end_back() -> None:
    # VFILLs of 6 cycles each; the last SETA comes when the queue has room again for the fifth.
    fills = [vfill(A, 0, 4, 16)] * (TINY.queue_depth + 2)
    spans = report(TINY, {V: [*fills, isa.SYNC(1), isa.HALT()]}, timeline=True).timeline
    sync = next(span for span in spans if span.name == "SYNC")
    assert sync.start == costs.LAUNCH + (costs.START + 4) + 1


def test_costs_by_hand() -> None:
    assert costs.fill(SMALL, 2, 3, 8, 96, "fp16", False) == (costs.START + 48, 48)
    assert costs.fill(SMALL, 2, 3, 7, 33, "fp16", False) == (costs.START + 21, 21)
    assert costs.fill(SMALL, 2, 3, 7, 33, "fp16", True) == (costs.START + 33, 33)
    assert costs.fill(SMALL, 4, 3, 0, 0, "fp16", False) == (costs.START + 12, 0)
    assert costs.fill(SMALL, 3, 3, 0, 0, "packed", False) == (costs.START + 38, 38)
    assert costs.fill(TINY, 2, 3, 8, 96, "fp16", False) == (costs.START + 4 * 48, 48)
    assert costs.drain(SMALL, 2, 3, 2, 6, "memory") == (costs.START + 6, 6)
    assert costs.drain(SMALL, 2, 3, 4, 12, "vector") == (costs.START + 12, 0)
    assert costs.drain(TINY, 2, 3, 2, 6, "memory") == (costs.START + 24, 6)
    assert costs.vdrain(SMALL, 12, 10, "cluster") == (costs.START + 12, 0)
    assert costs.vdrain(TINY, 12, 10, "memory") == (costs.START + 5 * 12, 10)
    assert costs.vdrain(replace(SMALL, k_per_cycle=8), 12, 12, "cluster").cycles == (
        costs.START + 4 * 12
    )
    assert costs.gemm(SMALL, 4, 4, 8).cycles == costs.START + 128
    assert costs.gemm(TINY, 4, 4, 8).cycles == costs.START + 512
    assert costs.gemm(SMALL, 1, 1, 8).cycles == costs.START + 8 * costs.GEMM_TURNAROUND
    assert costs.execute(SMALL, 4, 33, ()).cycles == costs.EXEC_CHECK
    assert costs.execute(SMALL, 8, 33, ()).cycles == costs.EXEC_START + 24
    assert costs.execute(SMALL, 16, 32, (2, 2)).cycles == costs.EXEC_START + 32
    assert costs.execute(SMALL, 16, 32, (2, 4)).cycles == costs.EXEC_START + 64
    assert costs.execute(TINY, 40, 4, ()).cycles == costs.EXEC_START + 40
    assert costs.execute(TINY, 40, 4, (), True).cycles == costs.EXEC_START + 160
    assert costs.execute(SMALL, 40, 4, (), True).cycles == costs.EXEC_START + 40
    assert costs.execute(TINY, 4, 32, (4,)).cycles == costs.EXEC_START + 32
    assert [costs.span(q, 16, 2) for q in range(4)] == [1, 2, 2, 2]
    assert [costs.span(q, 5, 2) for q in range(4)] == [1, 1, 1, 2]
    assert costs.span(3, 0, 2) == 0


def overlap(machine: Machine, slots: int) -> Report:
    golden = GoldenMachine(machine, memory_words=WORDS)
    x, y = gaussian((64, 256), 1), gaussian((256, 64), 2)
    a, b = put(golden, A, x), put(golden, B, y)
    plan = Matmul(64, 64, 256, A, B, OUT, a, b, row_words(64), 8, 8, 1, slots)
    return run(golden, {C: plan.cluster(C)})


def test_double_buffering_hides_the_fills() -> None:
    one, two = overlap(TINY, 1), overlap(TINY, 2)
    assert one.macs == two.macs == 64 * 64 * 256
    fills, gemms, _ = two.unit(C).engines
    assert two.cycles >= two.macs // TINY.macs_per_cycle
    assert max(fills.busy, gemms.busy) < two.cycles < one.cycles < fills.busy + gemms.busy + 5000
    assert two.cycles < 0.8 * one.cycles
    assert two.read_words == 2 * (64 * 256 + 64 * 256) // 16


@pytest.mark.parametrize(("name", "slower"), [("duo", 1.9), ("quad", 1.0)])
def test_units_share_the_port_nearest_to_them(name: str, slower: float) -> None:
    """Two far clusters: one port serves both on `duo`, each has its own on `quad`."""
    machine = preset(name)
    clusters = machine.of_kind("C")
    first, last = clusters[0].id, clusters[1].id
    many = [isa.LOOP(at(100)), fill("A", A, 64, 16, 8), isa.END(), isa.HALT()]
    alone = report(machine, {first: many}).cycles
    both = report(machine, {first: many, last: many})
    assert both.cycles == pytest.approx(slower * alone, rel=0.1)
    stalled = sum(unit.engines[0].stalled for unit in both.units)
    assert (stalled > alone / 2) == (slower > 1)


def test_without_timing_the_counts_stay() -> None:
    program = chain(V, [vfill(A, 0, 4, 16), vdrain(0, OUT, 4, 16)])
    timed, untimed = (report(TINY, {V: program}, timing=t) for t in (True, False))
    assert untimed.cycles == untimed.units[0].cycles == 0
    assert all(engine.busy == engine.stalled == 0 for engine in untimed.units[0].engines)
    for name in ("instructions", "fetched_words", "read_words", "written_words", "noc_words"):
        assert getattr(timed, name) == getattr(untimed, name) > 0


def test_timeline() -> None:
    program = chain(C, [fill("A", A, 2, 1, 1), fill("B", A, 2, 1, 1), gemm(1, 1, 1)])
    spans = report(TINY, {C: program}, timeline=True).timeline
    assert [(s.engine, s.pc, s.name) for s in spans] == [
        ("FILL", 0, "FILL"), ("FILL", 1, "FILL"), ("GEMM", 2, "GEMM"), ("FILL", 3, "SYNC"),
    ]  # fmt: skip
    assert all(one.end <= two.start for one, two in pairwise(spans))
    assert report(TINY, {C: program}).timeline == ()


def test_report() -> None:
    got = report(TINY, {V: [vfill(A, 0, 1, 16), isa.HALT()], C: [isa.HALT()]})
    assert got.read_words == 1
    engine = got.unit(V).engines[0]
    assert (engine.name, engine.instructions, engine.stalled) == ("VFILL", 1, 0)
    assert engine.busy == costs.START + 1
    with pytest.raises(KeyError, match="unit 2 ran nothing"):
        got.unit(2)


def test_barrier_takes_the_slowest_and_the_release() -> None:
    slow = [isa.LOOP(at(500)), isa.END(), isa.BARRIER(), isa.HALT()]
    got = report(TINY, {C: slow, V: [isa.BARRIER(), isa.HALT()]})
    assert got.cycles == costs.LAUNCH + 501 + costs.BARRIER


def test_runs_are_alike() -> None:
    results = [overlap(SMALL, 2) for _ in range(2)]
    assert results[0] == results[1]


def test_vector_work_overlaps_its_transfers() -> None:
    # 16 blocks through a ring of two: the slowest engine decides, the others hide behind it.
    # On `tiny` that is VDRAIN, which sends quarters of words.
    window = isa.Source.l1h(isa.Address(1, 0), 4)
    program = [
        isa.SYNC(2, posts=(Post(V, 0),)),
        isa.SYNC(2, posts=(Post(V, 0),)),
        isa.LOOP(at(16)),
        vfill(A, 0, 16, 64).replace(l1=isa.Address(1, 0), waits=(Wait(0),), posts=(Post(V, 1),)),
        isa.EXEC(rows=16, cols=64, f="mac", a=window, b=isa.Source.imm(2),
                 dst=isa.Destination.l1h(isa.Address(1, 0), 4), waits=(Wait(1),),
                 posts=(Post(V, 2),)),
        vdrain(0, OUT, 16, 64).replace(l1=isa.Address(1, 0), waits=(Wait(2),),
                                       posts=(Post(V, 0),)),
        isa.ADDA(1, 1, 64, modulo=128),
        isa.END(),
        isa.SYNC(0, waits=(Wait(0, 2),)),
        isa.HALT(),
    ]  # fmt: skip
    got = report(TINY, {V: program})
    busiest = max(engine.busy for engine in got.unit(V).engines)
    syncs = 2 * costs.START
    assert busiest == got.unit(V).engines[2].busy == 16 * (costs.START + 5 * 64) + syncs
    assert busiest < got.cycles < 1.5 * busiest
