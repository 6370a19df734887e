"""The front end against the golden machine's: random programs, hostile words, loops of any fit."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hw.sim.simulator import Simulator
from kohakutpu import isa
from kohakutpu.config import LOOP_DEPTH, WORD_BYTES, Machine, Node, preset
from kohakutpu.isa import Address, Instruction
from tests.hw.common.front import FrontBench, expected, outcome
from tests.isa.strategies import any_instruction, instructions

pytestmark = pytest.mark.cocotb

TINY = replace(preset("tiny"), instruction_buffer=16)
NODES = {node.kind: node for node in TINY.nodes if node.kind in "CV"}
UNITS = sorted(node.id for node in NODES.values())
QUICK = settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


@cache
def bench(kind: str) -> Simulator:
    return Simulator(FrontBench(TINY, NODES[kind]))


def check(kind: str, program: bytes, seed: int) -> int | None:
    wanted = expected(TINY, NODES[kind], program, limit=400)
    if wanted is None:
        return None
    found, fetched = outcome(bench(kind), NODES[kind], program, np.random.default_rng(seed), 12000)
    assert found == wanted
    return fetched


def settle(machine: Machine, node: Node, i: Instruction) -> Instruction:
    """Make most instructions legal: posts to units, receivers of the right kind, short loops."""
    change = {"posts": tuple(replace(p, node=UNITS[p.node % len(UNITS)]) for p in i.posts)}
    if "nodes" in i.operands and i.nodes:
        receiver = node.kind
        if "buffer" in i.operands and "to" in i.operands:
            receiver = "V" if i.buffer == "vector" else "C"
        change["nodes"] = 1 << NODES[receiver].id
    if i.name == "LOOP":
        change["count"] = Address(0, i.count.imm % 4)
    return i.replace(**change)


def blocks(kind: str, depth: int = 0) -> st.SearchStrategy[list[Instruction]]:
    plain = any_instruction(kind).filter(lambda i: i.name not in ("LOOP", "END", "HALT"))
    plain = plain.map(lambda i: [settle(TINY, NODES[kind], i)])
    choices = [plain, plain, plain]
    if depth < 3:
        count = st.integers(0, 3)
        choices.append(
            st.tuples(count, blocks(kind, depth + 1)).map(
                lambda t: [isa.LOOP(Address(0, t[0])), *t[1], isa.END()]
            )
        )
    return st.lists(st.one_of(choices), max_size=7).map(lambda parts: [i for p in parts for i in p])


@pytest.mark.parametrize("kind", "CV")
def test_random_programs(kind: str) -> None:
    @QUICK
    @given(blocks(kind), st.integers(0, 1 << 30))
    def run(program: list[Instruction], seed: int) -> None:
        check(kind, b"".join(map(isa.encode, [*program[:200], isa.HALT()])), seed)

    run()


@pytest.mark.parametrize("kind", "CV")
def test_hostile_words(kind: str) -> None:
    """Bits flipped anywhere, in programs whose loops need not match."""

    @QUICK
    @given(
        st.lists(any_instruction(kind), min_size=1, max_size=12),
        st.integers(0, 255),
        st.integers(0, 1 << 30),
    )
    def run(program: list[Instruction], bit: int, seed: int) -> None:
        program = [settle(TINY, NODES[kind], i) for i in program[:-1]] + program[-1:]
        words = [int.from_bytes(isa.encode(i), "little") for i in program]
        words[seed % len(words)] ^= 1 << bit
        check(kind, b"".join(w.to_bytes(WORD_BYTES, "little") for w in words), seed)

    run()


@pytest.mark.parametrize("kind", "CV")
def test_every_bit_of_every_record(kind: str) -> None:
    """A program of one instruction, bits of it flipped: legal or not is what counts."""
    rng = np.random.default_rng(5)

    @settings(QUICK, max_examples=12)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        for record in isa.records(kind):
            i = settle(TINY, NODES[kind], data.draw(instructions(record)))
            word = int.from_bytes(isa.encode(i), "little")
            for bit in rng.integers(0, 256, 6):
                flipped = (word ^ 1 << int(bit)).to_bytes(WORD_BYTES, "little")
                wanted = expected(TINY, NODES[kind], flipped, limit=40)
                found, _ = outcome(bench(kind), NODES[kind], flipped, rng, 200)
                assert wanted is None or found == wanted, record.name

    run()


@pytest.mark.parametrize("body", [1, 2, 13, 14, 15, 16, 17, 18, 31, 40])
@pytest.mark.parametrize("outer", [False, True])
def test_bodies_that_fit_are_fetched_once(body: int, outer: bool) -> None:
    """Of `body` words with END, in a buffer of 16; what does not fit runs all the same."""
    inside = [isa.ADDA(1, 1, n) for n in range(body - 1)]
    program = [isa.LOOP(Address(0, 3)), *inside, isa.END()]
    if outer:
        program = [isa.LOOP(Address(0, 2)), isa.SYNC(1), *program, isa.SYNC(0), isa.END()]
    program += [isa.GEMM(Address(1, 0), Address(0, 1), Address(1, 2), 1, 1, 1, 0, 0,
                         isa.Flag(False, 1)), isa.HALT()]  # fmt: skip
    for seed in range(3):
        fetched = check("C", b"".join(map(isa.encode, program)), seed)
        fits = body + 4 <= 16 if outer else body <= 16
        assert fetched is not None
        assert (fetched == len(program)) is fits


def test_depth() -> None:
    for depth in (LOOP_DEPTH, LOOP_DEPTH + 1):
        loops = [isa.LOOP(Address(0, 1))] * depth
        program = [*loops, isa.SYNC(2), *[isa.END()] * depth, isa.HALT()]
        assert check("V", b"".join(map(isa.encode, program)), depth) is not None
    skipped = [isa.LOOP(Address(0, 0)), *[isa.LOOP(Address(0, 1))] * 12, *[isa.END()] * 13]
    for tail in ([isa.HALT()], [isa.END()], []):
        assert check("V", b"".join(map(isa.encode, [*skipped, *tail])), 3) is not None
