from collections.abc import Callable

import numpy as np
import pytest

from hw.arithmetic.adder import Adder, Combine
from hw.sim.simulator import Simulator
from kohakutpu.numerics import fp32
from kohakutpu.numerics.scalar import fp32 as scalar
from tests.hw import vectors

pytestmark = pytest.mark.cocotb

SCALAR = {Combine.SUM: scalar.add, Combine.MAX: scalar.maximum, Combine.MIN: scalar.minimum}
VECTOR = {Combine.SUM: fp32.add, Combine.MAX: fp32.maximum, Combine.MIN: fp32.minimum}
ops = pytest.mark.parametrize("op", list(Combine), ids=lambda op: op.name)


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(Adder())


def codes(function: Callable, a: vectors.Codes, b: vectors.Codes) -> vectors.Codes:
    return fp32.canonical(function(a.view(np.float32), b.view(np.float32))).view(np.uint32)


@ops
def test_boundary(simulator: Simulator, op: Combine) -> None:
    a, b = vectors.boundary_pairs()
    expected = vectors.each(SCALAR[op], a, b)
    actual = simulator.stream(Adder.latency, a=a, b=b, op=op.value)["o"]
    vectors.assert_same(actual, expected, a, b)


@ops
def test_random(simulator: Simulator, op: Combine) -> None:
    a = vectors.random_codes(1)
    for b in (vectors.random_codes(2), vectors.random_near(a, 3), a ^ 0x80000000, a):
        actual = simulator.stream(Adder.latency, a=a, b=b, op=op.value)["o"]
        vectors.assert_same(actual, codes(VECTOR[op], a, b), a, b)


def test_without_orders() -> None:
    simulator = Simulator(Adder(orders=False))
    pairs = [vectors.boundary_pairs()]
    a = vectors.random_codes(6)
    pairs += [(a, vectors.random_codes(7)), (a, vectors.random_near(a, 8)), (a, a ^ 0x80000000)]
    for a, b in pairs:
        actual = simulator.stream(Adder.latency, a=a, b=b, op=Combine.SUM.value)["o"]
        vectors.assert_same(actual, codes(fp32.add, a, b), a, b)


def test_operations_interleave(simulator: Simulator) -> None:
    a, b = vectors.random_codes(4, 3000), vectors.random_codes(5, 3000)
    op = np.arange(a.size) % len(Combine)
    actual = simulator.stream(Adder.latency, a=a, b=b, op=op)["o"]
    choices = [codes(VECTOR[each], a, b) for each in Combine]
    vectors.assert_same(actual, np.choose(op, choices), a, b)


def test_by_hand(simulator: Simulator) -> None:
    a = [0x3F800000, 0x3F800000, 0x3F800001, 0x7F7FFFFF, 0x00800001, 0x80000000]
    b = [0x33800000, 0x33800001, 0x33800000, 0x73000000, 0x80800000, 0x80000001]
    o = [0x3F800000, 0x3F800001, 0x3F800002, 0x7F800000, 0x00000000, 0x80000000]
    actual = simulator.stream(Adder.latency, a=a, b=b, op=Combine.SUM.value)["o"]
    vectors.assert_same(actual, np.array(o, np.uint32), np.array(a), np.array(b))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_long_search(simulator: Simulator, seed: int) -> None:
    a = vectors.random_codes(seed)
    for b in (vectors.random_codes(seed + 1000), vectors.random_near(a, seed)):
        actual = simulator.stream(Adder.latency, a=a, b=b, op=Combine.SUM.value)["o"]
        vectors.assert_same(actual, codes(fp32.add, a, b), a, b)
