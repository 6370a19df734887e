"""Small machines with two vector cores, and data for them."""

from random import Random

import numpy as np

from hw.sim.session import Session
from kohakutpu.config import Machine
from tests.hw.vector.bench import Bench

OUT = 2048  # the word of memory from which on drains write
L1_WORDS = 256
REGISTERS = 64


def machine(lanes: int) -> Machine:
    return Machine("test", "C V\nM H\nC V", lanes=lanes, l1_entries=64, acc_subtiles=16,
                   vl1_words=L1_WORDS, registers=REGISTERS, dram_words=1 << 12)  # fmt: skip


OWN, OTHER = (node.id for node in machine(4).of_kind("V"))
CLUSTERS = [node.id for node in machine(4).of_kind("C")]


def bench_of(session: Session, seed: int, lanes: int = 4) -> Bench:
    """Begin again: memory full of any codes, or of numbers near 1, in FP16 or FP32."""
    random, rng = Random(seed), np.random.default_rng(seed)
    bench = Bench(session, machine(lanes), OWN, seed)
    halves = rng.normal(0, 2, 16 * OUT // 4).astype("<f2").tobytes()
    singles = rng.normal(0, 2, 8 * OUT // 4).astype("<f4").tobytes()
    bench.start(rng.bytes(16 * OUT) + halves + singles)
    bench.patience = tuple(random.choice((0.2, 0.6, 1.0)) for _ in range(3))
    return bench
