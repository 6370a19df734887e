"""EXEC against the golden machine, to the bit."""

from random import Random
from typing import Any

import pytest

from hw.sim.session import Session
from hw.vector.core import VectorCore
from kohakutpu import isa
from kohakutpu.isa import Address, Destination, Instruction, Source
from tests.hw.vector.bench import TAIL, Bench
from tests.hw.vector.configuration import L1_WORDS, OUT, OWN, REGISTERS, bench_of, machine
from tests.hw.vector.test_transfers import drain, fill, random_drain, random_fill
from tests.isa.strategies import INTERESTING_FP32

pytestmark = pytest.mark.cocotb

LANES = (4, 16)
HALF = L1_WORDS // 2  # EXEC works in one half of L1, fills and drains in the other
F = ("mac", "mac", "mac", "max", "min", "lt", "le", "eq", "select")
UNARY = ("none", "none", "abs", "neg", "exp2", "log2", "recip", "rsqrt")


@pytest.fixture(scope="module")
def sessions() -> dict[int, Session]:
    built = {lanes: machine(lanes) for lanes in LANES}
    return {lanes: Session(VectorCore(m, m.nodes[OWN])) for lanes, m in built.items()}


def window(random: Random, kind: str, rows: int, cols: int, lanes: int) -> tuple[int, int] | None:
    """Return base and stride of a window that fits the first half of L1, or None."""
    granule, room = {"reg": (lanes, REGISTERS), "l1h": (16, HALF), "l1f": (8, HALF)}[kind]
    span = -(-cols // granule)
    strides = [s for s in (span, span, span + 1, 2 * span, 0) if (rows - 1) * s + span <= room]
    if not strides:
        return None
    stride = random.choice(strides)
    return random.randint(0, room - (rows - 1) * stride - span), stride


def source(random: Random, rows: int, cols: int, lanes: int, kinds: list[str]) -> Source:
    kind = random.choice(kinds)
    if kind == "none":
        return Source.none()
    if kind == "row" and -(-rows // lanes) <= REGISTERS:
        return Source.row(Address(0, random.randint(0, REGISTERS - -(-rows // lanes))))
    if kind in ("reg", "l1h", "l1f"):
        place = window(random, kind, rows, cols, lanes)
        if place is not None:
            return Source(kind, 0, Address(0, place[0]), place[1])
    bits = random.choice((*INTERESTING_FP32, random.getrandbits(32), 0x3F000000))
    return Source.imm_bits(bits)


def random_exec(random: Random, lanes: int, most: int = 100) -> Instruction:
    """Often legal; of at most `most` columns, and rows."""
    rows = min(random.choice((1, 1, 2, 3, 4, 5, 8, 17, 33)), most)
    cols = random.choice((1, 2, lanes - 1, lanes, lanes + 1, 7, 8, 9, 15, 16, 17, 24, 25, 48, 100))
    cols = min(cols, most)
    f = random.choice(F)
    kinds = ["reg", "reg", "l1h", "l1h", "l1f", "l1f", "row", "imm"]
    a = source(random, rows, cols, lanes, kinds)
    b = source(random, rows, cols, lanes, [*kinds, "none"] if f == "mac" else kinds)
    third = [*kinds, "none"] if f == "mac" else kinds
    if a.kind[0] == "l" and b.kind[0] == "l":
        third = [kind for kind in third if kind[0] != "l"]
    c = source(random, rows, cols, lanes, third) if f in ("mac", "select") else Source.none()
    kind = random.choice(("reg", "l1h", "l1f", "none"))
    place = window(random, kind, rows, cols, lanes) if kind != "none" else None
    dst = Destination("none")
    same = [s for s in (a, b, c) if s.kind == kind]
    if same and random.random() < 0.4:
        dst = Destination(kind, same[0].base, same[0].stride)
    elif place is not None:
        dst = Destination(kind, Address(0, place[0]), place[1])
    reduce, red = random.choice(("none", "sum", "max", "min")), Address(0, 0)
    if reduce != "none":
        scalars = [s for s in (a, b, c) if s.kind == "row"]
        red = Address(0, random.randint(0, REGISTERS - -(-rows // lanes)))
        if scalars and random.random() < 0.5:
            red = scalars[0].base
    return isa.EXEC(rows=rows, cols=cols, f=f, a=a, b=b, c=c, unary=random.choice(UNARY), dst=dst,
                    reduce=reduce, red=red)  # fmt: skip


def load(bench: Bench, random: Random, lanes: int) -> None:
    """Bring memory into L1 and registers."""
    bench.run([fill(mem=4 * random.randrange(OUT - L1_WORDS), rows=1, cols=16 * L1_WORDS)])
    cols = lanes * REGISTERS
    while cols * 4 > 32 * L1_WORDS:
        cols //= 2
    registers = Destination("reg", Address(0, 0), 0)
    for base in range(0, REGISTERS, cols // lanes):
        registers = Destination("reg", Address(0, base), 0)
        move = {"rows": 1, "cols": cols, "f": "mac", "a": Source.l1f(Address(0, 0), 0)}
        bench.run([isa.EXEC(**move, dst=registers)])


def compare(bench: Bench, lanes: int) -> None:
    """Bring L1 and registers to memory, and compare."""
    bench.run([drain(rows=1, cols=16 * L1_WORDS)])
    bench.check_memory()
    cols = min(lanes * REGISTERS, 8 * L1_WORDS)
    for base in range(0, REGISTERS, cols // lanes):
        move: dict[str, Any] = {"a": Source.reg(Address(0, base), 0), "rows": 1, "cols": cols}
        bench.run([isa.EXEC(**move, f="mac", dst=Destination("l1f", Address(0, 0), 0))])
        bench.run([drain(rows=1, cols=cols, format="fp32")])
        bench.check_memory()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lanes", LANES)
def test_programs(sessions: dict[int, Session], lanes: int, seed: int) -> None:
    bench, random = bench_of(sessions[lanes], seed, lanes), Random(seed)
    load(bench, random, lanes)
    legal = 0
    while legal < 40:
        instruction = random_exec(random, lanes)
        if bench.expect(instruction) is None:
            bench.give(instruction, legal)
            legal += 1
            if legal % 8 == 0 or seed == 0:
                bench.settle()
            if seed == 0:
                compare(bench, lanes)
    bench.settle()
    compare(bench, lanes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lanes", LANES)
def test_small_ones_that_overtake_nothing(
    sessions: dict[int, Session], lanes: int, seed: int
) -> None:
    # Windows of a few beats rarely meet: most instructions start while one is still in the pipe.
    bench, random = bench_of(sessions[lanes], 70 + seed, lanes), Random(70 + seed)
    bench.patience = (1.0, 1.0, 1.0)
    load(bench, random, lanes)
    for _ in range(3):
        given = 0
        while given < 60:
            instruction = random_exec(random, lanes, 9)
            if bench.expect(instruction) is None:
                bench.give(instruction, given)
                given += 1
        bench.settle()
        compare(bench, lanes)


def cycles(bench: Bench, todo: list[Instruction]) -> int:
    for pc, instruction in enumerate(todo):
        bench.give(instruction, pc)
        assert bench.expect(instruction) is None
    before = bench.cycle
    bench.settle()
    return bench.cycle - before - TAIL


def test_a_beat_a_cycle(sessions: dict[int, Session]) -> None:
    bench = bench_of(sessions[16], 0, 16)
    bench.patience = (1.0, 1.0, 1.0)
    load(bench, Random(0), 16)
    beats = 16 * 4
    window = {"rows": 16, "cols": 64, "f": "mac"}
    a, b = Source.l1h(Address(0, 0), 4), Source.l1h(Address(0, 62), 4)
    to = [Destination("l1h", Address(0, base), 4) for base in (128, 192)]
    one = isa.EXEC(**window, a=a, b=b, c=Source.imm(1.0), dst=to[0])
    other = isa.EXEC(**window, a=a, b=b, dst=to[1], reduce="sum", red=Address(0, 0))
    assert cycles(bench, [one]) <= beats + 60
    # A sum takes longer than 64 beats to come out, and only two are on their way.
    assert cycles(bench, [one, other] * 4) <= 8 * beats + 200
    again = isa.EXEC(**window, a=Source.l1h(Address(0, 128), 4), dst=to[1])
    assert cycles(bench, [one, again] * 4) <= 8 * (beats + 40)  # each waits for the one before
    compare(bench, 16)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lanes", LANES)
def test_beside_transfers(sessions: dict[int, Session], lanes: int, seed: int) -> None:
    bench, random = bench_of(sessions[lanes], 50 + seed, lanes), Random(seed)
    load(bench, random, lanes)
    for _ in range(4):
        given = 0
        while given < 30:
            choose = random.choice((random_fill, random_drain, None))
            if choose is None:
                instruction = random_exec(random, lanes)
            elif choose is random_fill:
                instruction = random_fill(random, HALF, HALF + 64)
            else:
                instruction = random_drain(random, HALF + 64, L1_WORDS)
            if getattr(instruction, "to", "memory") == "memory":
                if bench.expect(instruction) is None:
                    bench.give(instruction, given)
                    given += 1
        bench.settle()
        bench.check_memory()
    compare(bench, lanes)
    bench.check_remote()
