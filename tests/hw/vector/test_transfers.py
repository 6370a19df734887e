"""VFILL and VDRAIN against the golden machine."""

from random import Random
from typing import Any

import pytest

from hw.sim.session import Session
from hw.vector.core import VectorCore
from kohakutpu import isa
from kohakutpu.isa import Address, Extent, Instruction
from tests.hw.vector.configuration import CLUSTERS, OTHER, OUT, OWN, bench_of, machine

pytestmark = pytest.mark.cocotb

MACHINE = machine(4)


LANES = (4, 16)  # a quarter at a time, a word at a time


@pytest.fixture(scope="module", params=LANES)
def session(request: pytest.FixtureRequest) -> Session:
    built = machine(request.param)
    return Session(VectorCore(built, built.nodes[OWN]))


def words(cols: int, size: int) -> int:
    return -(-cols * size // 32)


def fill(**operands: Any) -> Instruction:
    given = {"mem": 0, "stride": 0, "l1": 0, "l1_stride": 0, "format": "fp16", "nodes": 0}
    given |= operands
    given["row_extent"] = Extent(given.get("row_extent", given["rows"]), 0)
    given["col_extent"] = Extent(given.get("col_extent", given["cols"]), 0)
    return isa.VFILL(**given | {name: Address(0, given[name]) for name in ("mem", "l1")})


def drain(**operands: Any) -> Instruction:
    given = {"mem": 4 * OUT, "stride": 0, "l1": 0, "l1_stride": 0, "format": "fp16", "order": "row",
             "to": "memory"} | operands  # fmt: skip
    given["row_extent"] = Extent(given.get("row_extent", given["rows"]), 0)
    given["col_extent"] = Extent(given.get("col_extent", given["cols"]), 0)
    return isa.VDRAIN(**given | {name: Address(0, given[name]) for name in ("mem", "l1")})


def random_fill(random: Random, low: int = 0, high: int = MACHINE.vl1_words) -> Instruction:
    """A fill of words from `low` up to `high`; rows may overlap."""
    size = random.choice((2, 4))
    rows, room = random.choice((1, 1, 2, 3, 5, 9)), high - low
    cols = random.randint(1, min(200, room * 32 // size // 2))
    width = words(cols, size)
    stride = random.choice((width, width, random.randint(0, max((room - width) // rows, 0))))
    if (rows - 1) * stride + width > room:
        rows = 1
    base = low + random.randint(0, room - (rows - 1) * stride - width)
    return fill(
        mem=random.randrange(4 * 1024), stride=random.choice((0, 1, width, 17)), l1=base,
        l1_stride=stride, rows=rows, cols=cols, format="fp16" if size == 2 else "fp32",
        row_extent=random.choice((rows, rows, random.randint(0, rows))),
        col_extent=random.choice((cols, cols, random.randint(0, cols))),
        nodes=random.choice((0, 0, 1 << OWN, 1 << OTHER, 1 << OWN | 1 << OTHER)),
    )  # fmt: skip


def random_drain(random: Random, low: int = 0, high: int = MACHINE.vl1_words) -> Instruction:
    size = random.choice((2, 4))
    order, to = random.choice(("row", "tile")), random.choice(("memory", "memory", "vector", "l1"))
    if to == "l1":
        size = 2
    room = high - low
    while True:
        rows, cols = random.choice((1, 2, 3, 4, 8, 11)), random.randint(1, 140)
        if order == "tile":
            rows, cols = max(rows & ~3, 4), max(cols & ~3, 4)
            span, lines = cols // 4 * (size // 2), rows // 4
        else:
            span, lines = words(cols, size), rows
        stride = random.choice((span, 0, span + 3, random.randint(0, 20)))
        if (lines - 1) * stride + span <= room:
            break
    width = words(cols, size)
    operands: dict[str, Any] = {
        "l1": low + random.randint(0, room - (lines - 1) * stride - span), "l1_stride": stride,
        "rows": rows, "cols": cols, "format": "fp16" if size == 2 else "fp32", "order": order,
        "row_extent": random.choice((rows, rows, random.randint(0, rows))),
        "col_extent": random.choice((cols, cols, random.randint(0, cols))),
        "mem": 4 * OUT + random.randrange(512), "stride": width + random.randrange(4),
    }  # fmt: skip
    if to == "vector":
        gap = random.choice((width, width + 1, random.randrange(width + 1)))
        while (rows - 1) * gap + width > MACHINE.vl1_words:
            gap -= 1
        base = random.randint(0, MACHINE.vl1_words - (rows - 1) * gap - width)
        operands |= {"to": "node", "nodes": 1 << OTHER, "mem": base, "stride": gap}
    elif to == "l1":
        blocks, groups = -(-cols // 32), -(-rows // 4)
        nodes = random.choice((1 << CLUSTERS[0], 1 << CLUSTERS[1], sum(1 << n for n in CLUSTERS)))
        base = random.randint(0, MACHINE.l1_entries - groups * blocks)
        buffer, residual = random.choice(("l1a", "l1b")), random.random() < 0.5
        operands |= {"to": "node", "nodes": nodes, "mem": base, "stride": blocks}
        operands |= {"buffer": buffer, "residual": residual}
    return drain(**operands)


@pytest.mark.parametrize("seed", range(12))
def test_fills_and_drains_one_after_another(session: Session, seed: int) -> None:
    bench, random = bench_of(session, seed), Random(seed)
    bench.run([fill(rows=1, cols=16 * 256, l1_stride=0)])
    for _ in range(25):
        bench.run([random_fill(random)])
        instruction = random_drain(random)
        bench.run([instruction])
        if instruction.buffer != "vector":
            bench.check_entries(instruction)
        bench.check_memory()
        bench.check_remote()
    bench.run([drain(rows=1, cols=16 * 256)])
    bench.check_memory()


@pytest.mark.parametrize("seed", range(6))
def test_engines_at_once(session: Session, seed: int) -> None:
    bench, random = bench_of(session, 100 + seed), Random(seed)
    bench.run([fill(rows=1, cols=16 * 256)])
    for _ in range(12):
        fills = [random_fill(random, 0, 128) for _ in range(4)]
        drains = [random_drain(random, 128, 256) for _ in range(4)]
        drains = [d for d in drains if d.to == "memory"]
        bench.run([i for pair in zip(fills, drains, strict=False) for i in pair])
        bench.check_memory()
    bench.run([drain(rows=1, cols=16 * 256)])
    bench.check_memory()
    bench.check_remote()
