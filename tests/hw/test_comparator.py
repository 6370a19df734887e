import numpy as np
import pytest

from hw.arithmetic.comparator import Choice, Comparator
from hw.sim.simulator import Simulator
from kohakutpu.numerics import fp32
from kohakutpu.numerics.scalar import fp32 as scalar
from tests.hw import vectors

pytestmark = pytest.mark.cocotb

SCALAR = {
    Choice.MAX: scalar.maximum,
    Choice.MIN: scalar.minimum,
    Choice.LT: scalar.lt,
    Choice.LE: scalar.le,
    Choice.EQ: scalar.eq,
}
VECTOR = {
    Choice.MAX: fp32.maximum,
    Choice.MIN: fp32.minimum,
    Choice.LT: fp32.lt,
    Choice.LE: fp32.le,
    Choice.EQ: fp32.eq,
}


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(Comparator())


@pytest.mark.parametrize("op", list(SCALAR), ids=lambda op: op.name)
def test_boundary(simulator: Simulator, op: Choice) -> None:
    a, b = vectors.boundary_pairs()
    expected = vectors.each(SCALAR[op], a, b)
    actual = simulator.stream(Comparator.latency, a=a, b=b, c=0x12345678, op=op.value)["o"]
    vectors.assert_same(actual, expected, a, b)


@pytest.mark.parametrize("op", list(VECTOR), ids=lambda op: op.name)
def test_random(simulator: Simulator, op: Choice) -> None:
    a, c = vectors.random_codes(1), vectors.random_codes(2)
    for b in (vectors.random_codes(3), vectors.random_near(a, 4, 1), a, a ^ 0x80000000):
        result = VECTOR[op](a.view(np.float32), b.view(np.float32))
        expected = fp32.canonical(result).view(np.uint32)
        actual = simulator.stream(Comparator.latency, a=a, b=b, c=c, op=op.value)["o"]
        vectors.assert_same(actual, expected, a, b)


def test_select(simulator: Simulator) -> None:
    a, c = vectors.boundary_pairs()
    b = vectors.random_codes(5, a.size)
    expected = vectors.each(scalar.select, c, a, b)
    actual = simulator.stream(Comparator.latency, a=a, b=b, c=c, op=Choice.SELECT.value)["o"]
    vectors.assert_same(actual, expected, a, b, c)
