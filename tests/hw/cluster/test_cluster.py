from random import Random
from typing import Any

import numpy as np
import pytest

from hw.cluster.cluster import ClusterDatapath
from hw.noc.flit import Cause
from hw.sim.session import Session
from kohakutpu.config import Machine
from tests.hw.cluster.bench import ENGINES, Bench, arguments
from tests.hw.cluster.golden import Golden
from tests.hw.cluster.sequence import Sequence, image

pytestmark = pytest.mark.cocotb

NODE = 0
MESH = "C V C\nM H V"


def machine_of(k_per_cycle: int) -> Machine:
    return Machine(
        "bench", MESH, k_per_cycle=k_per_cycle, lanes=4, l1_entries=100, acc_subtiles=61,
        vl1_words=300, dram_words=1 << 13,
    )  # fmt: skip


@pytest.fixture(scope="module", params=[8, 32], ids=lambda k: f"k{k}")
def datapath(request: pytest.FixtureRequest) -> tuple[Machine, ClusterDatapath]:
    machine = machine_of(request.param)
    return machine, ClusterDatapath(machine, NODE)


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
def test_random(
    datapath: tuple[Machine, ClusterDatapath], seed: int, overlap: bool, stall: float
) -> None:
    machine, component = datapath
    random = Random(seed)
    memory = image(random, machine.dram_words)
    sequence = Sequence(random, machine, NODE)
    instructions = [sequence.draw() for _ in range(120)]
    golden = Golden(machine, NODE, bytes(memory))
    for instruction in instructions:
        assert golden.run(instruction) == "", instruction
    with Session(component) as session:
        bench = Bench(session, machine, NODE, memory, seed, stall=stall)
        issue(bench, sequence, instructions, overlap)
        compare(bench, golden, machine)
        for engine in ENGINES.values():
            mine = [n for n, i in enumerate(instructions) if i.engine == engine]
            assert [n for n in bench.done if n in mine] == mine


def test_causes_have_the_contract_names() -> None:
    assert Cause(3).name == "L1_RANGE"
