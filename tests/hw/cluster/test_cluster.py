from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from hw.cluster.cluster import ClusterDatapath
from hw.noc.flit import Cause
from hw.sim.session import Session
from kohakutpu.config import Machine
from kohakutpu.isa import DRAIN, FILL, GEMM, Address, Extent, Flag
from tests.hw.cluster.bench import ENGINES, Bench, arguments
from tests.hw.cluster.golden import Golden
from tests.hw.cluster.sequence import READABLE, Sequence, image

pytestmark = pytest.mark.cocotb

NODE = 0
MESH = "C V C\nM H V"


Rig = tuple[Machine, Session]


@pytest.fixture(scope="module", params=[8, 32], ids=lambda k: f"k{k}")
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    machine = Machine(
        "bench", MESH, k_per_cycle=request.param, lanes=4, l1_entries=100, acc_subtiles=259,
        vl1_words=300, dram_words=1 << 13,
    )  # fmt: skip
    with Session(ClusterDatapath(machine, NODE)) as session:
        yield machine, session


def bench_of(rig: Rig, memory: bytearray, seed: int = 1, **options: Any) -> Bench:
    machine, session = rig
    session.restart()
    return Bench(session, machine, NODE, memory, seed, **options)


def issue(bench: Bench, sequence: Sequence, instructions: list[Any], overlap: bool) -> None:
    """Run them; an engine goes ahead of another one only where they share nothing."""
    uses = [sequence.uses(i) for i in instructions]
    for n, instruction in enumerate(instructions):
        read, written = uses[n]
        for _ in range(20_000):
            left = [m for m in range(n) if m not in bench.done]
            if not overlap:
                blocked = bool(left)
            else:
                blocked = any(
                    instructions[m].engine != instruction.engine
                    and (written & (uses[m][0] | uses[m][1]) or read & uses[m][1])
                    for m in left
                )
            if not blocked or bench.faults:
                break
            bench.step()
        assert not bench.faults, f"{instruction} {bench.faults}"
        bench.waiting[instruction.engine].append((arguments(instruction, NODE, n), n))
    bench.run(list(range(len(instructions))))
    for _ in range(60):
        bench.step()
    assert not bench.faults


def compare(bench: Bench, golden: Golden, machine: Machine) -> None:
    """Compare memory and every peer's L1."""
    expected = golden.memory
    if bytes(bench.memory) != expected:
        wrong = np.flatnonzero(
            np.frombuffer(bytes(bench.memory), np.uint8) != np.frombuffer(expected, np.uint8)
        )
        word = int(wrong[0]) // 32
        raise AssertionError(
            f"{len(wrong)} bytes differ, first in word {word}:\n"
            f"{bench.memory[32 * word : 32 * word + 32].hex()}, should be\n"
            f"{expected[32 * word : 32 * word + 32].hex()}"
        )
    for node, peer in bench.peers.items():
        for address in range(machine.vl1_words if golden.units[node].kind == "V" else 0):
            assert peer.words.get(address, 0) == golden.word(node, address), (node, address)
        if golden.units[node].kind == "C":
            for in_b in (False, True):
                elements = np.zeros((machine.l1_entries, 4, 32), np.uint8)
                scales = np.zeros((machine.l1_entries, 4), np.uint8)
                for write in peer.writes:
                    if write.in_b != in_b:
                        continue
                    block = np.frombuffer(write.block.to_bytes(32, "little"), np.uint8)
                    for lane in range(4):
                        if write.elements >> lane & 1:
                            elements[write.entry, lane] = block
                        if write.scales >> lane & 1:
                            scales[write.entry, lane] = write.scale >> 8 * lane & 0xFF
                wanted = golden.entries(node, in_b)
                assert (elements == wanted[0]).all(), (node, in_b)
                assert (scales == wanted[1]).all(), (node, in_b)


@pytest.mark.parametrize(
    ("seed", "overlap", "stall"), [(1, False, 0.0), (2, True, 0.0), (3, True, 0.3), (4, True, 0.1)]
)
def test_random(rig: Rig, seed: int, overlap: bool, stall: float) -> None:
    machine, _ = rig
    random = Random(seed)
    memory = image(random, machine.dram_words)
    sequence = Sequence(random, machine, NODE)
    instructions = [sequence.draw() for _ in range(120)]
    golden = Golden(machine, NODE, bytes(memory))
    for instruction in instructions:
        assert golden.run(instruction) == "", instruction
    bench = bench_of(rig, memory, seed, stall=stall)
    issue(bench, sequence, instructions, overlap)
    compare(bench, golden, machine)
    for engine in ENGINES.values():
        mine = [n for n, i in enumerate(instructions) if i.engine == engine]
        assert [n for n in bench.done if n in mine] == mine


def run_in_turn(bench: Bench, instructions: list[Any]) -> list[int]:
    """Run them one after the other; return the cycles each took, from its offer to `done`."""
    cycles = []
    for instruction in instructions:
        n = len(bench.done)
        bench.waiting[instruction.engine].append((arguments(instruction, NODE, n), n))
        begin = bench.now
        bench.run(list(range(n + 1)))
        cycles.append(bench.now - begin)
    return cycles


def filled(machine: Machine, *, g: int, nk: int, seed: int) -> tuple[bytearray, list[Any]]:
    """Return memory and the FILLs that bring a region of each operand to entry 0."""
    memory = image(Random(seed), machine.dram_words)
    fills = [
        FILL(
            buffer=buffer, l1=Address(0, 0), l1_stride=nk, mem=Address(0, mem), stride=2 * nk,
            g=g, nk=nk, rows=Extent(4 * g, 0), k=Extent(32 * nk, 0), mode="fp16",
        )
        for buffer, mem in (("A", 0), ("B", 8000))
    ]  # fmt: skip
    return memory, fills


def gemm(gm: int, gn: int, nk: int, stride: int, accumulate: bool = False, acc: int = 0) -> Any:
    return GEMM(
        a=Address(0, 0), b=Address(0, 0), acc=Address(0, acc), gm=gm, gn=gn, nk=nk,
        a_stride=stride, b_stride=stride, accumulate=Flag(accumulate, 0),
    )  # fmt: skip


def drain(gm: int, gn: int, form: str, order: str, mem: int = 4 * READABLE, acc: int = 0) -> Any:
    extents = (0, 0) if order == "tile" else (4 * gm, 4 * gn)
    words = -(-4 * gn * (2 if form == "fp16" else 4) // 32)
    return DRAIN(
        acc=Address(0, acc), gm=gm, gn=gn, to="memory", mem=Address(0, mem),
        stride=words + bool(mem % 4) if order == "row" else gn * (1 if form == "fp16" else 2),
        rows=Extent(extents[0], 0), cols=Extent(extents[1], 0), format=form, order=order,
    )  # fmt: skip


# Cycles of a GEMM's checks and pipeline, by the beats of a word.
AROUND = {1: 26, 4: 38}

# Cycles until the first window is there, checks and pipelines included, by the beats of a word.
WINDOW_FILLS = {1: 48, 4: 120}
TILES = [(1, 1), (1, 2), (3, 1), (2, 2), (1, 5), (7, 1), (2, 4), (3, 3)]


def test_small_tiles_never_read_too_early(rig: Rig) -> None:
    machine, _ = rig
    memory, instructions = filled(machine, g=4, nk=24, seed=5)
    for gm, gn in TILES:
        # One after the other without a wait: onto itself, then onto its shifted self.
        instructions.append(gemm(gm, gn, 24, 9))
        instructions += [gemm(gm, gn, n, 5, accumulate=True, acc=acc) for n, acc in (
            (1, 0), (2, 0), (1, 0), (1, 1), (3, 0), (1, gm * gn - 1), (1, 0),
        )]  # fmt: skip
        instructions.append(drain(2, 8, "fp32", "row", mem=4 * READABLE + 1024 * (gm + gn)))
    golden = Golden(machine, NODE, bytes(memory))
    assert not any(golden.run(instruction) for instruction in instructions)
    bench = bench_of(rig, memory)
    issue(bench, Sequence(Random(0), machine, NODE), instructions, overlap=True)
    compare(bench, golden, machine)


def test_full_rate(rig: Rig) -> None:
    machine, _ = rig
    ideal = 16 * 16 * 2 * 32 // machine.k_per_cycle
    beats = 4 if machine.k_per_cycle == 8 else 1
    memory, fills = filled(machine, g=16, nk=2, seed=6)
    golden = Golden(machine, NODE, bytes(memory))
    tile = gemm(16, 16, 2, 2)
    drains = [drain(16, 16, *how) for how in (("fp16", "row"), ("fp32", "row"), ("fp16", "tile"))]
    skewed = drain(16, 16, "fp16", "row", mem=4 * READABLE + 3)
    rest = [*drains, skewed]
    for instruction in [*fills, tile, *rest]:
        golden.run(instruction)
    bench = bench_of(rig, memory, latency=(1, 1))
    run_in_turn(bench, fills)
    bench.steps = [0, 0, 0]
    # The checks, then the pipeline behind the last step.
    assert run_in_turn(bench, [tile])[0] <= ideal + AROUND[beats]
    for cycles, words in zip(run_in_turn(bench, rest), (256, 512, 256, 64 * 5), strict=True):
        assert cycles <= words * beats + WINDOW_FILLS[beats]
    assert bench.steps == [0, 16 * 16 * 2, 256 + 512 + 256 + 320]
    compare(bench, golden, machine)


def test_gemm_and_drain_at_once(rig: Rig) -> None:
    machine, _ = rig
    ideal = 16 * 8 * 2 * 32 // machine.k_per_cycle
    memory, fills = filled(machine, g=16, nk=2, seed=7)
    bench = bench_of(rig, memory, latency=(1, 1))
    other = [gemm(16, 8, 2, 2, acc=128), drain(16, 8, "fp16", "row")]
    golden = Golden(machine, NODE, bytes(memory))
    for instruction in [*fills, gemm(16, 8, 2, 2), *other]:
        golden.run(instruction)
    run_in_turn(bench, [*fills, gemm(16, 8, 2, 2)])
    begin = bench.now
    for n, instruction in enumerate(other):
        bench.waiting[instruction.engine].append((arguments(instruction, NODE, 3 + n), 3 + n))
    bench.run(list(range(5)))
    assert bench.now - begin <= max(ideal, 128) + 40
    compare(bench, golden, machine)


def test_packed_scales_of_many_groups(rig: Rig) -> None:
    # More groups than one READ of scales brings; all but the last of each entry is written over.
    machine, _ = rig
    memory = image(Random(8), machine.dram_words)
    packed = {"stride": 0, "rows": Extent(0, 0), "k": Extent(0, 0), "mode": "packed"}
    instructions = [
        FILL(buffer="A", l1=Address(0, 3), l1_stride=0, mem=Address(0, 400), g=131, nk=3, **packed),
        FILL(buffer="B", l1=Address(0, 0), l1_stride=1, mem=Address(0, 0), g=90, nk=3, **packed),
        gemm(7, 9, 3, 5),
        drain(7, 9, "fp32", "tile"),
    ]
    golden = Golden(machine, NODE, bytes(memory))
    assert not any(golden.run(instruction) for instruction in instructions)
    bench = bench_of(rig, memory)
    run_in_turn(bench, instructions)
    compare(bench, golden, machine)


def hostile(random: Random, instruction: Any) -> Any:
    """Return it with one operand that may go too far."""
    near = random.choice([random.randint(0, 300), 16383])
    far = random.choice([4 * (1 << 13) - random.randint(0, 300), (1 << 34) - random.randint(1, 64)])
    stride = random.choice([16383, random.randint(0, 99)])
    long = random.choice([(1 << 24) - 1, random.randint(0, 4000)])
    changes: dict[str, list[dict[str, Any]]] = {
        "FILL": [
            {"l1": Address(0, near)}, {"l1_stride": stride}, {"mem": Address(0, far)},
            {"mem": Address(0, far // 4 * 4)},
            {} if instruction.name == "FILL" and instruction.mode == "packed" else {"stride": long},
        ],
        "GEMM": [
            {"a": Address(0, near)}, {"b": Address(0, near)}, {"acc": Address(0, near)},
            {"a_stride": stride}, {"b_stride": stride}, {"gm": 1023}, {"gn": 1023},
        ],
        "DRAIN": [
            {"acc": Address(0, near)}, {"mem": Address(0, near)}, {"mem": Address(0, far)},
            {"stride": long}, {"gm": 1023}, {"gm": 64},
        ],
    }  # fmt: skip
    return instruction.replace(**random.choice(changes[instruction.name]))


def test_faults_come_before_any_effect(rig: Rig) -> None:
    machine, _ = rig
    random = Random(9)
    memory = image(random, machine.dram_words)
    sequence = Sequence(random, machine, NODE)
    seen: Counter[str] = Counter()
    bench: Bench | None = None
    for _ in range(400):
        if bench is None:
            bench, golden = bench_of(rig, memory), Golden(machine, NODE, bytes(memory))
        instruction = hostile(random, sequence.draw())
        if instruction.name == "GEMM" and instruction.gm * instruction.gn > 99:
            continue  # it would take too long
        cause = golden.run(instruction)
        seen[cause] += 1
        n = len(bench.done)
        bench.waiting[instruction.engine].append((arguments(instruction, NODE, n), n))
        before = bench.steps[instruction.engine]
        bench.run(list(range(n + 1)))
        if not cause:
            assert not bench.faults, f"{instruction}: {bench.faults}"
            continue
        engine, code, pc = (bench.faults or [(3, 0, 0)])[0]
        shown = engine, Cause(code).name, pc
        assert shown == (instruction.engine, cause, n), f"{instruction}: {cause}"
        if cause != "MEMORY":
            for _ in range(50):
                bench.step()
            assert bench.faults[-1] == bench.faults[0]
            assert bench.steps[instruction.engine] == before
            assert len(bench.done) == n
            compare(bench, golden, machine)
        bench = None
    wanted = {"": 50, "L1_RANGE": 30, "ACC_RANGE": 30, "MISALIGNED": 5, "MEMORY": 20}
    assert all(seen[cause] >= count for cause, count in wanted.items()), seen
